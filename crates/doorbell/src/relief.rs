//! [`Relief`]: ends the tasks of workers that are inside a long poll while their runtime ends.

use crate::ambient;
use crate::handle::Handle;
use crate::rt::Rt;
use doorbell_core::worker::WorkerShared;
use doorbell_machine::Machine;
use std::sync::Arc;

/// A worker that has begun no poll and ended no task for this long, while its runtime ends, does not end its tasks soon.
/// Shorter, and one that only waits for a CPU would be taken for stuck: its tasks are better dropped where they lived.
const STUCK_NS: u64 = 50_000_000;

/// What the thread that ends a runtime knows of a worker.
struct Seen<M: Machine> {
    worker: Arc<WorkerShared<M>>,
    pulse: u64,
    since_ns: u64,
}

/// Belongs to the thread that ends a runtime.
pub(crate) struct Relief<M: Machine> {
    rt: Arc<Rt<M>>,
    workers: Vec<Seen<M>>,
}

impl<M: Machine> Relief<M> {
    pub(crate) fn new(rt: &Arc<Rt<M>>) -> Self {
        let now_ns = M::now_ns();
        let begun = rt
            .classes
            .iter()
            .flat_map(|class| class.workers.iter().take(class.begun()));
        let seen = |worker: &Arc<WorkerShared<M>>| Seen {
            pulse: worker.remote().pulse(),
            worker: Arc::clone(worker),
            since_ns: now_ns,
        };
        Relief {
            workers: begun.map(seen).collect(),
            rt: Arc::clone(rt),
        }
    }

    /// Ends the tasks of each worker that has been inside the same poll for a while. Of a worker that has ended there
    /// are none.
    pub(crate) fn look(&mut self, now_ns: u64) {
        for seen in &mut self.workers {
            let pulse = seen.worker.remote().pulse();
            if pulse != seen.pulse {
                (seen.pulse, seen.since_ns) = (pulse, now_ns);
            } else if now_ns.saturating_sub(seen.since_ns) >= STUCK_NS {
                seen.since_ns = now_ns;
                // Drops of futures find the runtime, as on a worker.
                let rt: Arc<Rt<M>> = Arc::clone(&self.rt);
                let _entered = ambient::enter(Handle::new(rt));
                seen.worker.relieve();
            }
        }
    }
}
