//! How the lanes of class Rt run.

use doorbell_core::lane::{Lane, LaneShared, RunBudget};
use doorbell_machine::Machine;
use std::sync::Arc;

/// What the builder was told of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RtPlan {
    /// Under `SCHED_FIFO`.
    pub(crate) priority: u8,
    /// For how long they run of a period.
    pub(crate) budget: Option<RunBudget>,
    /// Under a flood they look at their descriptors each so often; 0: they are woken for each.
    pub(crate) spacing_ns: u64,
}

impl RtPlan {
    /// A lane, of any class: only of one that goes before all other threads of its CPU something is asked.
    pub(crate) fn lane<M: Machine>(&self, shared: Arc<LaneShared<M>>, goes_first: bool) -> Lane<M> {
        if !goes_first {
            // Where the OS shares the CPU, it sees to the others.
            return Lane::new(shared);
        }
        let lane = Lane::limited(shared, self.budget).before_others();
        lane.with_spacing(self.spacing_ns)
    }
}
