//! [`Runtime`]: whoever has it keeps the lanes alive.

use crate::builder::{BuildError, Builder};
use crate::handle::{BlockOnError, Handle};
use crate::rt::Owner;
use doorbell_machine::Host;

/// A running runtime.
///
/// Dropping it ends it: every task is cancelled and dropped on its lane, calls that were
/// posted before still run, later ones get an error, and the lanes' threads are waited for.
/// Dropped on a lane, its own or another runtime's, it waits for nobody: the lanes end by
/// themselves after their current polls. Closures of [`spawn_blocking`](crate::spawn_blocking())
/// that are under way are waited for, unless it is dropped on a lane or inside one of them.
///
/// Several runtimes may live at once. Use it through [`std::ops::Deref`] as a [`Handle`].
#[derive(Debug)]
pub struct Runtime {
    handle: Handle,
    _owner: Owner<Host>,
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
            _owner: owner,
        }
    }

    /// A handle, to be used from anywhere.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Runs a future on the calling thread until it is ready; it need not be `Send`. Inside it
    /// this is the current runtime.
    ///
    /// # Panics
    /// If the caller is a lane, whose other tasks would all wait;
    /// [`Handle::try_block_on`] returns an error instead. And if the future panics.
    #[track_caller]
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        match self.handle.try_block_on(future) {
            Ok(output) => output,
            Err(error @ BlockOnError::InsideLane) => panic!("{error}"),
        }
    }
}

impl std::ops::Deref for Runtime {
    type Target = Handle;

    fn deref(&self) -> &Handle {
        &self.handle
    }
}
