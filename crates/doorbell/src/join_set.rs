//! [`JoinSet`]: tasks with one type of output that are awaited as they end.

use crate::large::boxed_if_large;
use crate::wakers::contained;
use crate::{CoreId, JoinError, JoinHandle, coop};
use doorbell_core::task::Join;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

/// Tasks with one type of output, awaited in the order in which they end.
///
/// Dropping the set aborts all of its tasks. The cost of awaiting a task that has ended does not depend on
/// the number of tasks in the set.
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
    tasks: FuturesUnordered<Ending<T>>,
    /// A task that has ended, whose result waits until the budget of a poll allows it to be taken.
    ended: Option<Join<T>>,
}

/// Waits until a task has ended, and leaves its result in it.
struct Ending<T>(Option<Join<T>>);

impl<T> Future for Ending<T> {
    type Output = Join<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Join<T>> {
        let task = self.0.as_mut();
        let task = task.expect("a set does not poll a task again that has ended");
        ready!(task.poll_complete(cx));
        Poll::Ready(self.0.take().expect("it was there above"))
    }
}

// By hand: a panic of a user's leaves it whole: it runs none of a user's code while it changes.
impl<T> std::panic::UnwindSafe for JoinSet<T> {}
impl<T> std::panic::RefUnwindSafe for JoinSet<T> {}

impl<T> std::fmt::Debug for JoinSet<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JoinSet").field("len", &self.len()).finish()
    }
}

impl<T> Default for JoinSet<T> {
    fn default() -> Self {
        JoinSet {
            tasks: FuturesUnordered::new(),
            ended: None,
        }
    }
}

impl<T> JoinSet<T> {
    /// An empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of tasks in the set: those whose result has not been taken out.
    pub fn len(&self) -> usize {
        self.tasks.len() + usize::from(self.ended.is_some())
    }

    /// Whether the set has no tasks.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a task that was spawned elsewhere.
    ///
    /// ```
    /// # let runtime = doorbell::Builder::new().cores(1).build().unwrap();
    /// let mut set = doorbell::JoinSet::new();
    /// set.insert(runtime.spawn(async { 1 }));
    /// assert_eq!(runtime.block_on(set.join_next()).unwrap().unwrap(), 1);
    /// ```
    pub fn insert(&mut self, task: JoinHandle<T>) {
        self.tasks.push(Ending(Some(task.into_join())));
    }

    /// Waits for the next task that ends and takes it out of the set. `None` if the set is empty.
    ///
    /// Dropping the returned future loses nothing: the task stays in the set.
    ///
    /// # Errors
    /// [`JoinError`] says how the task ended without an output.
    pub async fn join_next(&mut self) -> Option<Result<T, JoinError>> {
        poll_fn(|cx| self.poll_join_next(cx)).await
    }

    /// As [`JoinSet::join_next`], for code that polls.
    ///
    /// # Errors
    /// [`JoinError`] says how the task ended without an output.
    pub fn poll_join_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<T, JoinError>>> {
        ready!(self.poll_found(cx));
        ready!(coop::allow(cx));
        Poll::Ready(self.take_found())
    }

    /// As [`JoinSet::poll_join_next`], without counting against the poll budget.
    pub(crate) fn poll_ended(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<T, JoinError>>> {
        self.poll_found(cx).map(|()| self.take_found())
    }

    /// Ready when a task has ended, or if the set is empty.
    fn poll_found(&mut self, cx: &Context<'_>) -> Poll<()> {
        if self.ended.is_none() {
            // After a panic of a waker inside it, `FuturesUnordered` would never wake again.
            self.ended = ready!(contained(cx, |cx| self.tasks.poll_next_unpin(cx)));
        }
        Poll::Ready(())
    }

    fn take_found(&mut self) -> Option<Result<T, JoinError>> {
        self.ended.take().map(|mut task| task.take())
    }

    /// Takes a task that has ended out of the set. `None` if no task has ended, or if the set is empty.
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

    /// Aborts all tasks. They stay in the set; each gives [`JoinError::Cancelled`] unless it had ended
    /// before.
    pub fn abort_all(&self) {
        for task in self.tasks.iter().filter_map(|task| task.0.as_ref()) {
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

    /// Empties the set and lets its tasks run on.
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
        self.ended = None;
    }
}

impl<T: Send + 'static> JoinSet<T> {
    /// Spawns a task that may run on any core of the current runtime, and adds it to the set.
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

    /// Spawns a task that is pinned to a core of the current runtime, and adds it to the set.
    ///
    /// # Panics
    /// If there is no runtime on this thread, if the runtime has no such core, or if that core is off.
    /// [`TaskBuilder::try_spawn`](crate::TaskBuilder::try_spawn) with [`JoinSet::insert`] gives an error
    /// instead.
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
