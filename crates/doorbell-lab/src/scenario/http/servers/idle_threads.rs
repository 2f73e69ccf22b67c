//! Threads under `SCHED_IDLE` that compute for tokio's tasks.

use std::thread;

use crossbeam_channel::{Sender, unbounded};
use tokio::sync::oneshot;

use super::super::super::wants::Want;
use super::WORKERS;
use crate::error::LabError;

type Job = Box<dyn FnOnce() + Send>;

/// Threads under `SCHED_IDLE`. They end when the last clone of this is dropped.
#[derive(Debug, Clone)]
pub(super) struct IdleThreads(Sender<Job>);

impl IdleThreads {
    /// Starts the threads.
    ///
    /// # Errors
    /// [`LabError::System`] if a thread cannot be started.
    pub(super) fn start() -> Result<Self, LabError> {
        let (sender, jobs) = unbounded::<Job>();
        for _ in 0..WORKERS {
            let jobs = jobs.clone();
            let work = move || {
                Want::Idle.ask();
                jobs.iter().for_each(|job| job());
            };
            let started = thread::Builder::new().name("idle-class".to_owned());
            started.spawn(work).map_err(|source| LabError::System {
                what: "starting a thread",
                source,
            })?;
        }
        Ok(Self(sender))
    }

    /// Runs `work` on one of the threads, and waits for its end.
    pub(super) async fn run(&self, work: impl FnOnce() + Send + 'static) {
        let (done, finished) = oneshot::channel();
        let job = Box::new(move || {
            work();
            // The client may be gone.
            let _ = done.send(());
        });
        if self.0.send(job).is_ok() {
            // Fails only if the work panics.
            let _ = finished.await;
        }
    }
}
