//! How the workers of class Rt run.

use doorbell_core::worker::{RunBudget, Worker, WorkerShared};
use doorbell_machine::Machine;
use std::sync::Arc;

/// What the builder was told of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RtPlan {
    /// Under `SCHED_FIFO`.
    pub(crate) priority: u8,
    /// For how long they run of a period.
    pub(crate) budget: Option<RunBudget>,
}

impl RtPlan {
    /// Runs a worker, of any class, until it ends. Only of one that goes before all other threads of its CPU
    /// something is asked: where the OS shares that, it sees to the others.
    pub(crate) fn run<M: Machine>(&self, shared: Arc<WorkerShared<M>>, goes_first: bool) {
        if goes_first {
            Worker::limited(shared, self.budget).before_others().run();
        } else {
            Worker::new(shared).run();
        }
    }
}
