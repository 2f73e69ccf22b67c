//! What the timer scenarios share: ways to sleep, and their runtimes.
//!
//! Each runtime has two workers, bound to the two CPUs of the placement.

mod host;
mod lateness;
mod meeting;
mod peers;
mod random;
mod shelf;
pub(super) mod wakeups;

use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

use crate::error::LabError;

pub(super) use host::{AsyncIoThreads, DoorbellWorkers, Host, Job, TokioWorkers};
pub(super) use lateness::Lateness;
pub(super) use meeting::{Meeting, let_others_run};
pub(super) use peers::{AsyncIo, Doorbell, Tokio};
pub(super) use random::Random;
pub(super) use shelf::Shelf;

/// The workers of each runtime.
pub(super) const WORKERS: usize = 2;

/// A way to sleep.
pub(super) trait Timers: Clone + Send + Sync + 'static {
    /// The host of the sleeping tasks.
    type Host: Host;
    /// A sleep.
    type Sleep: Future<Output: Send> + Send;
    /// A periodic timer.
    type Ticks: Ticks;

    /// Its name.
    const NAME: &'static str;

    /// Sleeps for `duration` from now on.
    fn sleep(&self, duration: Duration) -> Self::Sleep;

    /// Ticks first at `start`, then every `period`.
    fn ticks(&self, start: Instant, period: Duration) -> Self::Ticks;

    /// Changes a host that has just started, if these timers need that.
    fn prepare(&self, _: &Self::Host) {}

    /// Runs jobs that sleep in this way on a host.
    fn run(&self, host: &Self::Host, core: usize, jobs: Vec<Job>) -> Result<(), LabError> {
        host.run(core, jobs)
    }

    /// Reads the clock of these timers.
    fn read_clock();

    /// A future that may use any number of timers in one poll.
    fn unbudgeted<F: Future<Output: Send> + Send>(
        future: F,
    ) -> impl Future<Output = F::Output> + Send {
        future
    }
}

/// A periodic timer.
pub(super) trait Ticks: Send + 'static {
    /// Waits for the next tick.
    fn tick(&mut self) -> impl Future<Output = ()> + Send;
}

/// Sends what a task has found to the one who gathers it.
pub(super) async fn tell<T>(done: Sender<T>, task: impl Future<Output = T>) {
    let found = task.await;
    // The receiver is gone only if the waiting thread has panicked or given up.
    let _ = done.send(found);
}

/// The results of `count` tasks.
///
/// # Errors
/// [`LabError::TaskLost`] if one of them ended without a result.
pub(super) fn gather<T>(results: &Receiver<T>, count: usize) -> Result<Vec<T>, LabError> {
    (0..count)
        .map(|_| results.recv().map_err(|_| LabError::TaskLost))
        .collect()
}

#[cfg(test)]
mod tests;
