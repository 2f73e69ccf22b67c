//! What the timer scenarios share: ways to sleep, and the runtimes that they belong to.
//!
//! All runtimes have two workers, bound to the two CPUs of the placement.

mod host;
mod lateness;
mod meeting;
mod peers;
mod random;
mod shelf;

use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use crate::error::LabError;

pub(super) use host::{AsyncIoThreads, DoorbellWorkers, Host, Job, TokioWorkers};
pub(super) use lateness::Lateness;
pub(super) use meeting::Meeting;
pub(super) use peers::{AsyncIo, Doorbell, Tokio};
pub(super) use random::Random;
pub(super) use shelf::Shelf;

/// How many workers each runtime has.
pub(super) const WORKERS: usize = 2;

/// A way to sleep.
pub(super) trait Timers: Clone + Send + Sync + 'static {
    /// What runs the tasks that sleep.
    type Host: Host;
    /// A sleep.
    type Sleep: Future<Output: Send> + Send;
    /// Something periodic.
    type Ticks: Ticks;

    /// Whose it is.
    const NAME: &'static str;

    /// Waits for a duration, from now on.
    fn sleep(&self, duration: Duration) -> Self::Sleep;

    /// Ticks for the first time at `start`, then every `period`.
    fn ticks(&self, start: Instant, period: Duration) -> Self::Ticks;

    /// Has a host run jobs that sleep in this way.
    fn run(&self, host: &Self::Host, core: usize, jobs: Vec<Job>) -> Result<(), LabError> {
        host.run(core, jobs)
    }

    /// Reads the clock that the timers go by.
    fn read_clock();

    /// A future that may use as many timers in one poll as it likes.
    fn unbudgeted<F: Future<Output: Send> + Send>(
        future: F,
    ) -> impl Future<Output = F::Output> + Send {
        future
    }
}

/// Something periodic.
pub(super) trait Ticks: Send + 'static {
    /// Waits for the next tick.
    fn tick(&mut self) -> impl Future<Output = ()> + Send;
}

/// What `count` tasks have found.
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
