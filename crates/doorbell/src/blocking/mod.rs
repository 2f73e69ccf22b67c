//! Blocking closures, on threads of their own.

mod ages;
mod apart;
mod count;
mod pool;
mod retry;
mod starter;

pub use pool::BlockingMetrics;
pub(crate) use pool::{Blocking, BlockingPlan, Open, Pool};

use crate::builder::{BuildError, Builder};
use crate::handle::Handle;
use crate::large::boxed_if_large;
use crate::wakers::contained;
use crate::{
    JoinError, ambient, coop,
    error::{Payload, ThreadError},
};
use async_lock::Mutex;
use async_task::FallibleTask;
use doorbell_core::quiet::Quiet;
use futures_util::future::AbortHandle;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

/// Why a blocking closure was not taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpawnBlockingError {
    /// The OS refused a thread for it, and there is no other one.
    #[error(transparent)]
    NoThread(#[from] ThreadError),
    /// The runtime has ended.
    #[error(
        "the runtime has ended: no blocking closure is run in it; keep the Runtime until all is done"
    )]
    RuntimeGone,
}

/// Runs a closure that may block, on a thread for such closures, and returns a future of its result.
///
/// A worker must not block: its other tasks and calls would wait. The runtime starts threads for blocking
/// closures when they are needed, up to [`Builder::blocking_threads`]. Further closures wait in a queue, in
/// order. A thread that has had nothing to do for [`Builder::blocking_keep_alive`] ends.
///
/// The threads may use every CPU that the thread that built the runtime could use, also if workers are bound
/// to CPUs. The OS schedules them as ordinary threads, whatever the class of the caller: above Batch workers.
///
/// The closure runs also if the handle is dropped. Inside it, the runtime is the current one:
/// [`spawn`](crate::spawn()) and [`Handle::call_blocking`] work.
///
/// When the runtime ends, closures that have not begun are dropped, and their handles give
/// [`JoinError::Cancelled`]. Closures that are under way cannot be stopped. Dropping the
/// [`Runtime`](crate::Runtime) waits for them, unless it happens on a worker or inside such a closure.
///
/// # Panics
/// If there is no runtime on this thread; [`Handle::spawn_blocking`] works anywhere. Also if the OS refuses a
/// thread and there is no other one; see [`Handle::try_spawn_blocking`].
///
/// ```
/// # doorbell::Builder::new().cores(1).build().unwrap().block_on(async {
/// let words = doorbell::spawn_blocking(|| std::fs::read_to_string("/proc/self/comm")).await?;
/// assert!(!words.unwrap().is_empty());
/// # Ok::<(), doorbell::JoinError>(())
/// # }).unwrap();
/// ```
#[doc(alias("block_in_place", "unblock"))]
#[track_caller]
pub fn spawn_blocking<F, R>(f: F) -> BlockingHandle<R>
where
    F: FnOnce() -> R + Send + 'static,
    R: Send + 'static,
{
    boxed_if_large!(f: F, Box::new => ambient::expect_current().handle().spawn_blocking(f))
}

impl Handle {
    /// Runs a blocking closure on a thread for such closures; see
    /// [`spawn_blocking`](crate::spawn_blocking()).
    ///
    /// # Panics
    /// If the OS refuses a thread and there is no other one; [`Handle::try_spawn_blocking`] returns an error
    /// instead.
    #[track_caller]
    pub fn spawn_blocking<F, R>(&self, f: F) -> BlockingHandle<R>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        let submitted = boxed_if_large!(f: F, Box::new => self.submit_blocking(f));
        match submitted {
            Ok(handle) => handle,
            Err(error) => panic!("{error}"),
        }
    }

    /// As [`Handle::spawn_blocking`], but returns an error instead of panicking.
    ///
    /// # Errors
    /// [`SpawnBlockingError::NoThread`] if the OS refuses a thread and there is no other one; the closure has
    /// then been dropped. If there are other threads, the closure waits for one of them; meanwhile the runtime
    /// asks the OS for a thread again ten times a second.
    /// [`SpawnBlockingError::RuntimeGone`] if the runtime has ended. If it ends during the call, the closure
    /// may be cancelled instead.
    ///
    /// ```
    /// let runtime = doorbell::Builder::new().cores(1).build()?;
    /// let sum = runtime.try_spawn_blocking(|| (1..=4).sum::<u32>())?;
    /// assert_eq!(runtime.block_on(sum)?, 10);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn try_spawn_blocking<F, R>(&self, f: F) -> Result<BlockingHandle<R>, SpawnBlockingError>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        if self.inner().has_ended() {
            return Err(SpawnBlockingError::RuntimeGone);
        }
        let submitted = boxed_if_large!(f: F, Box::new => self.submit_blocking(f));
        Ok(submitted?)
    }

    fn submit_blocking<F, R>(&self, f: F) -> Result<BlockingHandle<R>, ThreadError>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        let (abort, _) = AbortHandle::new_pair();
        let withdrawn = abort.clone();
        let f = Quiet::of(f);
        let body = async move {
            if withdrawn.is_aborted() {
                drop(f);
                return Quiet::of(Err(JoinError::Cancelled));
            }
            let run = AssertUnwindSafe(move || f.take()());
            let result = catch_unwind(run);
            Quiet::of(result.map_err(|payload| JoinError::Panicked(Payload::new(payload))))
        };
        // The schedule function is never called: the body is ready at its first poll, and the task is never
        // cancelled.
        let (job, task) = async_task::spawn(body, drop);
        let mut handle = BlockingHandle {
            abort,
            state: BlockingState::Waiting(task.fallible()),
        };
        match self.inner().blocking().submit(self, job) {
            Ok(()) => Ok(handle),
            Err(error) => handle.look().then_some(handle).ok_or(error),
        }
    }
}

impl Builder {
    /// Sets the most threads for [`spawn_blocking`](crate::spawn_blocking()). The default is 512. They are
    /// started only when they are needed.
    ///
    /// ```
    /// let runtime = doorbell::Builder::new().cores(1).blocking_threads(2).build()?;
    /// assert_eq!(runtime.block_on(runtime.spawn_blocking(|| 7)).unwrap(), 7);
    /// assert_eq!(runtime.metrics().blocking().started, 1);
    /// # Ok::<(), doorbell::BuildError>(())
    /// ```
    #[doc(alias = "max_blocking_threads")]
    #[must_use]
    pub fn blocking_threads(mut self, max: usize) -> Self {
        self.blocking.threads_max = max;
        self
    }

    /// Sets how long a thread for [`spawn_blocking`](crate::spawn_blocking()) stays when it has nothing to
    /// do. The default is 10 s.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let builder = doorbell::Builder::new().blocking_keep_alive(Duration::from_secs(1));
    /// # drop(builder);
    /// ```
    #[doc(alias = "thread_keep_alive")]
    #[must_use]
    pub fn blocking_keep_alive(mut self, time: Duration) -> Self {
        self.blocking.keep_alive = time;
        self
    }
}

impl BlockingPlan {
    pub(crate) fn check(&self) -> Result<(), BuildError> {
        match self.threads_max {
            1..=count::THREADS_MAX => Ok(()),
            asked => Err(BuildError::BlockingThreads {
                asked,
                most: count::THREADS_MAX,
            }),
        }
    }
}

type Outcome<T> = Quiet<Result<T, JoinError>>;

enum BlockingState<T> {
    Waiting(FallibleTask<Outcome<T>>),
    /// The lock is never taken: with it, the handle can be shared also where `T` cannot.
    Ready(Mutex<Outcome<T>>),
    Taken,
}

/// The handle of a closure of [`spawn_blocking`](crate::spawn_blocking()), and a future of its result.
/// Dropping it lets the closure run.
///
/// # Errors
/// Awaiting it gives [`JoinError::Panicked`] if the closure panicked, and [`JoinError::Cancelled`] if it
/// never began, because it was aborted or the runtime ended.
///
/// # Panics
/// If it is polled again after it was ready.
pub struct BlockingHandle<T> {
    abort: AbortHandle,
    state: BlockingState<T>,
}

impl<T> std::fmt::Debug for BlockingHandle<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlockingHandle")
            .field("finished", &self.is_finished())
            .finish_non_exhaustive()
    }
}

impl<T> BlockingHandle<T> {
    /// Withdraws the closure if it has not begun: a thread drops it when its turn comes. A closure that has
    /// begun runs to its end.
    pub fn abort(&self) {
        self.abort.abort();
    }

    /// Whether the closure has ended or has been dropped.
    pub fn is_finished(&self) -> bool {
        match &self.state {
            BlockingState::Waiting(task) => task.is_finished(),
            BlockingState::Ready(_) | BlockingState::Taken => true,
        }
    }

    /// Whether the closure was not dropped from the queue, after `submit` has failed. Keeps its result, if
    /// there is one.
    fn look(&mut self) -> bool {
        let BlockingState::Waiting(task) = &mut self.state else {
            return true;
        };
        match Pin::new(task).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => true,
            Poll::Ready(None) => false,
            Poll::Ready(Some(outcome)) => {
                self.state = BlockingState::Ready(Mutex::new(outcome));
                true
            }
        }
    }
}

// By hand: a panic of a user's leaves it whole: it runs none of a user's code while it changes.
impl<T> std::panic::UnwindSafe for BlockingHandle<T> {}
impl<T> std::panic::RefUnwindSafe for BlockingHandle<T> {}

impl<T> Unpin for BlockingHandle<T> {}

impl<T> Future for BlockingHandle<T> {
    type Output = Result<T, JoinError>;

    #[track_caller]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let BlockingState::Waiting(task) = &mut self.state {
            // `async-task` ends the process if a waker panics.
            let outcome = ready!(contained(cx, |cx| Pin::new(task).poll(cx)));
            let outcome = outcome.unwrap_or_else(|| Quiet::of(Err(JoinError::Cancelled)));
            self.state = BlockingState::Ready(Mutex::new(outcome));
        }
        if let BlockingState::Ready(_) = self.state {
            ready!(coop::allow(cx));
        }
        match std::mem::replace(&mut self.state, BlockingState::Taken) {
            BlockingState::Ready(outcome) => Poll::Ready(outcome.into_inner().take()),
            BlockingState::Waiting(_) | BlockingState::Taken => {
                panic!("a blocking handle was polled again after it was ready")
            }
        }
    }
}

impl<T> Drop for BlockingHandle<T> {
    fn drop(&mut self) {
        // Dropping the task would cancel the closure.
        if let BlockingState::Waiting(task) =
            std::mem::replace(&mut self.state, BlockingState::Taken)
        {
            task.detach();
        }
    }
}
