//! Runtimes without classes for the same tasks, and OS threads instead of tasks.

use std::fmt;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use async_executor::Executor;
use doorbell::{IdleClaim, Switches};
use futures::channel::oneshot;

use super::common::{
    join, shortest_slack, sleep_until, start_async_io, thread_on, tokio_error, tokio_on,
};
use super::wake_counts::WakeCounts;
use crate::error::LabError;

const SMOL: &str = "smol-worker";
const THREAD: &str = "lab-thread";

/// The worker threads of a runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Workers {
    /// This many, which run where the OS puts them.
    Free(usize),
    /// One bound to each of these CPUs.
    Bound([usize; 2]),
}

impl Workers {
    /// How many there are.
    pub(super) fn count(self) -> usize {
        match self {
            Workers::Free(count) => count,
            Workers::Bound(cpus) => cpus.len(),
        }
    }

    /// The CPU to which thread number `place` is bound. Threads beyond the number of workers take turns.
    pub(super) fn cpu(self, place: usize) -> Option<usize> {
        match self {
            Workers::Free(_) => None,
            Workers::Bound(cpus) => Some(cpus[place % cpus.len()]),
        }
    }
}

/// A runtime, or what takes its place.
pub(super) trait Host: Sized + fmt::Debug + 'static {
    /// Its name.
    const NAME: &'static str;

    /// Starts it.
    fn start(workers: Workers) -> Result<Self, LabError>;

    /// Spawns a task.
    fn spawn(&mut self, task: impl Future<Output = ()> + Send + 'static) -> Result<(), LabError>;

    /// Sleeps as its tasks do.
    fn sleep(due: Instant) -> impl Future<Output = ()> + Send;

    /// Chooses how its wakers get an idle worker; others than doorbell have no such switch.
    fn set_idle_claim(&self, _: IdleClaim) {}

    /// What was counted of its wakes so far; `None` where nothing is.
    fn counts(&self) -> Option<WakeCounts> {
        None
    }

    /// Ends it. No task is left.
    fn stop(self) -> Result<(), LabError>;
}

/// Tasks of class Fair.
#[derive(Debug)]
pub(super) struct Doorbell(doorbell::Runtime);

impl Doorbell {
    /// One whose workers run where the OS puts them, with further settings.
    pub(super) fn free(
        workers: usize,
        set: impl FnOnce(doorbell::Builder) -> doorbell::Builder,
    ) -> Result<Self, LabError> {
        let builder = doorbell::Builder::new().cores(workers).pin(false);
        Ok(Self(set(builder).name("lab").build()?))
    }
}

impl Host for Doorbell {
    const NAME: &'static str = "doorbell";

    fn start(workers: Workers) -> Result<Self, LabError> {
        match workers {
            Workers::Bound(cpus) => {
                let builder = doorbell::Builder::new().core_list(cpus);
                Ok(Self(builder.name("lab").build()?))
            }
            Workers::Free(count) => Self::free(count, |builder| builder),
        }
    }

    fn spawn(&mut self, task: impl Future<Output = ()> + Send + 'static) -> Result<(), LabError> {
        drop(self.0.spawn(task));
        Ok(())
    }

    async fn sleep(due: Instant) {
        doorbell::time::sleep(due.saturating_duration_since(Instant::now())).await;
    }

    fn set_idle_claim(&self, setting: IdleClaim) {
        let handle = self.0.handle();
        handle.set_switches(Switches {
            idle_claim: setting,
            ..handle.switches()
        });
    }

    fn counts(&self) -> Option<WakeCounts> {
        Some(WakeCounts::of(&self.0))
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

    fn start(workers: Workers) -> Result<Self, LabError> {
        if let Workers::Bound(cpus) = workers {
            return tokio_on(cpus).map(Self);
        }
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let built = builder
            .worker_threads(workers.count())
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

/// smol's executor on as many threads, and its timers.
#[derive(Debug)]
pub(super) struct Smol {
    executor: Arc<Executor<'static>>,
    threads: Vec<(oneshot::Sender<()>, JoinHandle<()>)>,
}

impl Host for Smol {
    const NAME: &'static str = "smol";

    fn start(workers: Workers) -> Result<Self, LabError> {
        start_async_io()?;
        let executor = Arc::new(Executor::new());
        let mut threads = Vec::new();
        for place in 0..workers.count() {
            let (stop, stopped) = oneshot::channel::<()>();
            let executor = Arc::clone(&executor);
            let run = move || {
                // Ends when the sender is dropped.
                let _ = async_io::block_on(executor.run(stopped));
            };
            threads.push((stop, thread_on(SMOL, workers.cpu(place), run)?));
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
    workers: Workers,
    threads: Vec<JoinHandle<()>>,
}

impl Host for Threads {
    const NAME: &'static str = "OS threads";

    fn start(workers: Workers) -> Result<Self, LabError> {
        let threads = Vec::new();
        Ok(Self { workers, threads })
    }

    fn spawn(&mut self, task: impl Future<Output = ()> + Send + 'static) -> Result<(), LabError> {
        let place = self.threads.len();
        let run = || futures::executor::block_on(task);
        let thread = thread_on(THREAD, self.workers.cpu(place), run)?;
        self.threads.push(thread);
        Ok(())
    }

    async fn sleep(due: Instant) {
        // The thread belongs to the task.
        sleep_until(due);
    }

    fn stop(self) -> Result<(), LabError> {
        let joined = self.threads.into_iter().map(|thread| join(thread, THREAD));
        joined.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_take_turns_on_the_cpus_they_are_bound_to() {
        let bound = Workers::Bound([3, 5]);
        let cpus = |workers: Workers| [0, 1, 2].map(|place| workers.cpu(place));
        assert_eq!(
            (bound.count(), cpus(bound)),
            (2, [Some(3), Some(5), Some(3)])
        );
        let free = Workers::Free(4);
        assert_eq!((free.count(), cpus(free)), (4, [None; 3]));
    }

    #[test]
    fn a_setting_is_that_of_the_runtime() {
        let host = Doorbell::start(Workers::Free(1)).expect("it starts");
        let others = host.0.handle().switches();
        for idle_claim in IdleClaim::ALL {
            host.set_idle_claim(idle_claim);
            let expected = Switches {
                idle_claim,
                ..others
            };
            assert_eq!(host.0.handle().switches(), expected);
        }
    }
}
