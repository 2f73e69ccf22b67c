//! What tasks of the scenario ask of their runtime.

use super::super::timers::{Doorbell, Job, Timers, Tokio};

/// A runtime as its tasks see it.
pub(super) trait Inside: Timers {
    /// Spawns a task on any core.
    fn spawn(job: Job);

    /// Lets others run.
    fn yield_now() -> impl Future<Output = ()> + Send;

    /// The core whose timers a task uses that runs here; one for all if they are shared.
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
