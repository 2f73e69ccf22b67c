//! How the lanes of class Rt run.

use doorbell_core::lane::{Lane, LaneShared, RunBudget};
use doorbell_machine::{Machine, ThreadSpec};
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
    /// Runs a lane, of any class, until it ends. Only of one that goes before all other threads of its CPU
    /// something is asked; where it puts off its looks, it has an usher.
    pub(crate) fn run<M: Machine>(&self, shared: Arc<LaneShared<M>>, first: Option<ThreadSpec>) {
        let Some(usher) = first else {
            // Where the OS shares the CPU, it sees to the others.
            return Lane::new(shared).run();
        };
        let lane = Lane::limited(shared, self.budget).before_others();
        if self.spacing_ns == 0 {
            return lane.run();
        }
        lane.with_spacing(self.spacing_ns).run_ushered(usher);
    }
}
