//! Tasks whose futures are not `Send`: they are made, polled and dropped on one worker.

use crate::handle::Handle;
use crate::large::{BOXED_ABOVE, boxed_if_large};
use crate::{AbortHandle, CoreId, JoinError, JoinHandle, SpawnError, TaskId, ambient, coop};
use doorbell_core::task::{About, BodyVtable, Join, Phase, write_body};
use pin_project_lite::pin_project;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// A local task was spawned on a thread that is not a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "spawn_local was used on a thread that is no worker; use it in a task or in call_on(core, ..), or use spawn_local_on(core, ..), which works anywhere"
)]
pub struct NotAWorker;

/// Spawns a task on the worker that the caller runs on. Neither its future nor its output need be
/// `Send`: the task stays on this worker, and its future is dropped there.
///
/// The handle is not `Send` either, so only a local task can await it. [`spawn_local_on`] spawns the first
/// local task from any thread.
///
/// # Panics
/// If the calling thread is not a worker; a thread inside `block_on` is none. [`try_spawn_local`] returns an
/// error instead.
///
/// ```
/// use std::{cell::Cell, rc::Rc};
///
/// # doorbell::Builder::new().cores(1).build().unwrap().block_on(async {
/// let sum = doorbell::spawn_local_on(0, || async {
///     let shared = Rc::new(Cell::new(40));
///     let task = doorbell::spawn_local({
///         let shared = Rc::clone(&shared);
///         async move { shared.set(shared.get() + 2) }
///     });
///     task.await.unwrap();
///     shared.get()
/// });
/// assert_eq!(sum.await?, 42);
/// # Ok::<(), doorbell::JoinError>(())
/// # }).unwrap();
/// ```
#[doc(alias = "LocalSet")]
#[track_caller]
pub fn spawn_local<F>(future: F) -> LocalJoinHandle<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    let spawned = boxed_if_large!(future: F, Box::pin => spawn_here(future));
    match spawned {
        Ok(handle) => handle,
        Err(error) => panic!("{error}"),
    }
}

/// As [`spawn_local`], but returns an error instead of panicking.
///
/// # Errors
/// [`NotAWorker`] if the calling thread is not a worker.
///
/// ```
/// let refused = doorbell::try_spawn_local(async {});
/// assert_eq!(refused.unwrap_err(), doorbell::error::NotAWorker);
/// ```
#[track_caller]
pub fn try_spawn_local<F>(future: F) -> Result<LocalJoinHandle<F::Output>, NotAWorker>
where
    F: Future + 'static,
    F::Output: 'static,
{
    boxed_if_large!(future: F, Box::pin => spawn_here(future))
}

#[track_caller]
fn spawn_here<F>(future: F) -> Result<LocalJoinHandle<F::Output>, NotAWorker>
where
    F: Future + 'static,
    F::Output: 'static,
{
    // Here, as a closure does not have the caller's location.
    let about = About {
        stays: true,
        ..About::default()
    };
    ambient::with_worker(|worker| {
        let (worker, core) = worker
            .and_then(|l| Some((l, l.core()?)))
            .ok_or(NotAWorker)?;
        let mut body = Some(future);
        let mut write = |at: *mut u8| {
            let body = body.take().expect("a body is written once");
            // SAFETY: `launch` gives the address of an empty body of the type below.
            unsafe { write_body(at, body) };
        };
        // To this worker, whichever class it runs now and whichever workers have been started.
        // SAFETY: this thread is the worker, and a pinned task never leaves its worker: polled, cancelled or
        // refused, the future stays here. The handle that the output goes to is not Send.
        let raw = unsafe {
            let inner = worker.handle().inner();
            inner.launch_here(
                core,
                worker.kind(),
                worker.class(),
                about,
                BodyVtable::of::<F>(),
                &mut write,
            )
        };
        // SAFETY: the body's output is the future's.
        let join = unsafe { raw.typed() };
        Ok(LocalJoinHandle {
            join,
            stays: PhantomData,
        })
    })
}

/// Calls `make` on a worker of a core of the current runtime, and runs the future that it returns there, as a
/// task. The future need not be `Send`; its output must be. The task has the class of the calling task, and
/// runs on the worker that this class has on the core.
///
/// # Panics
/// If there is no runtime on this thread, if the runtime has no such core, or if that core is off.
/// [`Handle::try_spawn_local_on`] works on any thread and returns an error instead. A panic in `make` is a
/// panic of the task.
///
/// ```
/// use std::rc::Rc;
///
/// # doorbell::Builder::new().cores(2).build().unwrap().block_on(async {
/// let task = doorbell::spawn_local_on(1, || async {
///     let text = Rc::new("not Send");
///     doorbell::yield_now().await;
///     text.len()
/// });
/// assert_eq!(task.await?, 8);
/// # Ok::<(), doorbell::JoinError>(())
/// # }).unwrap();
/// ```
#[track_caller]
pub fn spawn_local_on<M, F>(core: impl Into<CoreId>, make: M) -> JoinHandle<F::Output>
where
    M: FnOnce() -> F + Send + 'static,
    F: Future + 'static,
    F::Output: Send + 'static,
{
    boxed_if_large!(make: M, Box::new => Handle::current().spawn_local_on(core, make))
}

impl Handle {
    /// Calls `make` on the worker of a core, and runs the future that it returns there, as a task; see
    /// [`spawn_local_on`](crate::spawn_local_on()).
    ///
    /// # Panics
    /// If the runtime has no such core, or if that core is off. [`Handle::try_spawn_local_on`] returns an
    /// error instead. A panic in `make` is a panic of the task.
    ///
    /// ```
    /// let runtime = doorbell::Builder::new().cores(1).build()?;
    /// let task = runtime.spawn_local_on(0, || async { *std::rc::Rc::new(2) });
    /// assert_eq!(runtime.block_on(task)?, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn spawn_local_on<M, F>(&self, core: impl Into<CoreId>, make: M) -> JoinHandle<F::Output>
    where
        M: FnOnce() -> F + Send + 'static,
        F: Future + 'static,
        F::Output: Send + 'static,
    {
        let spawned = boxed_if_large!(make: M, Box::new => self.spawn_made(core.into(), make));
        match spawned {
            Ok(join) => join,
            Err(error) => panic!("{error}"),
        }
    }

    /// As [`Handle::spawn_local_on`], but returns an error instead of panicking.
    ///
    /// # Errors
    /// [`SpawnError::NoSuchCore`], [`SpawnError::CoreOffline`] and [`SpawnError::RuntimeGone`]. `make` has
    /// then been dropped on the calling thread.
    ///
    /// ```
    /// let runtime = doorbell::Builder::new().cores(1).build()?;
    /// assert!(runtime.try_spawn_local_on(1, || async {}).is_err());
    /// # Ok::<(), doorbell::BuildError>(())
    /// ```
    #[track_caller]
    pub fn try_spawn_local_on<M, F>(
        &self,
        core: impl Into<CoreId>,
        make: M,
    ) -> Result<JoinHandle<F::Output>, SpawnError>
    where
        M: FnOnce() -> F + Send + 'static,
        F: Future + 'static,
        F::Output: Send + 'static,
    {
        self.check_running()?;
        boxed_if_large!(make: M, Box::new => self.spawn_made(core.into(), make))
    }

    #[track_caller]
    fn spawn_made<M, F>(&self, core: CoreId, make: M) -> Result<JoinHandle<F::Output>, SpawnError>
    where
        M: FnOnce() -> F + Send + 'static,
        F: Future + 'static,
        F::Output: Send + 'static,
    {
        let task = self.task().on(core).stays();
        if const { size_of::<F>() > BOXED_ABOVE } {
            // Boxed where it is made, so that neither thread moves the large future.
            return task.spawn_described(Stays::of(move || Box::pin(make())));
        }
        task.spawn_described(Stays::of(make))
    }
}

pin_project! {
    /// A future that is made on the worker that first polls it.
    struct Stays<M, F> {
        make: Option<M>,
        #[pin]
        future: Option<F>,
    }
}

impl<M, F> Stays<M, F>
where
    M: FnOnce() -> F,
{
    fn of(make: M) -> Self {
        Stays {
            make: Some(make),
            future: None,
        }
    }
}

// SAFETY: until the first poll there is only `make`, which is Send. This is only spawned as a pinned task,
// which is polled on one worker, and once polled is dropped there too.
unsafe impl<M: Send, F> Send for Stays<M, F> {}

impl<M: FnOnce() -> F, F: Future> Future for Stays<M, F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let mut this = self.project();
        if let Some(make) = this.make.take() {
            this.future.set(Some(make()));
        }
        let future = this.future.as_pin_mut();
        let future = future.expect("a task is not polled again after a panic");
        future.poll(cx)
    }
}

/// The handle of a task of [`spawn_local`], and a future of its output. Dropping it lets the task run on.
///
/// The handle is neither `Send` nor `Sync`, as the output need not be: it stays on its worker.
///
/// ```compile_fail
/// fn needs_send(_: impl Send) {}
/// fn try_it(handle: doorbell::local::LocalJoinHandle<u32>) {
///     needs_send(handle);
/// }
/// ```
///
/// # Errors
/// Awaiting it gives [`JoinError::Panicked`] or [`JoinError::Cancelled`].
///
/// # Panics
/// If it is polled again after it was ready.
#[derive(Debug)]
pub struct LocalJoinHandle<T> {
    join: Join<T>,
    stays: PhantomData<*const T>,
}

impl<T> LocalJoinHandle<T> {
    /// Cancels the task: its future is dropped instead of being polled again. Awaiting the handle then gives
    /// [`JoinError::Cancelled`], or the output if the task was complete before.
    pub fn abort(&self) {
        self.join.cancel();
    }

    /// Another handle that aborts the task. Unlike this one it may go to other threads.
    pub fn abort_handle(&self) -> AbortHandle {
        AbortHandle::new(self.join.canceller())
    }

    /// Whether the task is complete: it returned, panicked or was cancelled.
    pub fn is_finished(&self) -> bool {
        self.join.phase() == Phase::Complete
    }

    /// The number of the task; see [`TaskId`].
    ///
    /// ```
    /// # doorbell::Builder::new().cores(1).build().unwrap().block_on(async {
    /// let differ = doorbell::spawn_local_on(0, || async {
    ///     let (one, other) = (doorbell::spawn_local(async {}), doorbell::spawn_local(async {}));
    ///     one.id() != other.id()
    /// });
    /// assert!(differ.await.unwrap());
    /// # });
    /// ```
    pub fn id(&self) -> TaskId {
        TaskId::new(self.join.id())
    }
}

// By hand: a panic of a user's leaves it whole: it runs none of a user's code while it changes.
impl<T> std::panic::UnwindSafe for LocalJoinHandle<T> {}
impl<T> std::panic::RefUnwindSafe for LocalJoinHandle<T> {}

impl<T> Unpin for LocalJoinHandle<T> {}

impl<T> Future for LocalJoinHandle<T> {
    type Output = Result<T, JoinError>;

    #[track_caller]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        ready!(self.join.poll_complete(cx));
        ready!(coop::allow(cx));
        Poll::Ready(self.join.take())
    }
}
