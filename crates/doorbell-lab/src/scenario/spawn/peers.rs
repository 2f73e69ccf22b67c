//! The runtimes whose tasks are spawned.

use std::fmt;

use super::super::common::tokio_error;
use crate::error::LabError;

/// How many workers each has.
pub(super) const WORKERS: usize = 2;

/// A runtime as the shapes use it.
pub(super) trait Peer: Sized + fmt::Debug + 'static {
    /// Whose it is.
    const NAME: &'static str;
    /// A task that is waited for.
    type Join: Future<Output = Result<(), Self::JoinError>>;
    /// Why a task gave nothing.
    type JoinError;

    /// Starts it. Its workers run where the OS puts them, as they do in most programs.
    fn start() -> Result<Self, LabError>;

    /// Runs a future on the calling thread.
    fn block_on<F: Future>(&self, future: F) -> F::Output;

    /// Spawns from a thread that is none of its workers.
    fn spawn_remote(&self, future: impl Future<Output = ()> + Send + 'static) -> Self::Join;

    /// Spawns from within, and waits for nothing.
    fn spawn(future: impl Future<Output = ()> + Send + 'static);

    /// Lets other tasks run.
    fn yield_now() -> impl Future<Output = ()> + Send;
}

/// Doorbell with as many workers.
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
