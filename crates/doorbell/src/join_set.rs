//! [`JoinSet`]: tasks with one type of output that are awaited as they end.

use crate::large::boxed_if_large;
use crate::wakers::contained;
use crate::{AbortHandle, BlockingHandle, CoreId, JoinError, JoinHandle, TaskId, coop};
use doorbell_core::task::Join;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use std::future::poll_fn;
use std::panic::resume_unwind;
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

    /// Adds a task that was spawned elsewhere. Returns a handle that aborts it.
    ///
    /// ```
    /// # let runtime = doorbell::Builder::new().cores(1).build().unwrap();
    /// let mut set = doorbell::JoinSet::new();
    /// set.insert(runtime.spawn(async { 1 }));
    /// assert_eq!(runtime.block_on(set.join_next()).unwrap().unwrap(), 1);
    /// ```
    pub fn insert(&mut self, task: JoinHandle<T>) -> AbortHandle {
        let abort = task.abort_handle();
        self.push(task);
        abort
    }

    /// As [`JoinSet::insert`].
    pub(crate) fn push(&mut self, task: JoinHandle<T>) {
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
        self.take_found_with_id().map(|(_, result)| result)
    }

    fn take_found_with_id(&mut self) -> Option<(TaskId, Result<T, JoinError>)> {
        let mut task = self.ended.take()?;
        Some((TaskId::new(task.id()), task.take()))
    }

    /// As [`JoinSet::join_next`], with the number of the task.
    ///
    /// ```
    /// # doorbell::Builder::new().cores(1).build().unwrap().block_on(async {
    /// let mut set = doorbell::JoinSet::new();
    /// let (first, second) = (set.spawn(async { 1 }), set.spawn(std::future::pending()));
    /// second.abort();
    /// while let Some((id, result)) = set.join_next_with_id().await {
    ///     assert_eq!(result.is_ok(), id == first.id());
    /// }
    /// # });
    /// ```
    pub async fn join_next_with_id(&mut self) -> Option<(TaskId, Result<T, JoinError>)> {
        poll_fn(|cx| {
            ready!(self.poll_found(cx));
            ready!(coop::allow(cx));
            Poll::Ready(self.take_found_with_id())
        })
        .await
    }

    /// Waits for all tasks. Returns their outputs, in the order in which the tasks ended.
    ///
    /// # Panics
    /// If a task panicked, with that panic, or if one was aborted. The other tasks are then aborted.
    ///
    /// ```
    /// # doorbell::Builder::new().cores(2).build().unwrap().block_on(async {
    /// let set: doorbell::JoinSet<_> = (1..=3).map(|i| async move { i * i }).collect();
    /// let mut squares = set.join_all().await;
    /// squares.sort_unstable();
    /// assert_eq!(squares, [1, 4, 9]);
    /// # });
    /// ```
    pub async fn join_all(mut self) -> Vec<T> {
        let mut outputs = Vec::with_capacity(self.len());
        while let Some(ended) = self.join_next().await {
            match ended.map_err(JoinError::try_into_panic) {
                Ok(output) => outputs.push(output),
                Err(Ok(panic)) => resume_unwind(panic),
                Err(Err(error)) => panic!("{error}"),
            }
        }
        outputs
    }

    /// Aborts the task of that number, for code that kept no [`AbortHandle`]. It stays in the set, and gives [`JoinError::Cancelled`] unless it had ended before.
    /// `false` if the set has no task of that number. The cost grows with the number of tasks in the set.
    pub fn abort(&self, id: TaskId) -> bool {
        let is_it = |task: &&Join<T>| task.id() == id.as_u64();
        let mut tasks = self.tasks.iter().filter_map(|task| task.0.as_ref());
        if let Some(task) = tasks.find(is_it) {
            task.cancel();
            return true;
        }
        self.ended.as_ref().is_some_and(|task| is_it(&task))
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
    /// Spawns a task that may run on any core of the current runtime, and adds it to the set. Returns a handle
    /// that aborts it. An aborted task stays in the set, and gives [`JoinError::Cancelled`] unless it had ended
    /// before.
    ///
    /// # Panics
    /// If there is no runtime on this thread; [`JoinSet::insert`] with
    /// [`Handle::spawn`](crate::Handle::spawn) works anywhere.
    #[track_caller]
    pub fn spawn<F>(&mut self, future: F) -> AbortHandle
    where
        F: Future<Output = T> + Send + 'static,
    {
        boxed_if_large!(future: F, Box::pin => self.insert(crate::spawn(future)))
    }

    /// Runs a blocking closure on a thread for such closures, as [`spawn_blocking`](crate::spawn_blocking()) does, and
    /// adds a task that waits for it to the set. If that task is aborted, a closure that has not begun does not run.
    ///
    /// # Panics
    /// As for [`spawn_blocking`](crate::spawn_blocking()).
    ///
    /// ```
    /// # doorbell::Builder::new().cores(1).build().unwrap().block_on(async {
    /// let mut set = doorbell::JoinSet::new();
    /// set.spawn_blocking(|| 7);
    /// assert_eq!(set.join_next().await.unwrap().unwrap(), 7);
    /// # });
    /// ```
    #[track_caller]
    pub fn spawn_blocking<F>(&mut self, f: F) -> AbortHandle
    where
        F: FnOnce() -> T + Send + 'static,
    {
        let mut closure = boxed_if_large!(f: F, Box::new => Withdrawn(crate::spawn_blocking(f)));
        self.spawn(async move {
            match (&mut closure.0).await.map_err(JoinError::try_into_panic) {
                Ok(output) => output,
                Err(Ok(panic)) => resume_unwind(panic),
                // The runtime ends, and cancels this task too.
                Err(Err(_)) => std::future::pending().await,
            }
        })
    }

    /// Spawns a task that is pinned to a core of the current runtime, and adds it to the set. Returns a handle
    /// that aborts it.
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
    pub fn spawn_on<F>(&mut self, core: impl Into<CoreId>, future: F) -> AbortHandle
    where
        F: Future<Output = T> + Send + 'static,
    {
        let task = crate::task().on(core);
        boxed_if_large!(future: F, Box::pin => self.insert(task.spawn(future)))
    }
}

/// A blocking closure that does not begin after this was dropped.
struct Withdrawn<T>(BlockingHandle<T>);

impl<T> Drop for Withdrawn<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Spawns the futures as tasks; see [`JoinSet::spawn`].
impl<F> Extend<F> for JoinSet<F::Output>
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    fn extend<I: IntoIterator<Item = F>>(&mut self, futures: I) {
        for future in futures {
            self.spawn(future);
        }
    }
}

/// Spawns the futures as tasks; see [`JoinSet::spawn`].
impl<F> FromIterator<F> for JoinSet<F::Output>
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    fn from_iter<I: IntoIterator<Item = F>>(futures: I) -> Self {
        let mut set = JoinSet::new();
        set.extend(futures);
        set
    }
}

impl<T> Drop for JoinSet<T> {
    fn drop(&mut self) {
        self.abort_all();
    }
}
