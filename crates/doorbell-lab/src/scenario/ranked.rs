//! What the scenarios of ranks share: runtimes and threads that are told how urgent a task is.

use std::fmt;
use std::thread::JoinHandle;
use std::time::Instant;

use doorbell::Class;

use super::common::{join, sleep_until, thread_on, tokio_on};
use super::wake_counts::WakeCounts;
use super::wants::Want;
use crate::error::LabError;

const THREAD: &str = "ranked-thread";
/// The greatest priority of a thread, for rank 99: below that of the kernel's interrupt threads (50).
const PRIORITY_MAX: u8 = 20;

/// How urgent a task is, and where it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Role {
    /// 1 to 99, the most urgent.
    pub(super) rank: u8,
    /// The core on which it stays; `None` if it may move.
    pub(super) core: Option<usize>,
}

/// A runtime, or threads in its place. One without ranks or without named cores ignores them.
pub(super) trait Ranked: Sized + fmt::Debug + 'static {
    /// Starts it with a worker on each of these CPUs, which are cores 0, 1, ….
    fn start(cpus: &[usize]) -> Result<Self, LabError>;

    /// Spawns a task.
    fn spawn(
        &mut self,
        role: Role,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), LabError>;

    /// Sleeps as its tasks do.
    fn sleep_until(due: Instant) -> impl Future<Output = ()> + Send;

    /// Ends the current poll. The task can run again at once.
    fn yield_now() -> impl Future<Output = ()> + Send;

    /// What was counted of its wakes so far; `None` where nothing is.
    fn counts(&self) -> Option<WakeCounts> {
        None
    }

    /// Ends it. No task is left.
    fn stop(self) -> Result<(), LabError>;
}

/// Tasks of class Rt.
#[derive(Debug)]
pub(super) struct Doorbell(doorbell::Runtime);

impl Ranked for Doorbell {
    fn start(cpus: &[usize]) -> Result<Self, LabError> {
        let builder = doorbell::Builder::new().core_list(cpus.iter().copied());
        let runtime = builder.name("lab").build()?;
        // The workers of the class start with its first task.
        runtime
            .block_on(runtime.task().class(Class::rt(1)).spawn(async {}))
            .map_err(|_| LabError::TaskLost)?;
        Ok(Self(runtime))
    }

    fn spawn(
        &mut self,
        role: Role,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), LabError> {
        let builder = self.0.task().class(Class::rt(role.rank));
        let builder = match role.core {
            Some(core) => builder.on(core),
            None => builder,
        };
        drop(builder.spawn(task));
        Ok(())
    }

    async fn sleep_until(due: Instant) {
        doorbell::time::sleep_until(due.into()).await;
    }

    async fn yield_now() {
        doorbell::yield_now().await;
    }

    fn counts(&self) -> Option<WakeCounts> {
        Some(WakeCounts::of(&self.0))
    }

    fn stop(self) -> Result<(), LabError> {
        Ok(())
    }
}

/// tokio's multi-thread runtime, with all its drivers. It knows neither ranks nor cores.
#[derive(Debug)]
pub(super) struct Tokio(tokio::runtime::Runtime);

impl Ranked for Tokio {
    fn start(cpus: &[usize]) -> Result<Self, LabError> {
        tokio_on(cpus).map(Self)
    }

    fn spawn(
        &mut self,
        _: Role,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), LabError> {
        drop(self.0.spawn(task));
        Ok(())
    }

    async fn sleep_until(due: Instant) {
        tokio::time::sleep_until(due.into()).await;
    }

    async fn yield_now() {
        tokio::task::yield_now().await;
    }

    fn stop(self) -> Result<(), LabError> {
        Ok(())
    }
}

/// A thread for each task, with a real-time priority by its rank where that is allowed, else with the shortest
/// slice.
#[derive(Debug)]
pub(super) struct Threads {
    cpus: Vec<usize>,
    threads: Vec<JoinHandle<()>>,
}

/// The real-time priority of a thread of this rank: 1 to 20.
fn priority(rank: u8) -> u8 {
    (1 + rank / 5).min(PRIORITY_MAX)
}

impl Ranked for Threads {
    fn start(cpus: &[usize]) -> Result<Self, LabError> {
        Ok(Self {
            cpus: cpus.to_vec(),
            threads: Vec::new(),
        })
    }

    fn spawn(
        &mut self,
        role: Role,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), LabError> {
        let run = move || {
            Want::Priority(priority(role.rank)).ask();
            futures::executor::block_on(task);
        };
        let cpu = role.core.map(|core| self.cpus[core]);
        self.threads.push(thread_on(THREAD, cpu, run)?);
        Ok(())
    }

    async fn sleep_until(due: Instant) {
        // The thread belongs to the task.
        sleep_until(due);
    }

    async fn yield_now() {
        std::thread::yield_now();
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
    fn a_higher_rank_is_a_higher_priority() {
        assert_eq!([1, 50, 95, 99].map(priority), [1, 11, 20, 20]);
    }
}
