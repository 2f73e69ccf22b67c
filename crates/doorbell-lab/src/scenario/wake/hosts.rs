//! The runtimes of messengers and workers, and OS threads instead of tasks.

use std::fmt;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use async_executor::Executor;
use futures::channel::oneshot;

use super::super::common::{
    join, shortest_slack, start_async_io, thread_on, tokio_error, tokio_on,
};
use crate::error::LabError;

/// Worker threads of each runtime.
pub(super) const THREADS: usize = 2;
const SMOL: &str = "smol-worker";
const THREAD: &str = "wake-thread";

/// The CPUs of the workers; `None` where the OS chooses.
pub(super) type Cpus = Option<[usize; THREADS]>;

/// A runtime, or what takes its place.
pub(super) trait Host: Sized + fmt::Debug + 'static {
    /// Its name.
    const NAME: &'static str;

    /// Starts it.
    fn start(cpus: Cpus) -> Result<Self, LabError>;

    /// Spawns a task.
    fn spawn(&mut self, task: impl Future<Output = ()> + Send + 'static) -> Result<(), LabError>;

    /// Sleeps as its tasks do.
    fn sleep(due: Instant) -> impl Future<Output = ()> + Send;

    /// Ends it. No task is left.
    fn stop(self) -> Result<(), LabError>;
}

/// Tasks of class Fair.
#[derive(Debug)]
pub(super) struct Doorbell(doorbell::Runtime);

impl Host for Doorbell {
    const NAME: &'static str = "doorbell";

    fn start(cpus: Cpus) -> Result<Self, LabError> {
        let builder = doorbell::Builder::new();
        let builder = match cpus {
            Some(cpus) => builder.core_list(cpus),
            None => builder.cores(THREADS).pin(false),
        };
        Ok(Self(builder.name("lab").build()?))
    }

    fn spawn(&mut self, task: impl Future<Output = ()> + Send + 'static) -> Result<(), LabError> {
        drop(self.0.spawn(task));
        Ok(())
    }

    async fn sleep(due: Instant) {
        doorbell::time::sleep(due.saturating_duration_since(Instant::now())).await;
    }

    fn stop(self) -> Result<(), LabError> {
        Ok(())
    }
}

/// tokio's multi-thread runtime, with all its drivers.
#[derive(Debug)]
pub(super) struct Tokio(tokio::runtime::Runtime);

impl Host for Tokio {
    const NAME: &'static str = "tokio";

    fn start(cpus: Cpus) -> Result<Self, LabError> {
        if let Some(cpus) = cpus {
            return tokio_on(cpus).map(Self);
        }
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let built = builder
            .worker_threads(THREADS)
            .on_thread_start(shortest_slack)
            .enable_all()
            .build();
        built.map(Self).map_err(tokio_error)
    }

    fn spawn(&mut self, task: impl Future<Output = ()> + Send + 'static) -> Result<(), LabError> {
        drop(self.0.spawn(task));
        Ok(())
    }

    async fn sleep(due: Instant) {
        tokio::time::sleep_until(due.into()).await;
    }

    fn stop(self) -> Result<(), LabError> {
        Ok(())
    }
}

/// smol's executor on two threads, and its timers.
#[derive(Debug)]
pub(super) struct Smol {
    executor: Arc<Executor<'static>>,
    threads: Vec<(oneshot::Sender<()>, JoinHandle<()>)>,
}

impl Host for Smol {
    const NAME: &'static str = "smol";

    fn start(cpus: Cpus) -> Result<Self, LabError> {
        start_async_io()?;
        let executor = Arc::new(Executor::new());
        let mut threads = Vec::new();
        for place in 0..THREADS {
            let (stop, stopped) = oneshot::channel::<()>();
            let executor = Arc::clone(&executor);
            let run = move || {
                // Ends when the sender is dropped.
                let _ = async_io::block_on(executor.run(stopped));
            };
            threads.push((stop, thread_on(SMOL, cpus.map(|cpus| cpus[place]), run)?));
        }
        Ok(Self { executor, threads })
    }

    fn spawn(&mut self, task: impl Future<Output = ()> + Send + 'static) -> Result<(), LabError> {
        self.executor.spawn(task).detach();
        Ok(())
    }

    async fn sleep(due: Instant) {
        async_io::Timer::at(due).await;
    }

    fn stop(self) -> Result<(), LabError> {
        let mut result = Ok(());
        for (stop, thread) in self.threads {
            drop(stop);
            result = result.and(join(thread, SMOL));
        }
        result
    }
}

/// A thread for each task.
#[derive(Debug)]
pub(super) struct Threads {
    cpus: Cpus,
    threads: Vec<JoinHandle<()>>,
}

impl Host for Threads {
    const NAME: &'static str = "OS threads";

    fn start(cpus: Cpus) -> Result<Self, LabError> {
        let threads = Vec::new();
        Ok(Self { cpus, threads })
    }

    fn spawn(&mut self, task: impl Future<Output = ()> + Send + 'static) -> Result<(), LabError> {
        let place = self.threads.len() % THREADS;
        let run = || futures::executor::block_on(task);
        let thread = thread_on(THREAD, self.cpus.map(|cpus| cpus[place]), run)?;
        self.threads.push(thread);
        Ok(())
    }

    async fn sleep(due: Instant) {
        // The thread belongs to the task.
        thread::sleep(due.saturating_duration_since(Instant::now()));
    }

    fn stop(self) -> Result<(), LabError> {
        let joined = self.threads.into_iter().map(|thread| join(thread, THREAD));
        joined.collect()
    }
}
