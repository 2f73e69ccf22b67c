//! [`Runtime`]: owns the workers, and ends them when it is dropped.

use crate::builder::{BuildError, Builder};
use crate::handle::{BlockOnError, Handle};
use crate::large::boxed_if_large;
use crate::owner::Owner;
use doorbell_machine::Host;
use std::time::Duration;

/// The runtime did not end within the timeout of [`Runtime::shutdown_timeout`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{running} of the runtime's threads had not ended in time: each is inside a poll, a call, a blocking closure or the drop of a future, and ends by itself after it"
)]
#[non_exhaustive]
pub struct ShutdownTimeout {
    /// Number of workers and threads for blocking closures that had not ended. A thread that drops futures of tasks in
    /// the place of a worker counts too.
    pub running: usize,
}

/// A running runtime.
///
/// Dropping it ends the runtime:
///
/// * Every task is cancelled, and dropped on its worker. While a worker is inside a long poll, the thread that
///   ends the runtime drops the worker's other tasks, since that poll may wait for what one of them has, such as
///   the sender of a std channel. Left to the worker are tasks whose future is not `Send`
///   ([`spawn_local`](crate::spawn_local())) and calls, and what the worker has taken out of its mailbox after a call
///   that is under way, pinned tasks for example. So a poll or a call that waits for one of those waits for ever, and
///   so does the drop of a future that waits for the drop of another one.
/// * Calls that were posted before still run. Later calls return an error.
/// * The drop waits for the threads of the workers. If it happens on a worker of any runtime, it does not
///   wait: the threads then end by themselves after their current polls, and each drops its own tasks. Nobody drops
///   the other tasks of a worker that is inside a long poll then.
/// * The drop waits for closures of [`spawn_blocking`](crate::spawn_blocking()) that are under way, unless it
///   happens on a worker or inside such a closure.
///
/// In a child process that `fork` makes, the threads of the runtime are not there. So it shows as a runtime that
/// has ended: calls return [`CallError::RuntimeGone`](crate::CallError::RuntimeGone), new tasks are cancelled, and
/// the drop waits for nothing. Tasks, timers and sockets of the parent do not go on in the child, and a socket that
/// the child drops does not disturb the parent. A new runtime works there. This needs the C library's `fork`; a
/// child that a worker makes must end or start another program.
///
/// Several runtimes may live at once. All methods of [`Handle`] can be called on a runtime.
#[derive(Debug)]
pub struct Runtime {
    handle: Handle,
    owner: Owner<Host>,
}

// By hand: a panic of a user's leaves it whole: it runs none of a user's code while it changes.
impl std::panic::UnwindSafe for Runtime {}
impl std::panic::RefUnwindSafe for Runtime {}

impl Runtime {
    /// Starts a runtime with the defaults of [`Builder`].
    ///
    /// # Errors
    /// See [`Builder::build`].
    pub fn new() -> Result<Runtime, BuildError> {
        Builder::new().build()
    }

    pub(crate) fn of(owner: Owner<Host>) -> Self {
        Runtime {
            handle: owner.handle(),
            owner,
        }
    }

    /// A handle of this runtime; a clone of it can be used from anywhere.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Ends the runtime as dropping it does, but waits for its threads for at most `timeout`. A thread that
    /// is then still inside a poll, a call, a blocking closure or the drop of a future ends by itself after it. On a
    /// worker or inside a blocking closure this does not wait: it only counts the threads that have not ended.
    ///
    /// Blocking closures that no thread has begun, and what waits for a worker that has never begun, are dropped on
    /// the calling thread. Their drops are not limited by `timeout`.
    ///
    /// # Errors
    /// [`ShutdownTimeout`] says how many threads had not ended.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let runtime = doorbell::Builder::new().cores(2).build()?;
    /// runtime.spawn(std::future::pending::<()>());
    /// runtime.shutdown_timeout(Duration::from_secs(10))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn shutdown_timeout(mut self, timeout: Duration) -> Result<(), ShutdownTimeout> {
        match self.owner.shutdown(timeout) {
            0 => Ok(()),
            running => Err(ShutdownTimeout { running }),
        }
    }

    /// Ends the runtime without waiting for its threads: each ends by itself after its current poll, call or closure.
    /// Nobody drops the other tasks of a worker that is inside a long poll, so one that waits for what such a task has
    /// waits for ever. Where that may be, call [`Runtime::shutdown_timeout`] on a thread of its own.
    ///
    /// ```
    /// let runtime = doorbell::Builder::new().cores(1).build()?;
    /// let (go, gate) = std::sync::mpsc::channel::<()>();
    /// drop(runtime.spawn_blocking(move || gate.recv()));
    /// // A drop would wait for the closure.
    /// runtime.shutdown_background();
    /// drop(go);
    /// # Ok::<(), doorbell::BuildError>(())
    /// ```
    pub fn shutdown_background(self) {
        // It does not matter how many threads have not ended yet.
        let _ = self.shutdown_timeout(Duration::ZERO);
    }

    /// Runs a future on the calling thread until it is ready, and returns its output. The future need not be
    /// `Send`. Inside it, this is the current runtime.
    ///
    /// It may be nested: inside the future of another `block_on`, of this or another runtime, and inside a closure
    /// of [`spawn_blocking`](crate::spawn_blocking()). The outer future makes no progress meanwhile. Inside a task or
    /// a call it panics, whatever the runtime.
    ///
    /// ```
    /// let runtime = doorbell::Builder::new().cores(1).build()?;
    /// let nested = runtime.block_on(async { runtime.block_on(async { 1 }) });
    /// let handle = runtime.handle().clone();
    /// let blocking = runtime.spawn_blocking(move || handle.try_block_on(async { 1 }));
    /// assert_eq!(nested + runtime.block_on(blocking)??, 2);
    /// let handle = runtime.handle().clone();
    /// let task = runtime.spawn(async move { handle.try_block_on(async { 1 }) });
    /// assert_eq!(runtime.block_on(task)?, Err(doorbell::error::BlockOnError::InsideWorker));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// If the caller is a worker: its other tasks would all wait. [`Handle::try_block_on`] returns an error
    /// instead. Also if the future panics.
    #[track_caller]
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        let ran = boxed_if_large!(future: F, Box::pin => self.handle.try_block_on(future));
        match ran {
            Ok(output) => output,
            Err(error @ BlockOnError::InsideWorker) => panic!("{error}"),
        }
    }
}

impl std::ops::Deref for Runtime {
    type Target = Handle;

    fn deref(&self) -> &Handle {
        &self.handle
    }
}
