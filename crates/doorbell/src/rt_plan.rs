//! Priority and budget of the Rt workers.

use doorbell_core::worker::{RunBudget, Worker, WorkerShared};
use doorbell_machine::Machine;
use std::sync::Arc;

/// The builder's settings for Rt workers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RtPlan {
    /// The priority under `SCHED_FIFO`.
    pub(crate) priority: u8,
    /// How long a worker may run in each period; `None` without a limit.
    pub(crate) budget: Option<RunBudget>,
}

impl RtPlan {
    /// Runs a worker of any class until it ends. Only a worker that preempts all other threads of its CPU has
    /// a budget. For the others the OS shares the CPU.
    pub(crate) fn run<M: Machine>(&self, shared: Arc<WorkerShared<M>>, goes_first: bool) {
        if goes_first {
            Worker::limited(shared, self.budget).run();
        } else {
            Worker::new(shared).run();
        }
    }
}
