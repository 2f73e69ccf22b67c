//! [`Relief`]: ends the tasks of workers that are inside a long poll while their runtime ends.

use crate::ambient;
use crate::around::ThreadRole;
use crate::handle::Handle;
use crate::rt::Rt;
use doorbell_core::worker::WorkerShared;
use doorbell_machine::{Machine, ThreadHandle, ThreadSpec};
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

/// Which thread drops the futures. A drop is the user's and may take any time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DropsOn {
    /// The one that ends the runtime.
    Caller,
    /// One of its own, so that the caller can go away. If the OS refuses it, the next look asks again.
    OwnThread,
}

/// Belongs to the thread that ends a runtime.
pub(crate) struct Relief<M: Machine> {
    rt: Arc<Rt<M>>,
    workers: Vec<Seen<M>>,
    drops_on: DropsOn,
    /// The last thread that was started to drop futures.
    thread: Option<M::Thread>,
}

impl<M: Machine> Relief<M> {
    pub(crate) fn new(rt: &Arc<Rt<M>>, drops_on: DropsOn) -> Self {
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
            drops_on,
            thread: None,
        }
    }

    /// Ends the tasks of each worker that has been inside the same poll for a while. Of a worker that has ended there
    /// are none.
    pub(crate) fn look(&mut self, now_ns: u64) {
        if self.is_at_work() {
            return;
        }
        let stuck = self.stuck(now_ns);
        if stuck.is_empty() {
            return;
        }
        let rt = Arc::clone(&self.rt);
        let relieve = move || {
            // Drops of futures find the runtime, as on a worker.
            let _entered = ambient::enter(Handle::new(Arc::clone(&rt) as Arc<_>));
            rt.run_around(ThreadRole::Ending, || {
                for worker in stuck {
                    worker.relieve();
                }
            });
        };
        match self.drops_on {
            DropsOn::Caller => relieve(),
            DropsOn::OwnThread => {
                let spec = ThreadSpec {
                    name: format!("{}-relief", self.rt.name),
                    cpu: None,
                    stack_size: self.rt.stack_size,
                };
                self.thread = M::spawn(spec, Box::new(relieve)).ok();
            }
        }
    }

    /// Whether a thread of its own drops futures now.
    pub(crate) fn is_at_work(&self) -> bool {
        let mut thread = self.thread.iter();
        thread.any(|thread| !thread.is_finished())
    }

    /// The workers that are stuck. Each is named again once it has been stuck for as long again.
    fn stuck(&mut self, now_ns: u64) -> Vec<Arc<WorkerShared<M>>> {
        let mut stuck = Vec::new();
        for seen in &mut self.workers {
            let pulse = seen.worker.remote().pulse();
            if pulse != seen.pulse {
                (seen.pulse, seen.since_ns) = (pulse, now_ns);
            } else if now_ns.saturating_sub(seen.since_ns) >= STUCK_NS {
                seen.since_ns = now_ns;
                stuck.push(Arc::clone(&seen.worker));
            }
        }
        stuck
    }
}
