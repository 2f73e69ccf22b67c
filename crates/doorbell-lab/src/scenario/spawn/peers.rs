//! The runtimes that are compared.

use std::fmt;

use super::super::common::tokio_error;
use crate::error::LabError;

/// The workers of each.
pub(super) const WORKERS: usize = 2;

/// A runtime, as the shapes use it.
pub(super) trait Peer: Sized + fmt::Debug + 'static {
    /// Its name.
    const NAME: &'static str;
    /// The handle of a task.
    type Join: Future<Output = Result<(), Self::JoinError>>;
    /// The error of a task without a result.
    type JoinError;

    /// Starts it. The OS places its workers, as in most programs.
    fn start() -> Result<Self, LabError>;

    /// Runs a future on the calling thread.
    fn block_on<F: Future>(&self, future: F) -> F::Output;

    /// Spawns from a thread that is not its worker.
    fn spawn_remote(&self, future: impl Future<Output = ()> + Send + 'static) -> Self::Join;

    /// Spawns from inside, without waiting.
    fn spawn(future: impl Future<Output = ()> + Send + 'static);

    /// Yields to other tasks.
    fn yield_now() -> impl Future<Output = ()> + Send;
}

/// Doorbell with the same number of workers.
#[derive(Debug)]
pub(super) struct Doorbell(doorbell::Runtime);

impl Peer for Doorbell {
    const NAME: &'static str = "doorbell";
    type Join = doorbell::JoinHandle<()>;
    type JoinError = doorbell::JoinError;

    fn start() -> Result<Self, LabError> {
        let builder = doorbell::Builder::new().cores(WORKERS).pin(false);
        Ok(Self(builder.name("lab").build()?))
    }

    fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.0.block_on(future)
    }

    fn spawn_remote(&self, future: impl Future<Output = ()> + Send + 'static) -> Self::Join {
        self.0.handle().spawn(future)
    }

    fn spawn(future: impl Future<Output = ()> + Send + 'static) {
        drop(doorbell::spawn(future));
    }

    fn yield_now() -> impl Future<Output = ()> + Send {
        doorbell::yield_now()
    }
}

/// tokio's multi-thread runtime, with all its drivers.
#[derive(Debug)]
pub(super) struct Tokio(tokio::runtime::Runtime);

impl Peer for Tokio {
    const NAME: &'static str = "tokio";
    type Join = tokio::task::JoinHandle<()>;
    type JoinError = tokio::task::JoinError;

    fn start() -> Result<Self, LabError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(WORKERS)
            .enable_all()
            .build()
            .map_err(tokio_error)?;
        Ok(Self(runtime))
    }

    fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.0.block_on(future)
    }

    fn spawn_remote(&self, future: impl Future<Output = ()> + Send + 'static) -> Self::Join {
        self.0.handle().spawn(future)
    }

    fn spawn(future: impl Future<Output = ()> + Send + 'static) {
        drop(tokio::spawn(future));
    }

    fn yield_now() -> impl Future<Output = ()> + Send {
        tokio::task::yield_now()
    }
}
