//! How the lanes of class Rt run.

use doorbell_core::lane::{Lane, LaneShared, RunBudget, Usher};
use doorbell_machine::{Machine, ThreadHandle, ThreadSpec};
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
    /// something is asked, and it has an usher.
    pub(crate) fn run<M: Machine>(&self, shared: Arc<LaneShared<M>>, first: Option<ThreadSpec>) {
        let Some(usher) = first else {
            // Where the OS shares the CPU, it sees to the others.
            return Lane::new(shared).run();
        };
        let usher = self.start_usher(&shared, usher);
        let lane = Lane::limited(shared, self.budget).before_others();
        let lane = lane.with_spacing(self.spacing_ns);
        let Some((usher, thread)) = usher else {
            return lane.run();
        };
        lane.with_usher(usher).run();
        // Else whoever waits for this lane waited for an idle CPU, if there was a flood.
        thread.raise();
        // It does nothing that panics.
        let _ = thread.join();
    }

    /// Where the lane's looks are put off. If the OS starts no thread for it, or does not let it go below all
    /// others, naps last their time.
    fn start_usher<M: Machine>(
        &self,
        shared: &LaneShared<M>,
        spec: ThreadSpec,
    ) -> Option<(Arc<Usher<M>>, M::Thread)> {
        if self.spacing_ns == 0 {
            return None;
        }
        let usher = Usher::new(shared);
        let theirs = Arc::clone(&usher);
        let thread = M::spawn(spec, Box::new(move || theirs.run())).ok()?;
        Some((usher, thread))
    }
}
