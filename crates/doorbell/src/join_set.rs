//! [`JoinSet`]: tasks of one kind that are awaited as they end.

use crate::large::boxed_if_large;
use crate::wakers::contained;
use crate::{CoreId, JoinError, JoinHandle, coop};
use doorbell_core::task::Join;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use std::future::poll_fn;
use std::task::{Context, Poll, Waker};

/// Tasks with one type of output, awaited in the order in which they end.
///
/// Dropping the set aborts all of them. A task that ends costs the set a fixed amount of work,
/// however many others there are.
///
/// ```
/// use doorbell::JoinSet;
///
/// # doorbell::Builder::new().cores(2).build().unwrap().block_on(async {
/// let mut set = JoinSet::new();
/// for i in 1..=10 {
///     set.spawn(async move { i * i });
/// }
/// let mut sum = 0;
/// while let Some(square) = set.join_next().await {
///     sum += square?;
/// }
/// assert_eq!(sum, 385);
/// # Ok::<(), doorbell::JoinError>(())
/// # }).unwrap();
/// ```
pub struct JoinSet<T> {
    /// Without the handles, which would count what the set counts.
    tasks: FuturesUnordered<Join<T>>,
}

impl<T> std::fmt::Debug for JoinSet<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JoinSet").field("len", &self.len()).finish()
    }
}

impl<T> Default for JoinSet<T> {
    fn default() -> Self {
        JoinSet {
            tasks: FuturesUnordered::new(),
        }
    }
}

impl<T> JoinSet<T> {
    /// A set without tasks.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many tasks are in the set: those whose end was not given out yet.
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Puts a task into the set that was spawned elsewhere.
    ///
    /// ```
    /// # let runtime = doorbell::Builder::new().cores(1).build().unwrap();
    /// let mut set = doorbell::JoinSet::new();
    /// set.insert(runtime.spawn(async { 1 }));
    /// assert_eq!(runtime.block_on(set.join_next()).unwrap().unwrap(), 1);
    /// ```
    pub fn insert(&mut self, task: JoinHandle<T>) {
        self.tasks.push(task.into_join());
    }

    /// Waits for the next task that ends and takes it out of the set. `None` if the set is empty.
    ///
    /// Nothing is lost if the returned future is dropped.
    ///
    /// # Errors
    /// [`JoinError`] says how the task ended without an output.
    pub async fn join_next(&mut self) -> Option<Result<T, JoinError>> {
        poll_fn(|cx| self.poll_join_next(cx)).await
    }

    /// As [`JoinSet::join_next`], to be polled by hand.
    ///
    /// # Errors
    /// [`JoinError`] says how the task ended without an output.
    pub fn poll_join_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<T, JoinError>>> {
        coop::poll(cx, |cx| self.poll_ended(cx))
    }

    /// As [`JoinSet::poll_join_next`], and nothing is counted.
    pub(crate) fn poll_ended(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<T, JoinError>>> {
        // If a waker panicked inside `FuturesUnordered`, it would wake nobody from then on.
        contained(cx, |cx| self.tasks.poll_next_unpin(cx))
    }

    /// Takes a task out of the set that has ended. `None` if there is none at the moment.
    ///
    /// # Errors
    /// [`JoinError`] says how the task ended without an output.
    ///
    /// ```
    /// # doorbell::Builder::new().cores(1).build().unwrap().block_on(async {
    /// let mut set = doorbell::JoinSet::new();
    /// set.spawn(std::future::pending::<()>());
    /// assert!(set.try_join_next().is_none());
    /// # });
    /// ```
    pub fn try_join_next(&mut self) -> Option<Result<T, JoinError>> {
        let mut cx = Context::from_waker(Waker::noop());
        match self.poll_ended(&mut cx) {
            Poll::Ready(ended) => ended,
            Poll::Pending => None,
        }
    }

    /// Aborts all tasks. They stay in the set, and give [`JoinError::Cancelled`] unless they had
    /// ended before.
    pub fn abort_all(&self) {
        for task in &self.tasks {
            task.cancel();
        }
    }

    /// Aborts all tasks and waits until they have ended. Their outputs and panics are dropped.
    ///
    /// ```
    /// # doorbell::Builder::new().cores(1).build().unwrap().block_on(async {
    /// let mut set = doorbell::JoinSet::new();
    /// set.spawn(std::future::pending::<()>());
    /// set.shutdown().await;
    /// assert!(set.is_empty());
    /// # });
    /// ```
    pub async fn shutdown(&mut self) {
        self.abort_all();
        while self.join_next().await.is_some() {}
    }

    /// Lets all tasks run on, unobserved, and empties the set.
    ///
    /// ```
    /// # doorbell::Builder::new().cores(1).build().unwrap().block_on(async {
    /// let mut set = doorbell::JoinSet::new();
    /// set.spawn(async {});
    /// set.detach_all();
    /// assert!(set.is_empty());
    /// # });
    /// ```
    pub fn detach_all(&mut self) {
        self.tasks.clear();
    }
}

impl<T: Send + 'static> JoinSet<T> {
    /// Spawns a task on any core of the current runtime and puts it into the set.
    ///
    /// # Panics
    /// If there is no runtime on this thread; [`JoinSet::insert`] with
    /// [`Handle::spawn`](crate::Handle::spawn) works anywhere.
    #[track_caller]
    pub fn spawn<F>(&mut self, future: F)
    where
        F: Future<Output = T> + Send + 'static,
    {
        boxed_if_large!(future: F, Box::pin => self.insert(crate::spawn(future)));
    }

    /// Spawns a task that stays on a core of the current runtime and puts it into the set.
    ///
    /// # Panics
    /// If there is no runtime on this thread, the runtime has no such core, or that core is off;
    /// [`JoinSet::insert`] with [`TaskBuilder::try_spawn`](crate::TaskBuilder::try_spawn) gives an
    /// error instead.
    ///
    /// ```
    /// # doorbell::Builder::new().cores(2).build().unwrap().block_on(async {
    /// let mut set = doorbell::JoinSet::new();
    /// set.spawn_on(1, async { doorbell::current_core() });
    /// let core = set.join_next().await.unwrap().unwrap();
    /// assert_eq!(core, Some(doorbell::CoreId::new(1)));
    /// # });
    /// ```
    #[track_caller]
    pub fn spawn_on<F>(&mut self, core: impl Into<CoreId>, future: F)
    where
        F: Future<Output = T> + Send + 'static,
    {
        let task = crate::task().on(core);
        boxed_if_large!(future: F, Box::pin => self.insert(task.spawn(future)));
    }
}

impl<T> Drop for JoinSet<T> {
    fn drop(&mut self) {
        self.abort_all();
    }
}
