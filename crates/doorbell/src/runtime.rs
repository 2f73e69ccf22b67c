//! [`Runtime`]: whoever has it keeps the workers alive.

use crate::builder::{BuildError, Builder};
use crate::handle::{BlockOnError, Handle};
use crate::large::boxed_if_large;
use crate::owner::Owner;
use doorbell_machine::Host;
use std::time::Duration;

/// A runtime that did not end in the time it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{running} of the runtime's threads had not ended in time: each is inside a poll, a call or a blocking closure, and ends by itself after it"
)]
#[non_exhaustive]
pub struct ShutdownTimeout {
    /// How many workers and blocking threads had not ended.
    pub running: usize,
}

/// A running runtime.
///
/// Dropping it ends it: every task is cancelled and dropped on its worker, calls that were
/// posted before still run, later ones get an error, and the workers' threads are waited for.
/// Dropped on a worker, its own or another runtime's, it waits for nobody: the workers end by
/// themselves after their current polls. Closures of [`spawn_blocking`](crate::spawn_blocking())
/// that are under way are waited for, unless it is dropped on a worker or inside one of them.
///
/// Several runtimes may live at once. Use it through [`std::ops::Deref`] as a [`Handle`].
#[derive(Debug)]
pub struct Runtime {
    handle: Handle,
    owner: Owner<Host>,
}

impl Runtime {
    /// A runtime with the defaults of [`Builder`].
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

    /// A handle, to be used from anywhere.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Ends the runtime as dropping it does, but waits for its threads at most so long. Those that
    /// are still inside a poll, a call or a blocking closure then end by themselves after it. Called
    /// on a worker or inside a blocking closure it looks once and does not wait.
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

    /// Runs a future on the calling thread until it is ready; it need not be `Send`. Inside it
    /// this is the current runtime.
    ///
    /// # Panics
    /// If the caller is a worker, whose other tasks would all wait;
    /// [`Handle::try_block_on`] returns an error instead. And if the future panics.
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
