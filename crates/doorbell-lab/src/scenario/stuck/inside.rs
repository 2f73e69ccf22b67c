//! What the scenario's tasks need from their runtime.

use super::super::timers::{Doorbell, Job, Timers, Tokio};

/// A runtime as seen by its tasks.
pub(super) trait Inside: Timers {
    /// Spawns a task on any core.
    fn spawn(job: Job);

    /// Yields to other tasks.
    fn yield_now() -> impl Future<Output = ()> + Send;

    /// The core whose timers a task that runs here uses; one number for all if the timers are shared.
    fn here() -> usize;
}

impl Inside for Doorbell {
    fn spawn(job: Job) {
        drop(doorbell::spawn(job));
    }

    async fn yield_now() {
        doorbell::yield_now().await;
    }

    fn here() -> usize {
        doorbell::current_core().map_or(0, doorbell::CoreId::index)
    }
}

impl Inside for Tokio {
    fn spawn(job: Job) {
        drop(tokio::spawn(job));
    }

    async fn yield_now() {
        tokio::task::yield_now().await;
    }

    fn here() -> usize {
        0
    }
}
