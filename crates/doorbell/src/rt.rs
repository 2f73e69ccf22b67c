//! The runtime of one machine, below the public names.

use crate::ambient::{self, Ambient};
use crate::handle::Handle;
use crate::metrics::{LaneMetrics, Metrics};
use crate::{CoreId, Switches};
use doorbell_core::bell::LaneState;
use doorbell_core::call::{ErasedCall, Gone, SPIN_NS, wait_for};
use doorbell_core::lane::{Lane, LaneConfig, LaneShared};
use doorbell_core::switches::SwitchWord;
use doorbell_core::task::{BodyVtable, Kind, RawJoin, launch};
use doorbell_core::wait;
use doorbell_core::wheel::{Clock, RawTimer};
use doorbell_machine::{Counter, Machine, ThreadError, ThreadHandle, ThreadSpec};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Waker;

/// What a runtime is made of.
pub(crate) struct Plan {
    pub(crate) name: String,
    /// The CPU of each core; `None` leaves its lane free.
    pub(crate) cpus: Vec<Option<usize>>,
    pub(crate) watch_ns: u64,
    pub(crate) switches: Switches,
}

/// What handles and lanes share.
#[derive(Debug)]
pub(crate) struct Rt<M: Machine> {
    lanes: Box<[Arc<LaneShared<M>>]>,
    switches: Arc<SwitchWord<M::Counter>>,
    cursor: M::Counter,
    watch_ns: u64,
    clock: Arc<Clock<M>>,
}

/// The lanes' threads: whoever has this ends the runtime by dropping it.
#[derive(Debug)]
pub(crate) struct Owner<M: Machine> {
    rt: Arc<Rt<M>>,
    threads: Vec<M::Thread>,
}

impl<M: Machine> Owner<M> {
    /// Starts one lane per core.
    pub(crate) fn start(plan: &Plan) -> Result<Self, ThreadError> {
        let switches = Arc::new(SwitchWord::new(plan.switches));
        let config = LaneConfig {
            watch_ns: plan.watch_ns,
        };
        let clock = Arc::new(Clock::default());
        let lanes = plan.cpus.iter().map(|_| {
            let (switches, clock) = (Arc::clone(&switches), Arc::clone(&clock));
            Arc::new(LaneShared::with_clock(config, switches, clock))
        });
        let rt = Arc::new(Rt {
            lanes: lanes.collect(),
            switches,
            cursor: M::Counter::default(),
            watch_ns: plan.watch_ns,
            clock,
        });
        // If a thread cannot be started, dropping the owner ends those that were.
        let mut owner = Owner {
            rt,
            threads: Vec::new(),
        };
        for (core, &cpu) in plan.cpus.iter().enumerate() {
            let spec = ThreadSpec {
                name: format!("{}-{core}", plan.name),
                cpu,
            };
            let rt = Arc::clone(&owner.rt);
            owner
                .threads
                .push(M::spawn(spec, Box::new(move || rt.run_lane(core)))?);
        }
        Ok(owner)
    }

    pub(crate) fn handle(&self) -> Handle {
        let rt: Arc<Rt<M>> = Arc::clone(&self.rt);
        Handle::new(rt)
    }
}

impl<M: Machine> Drop for Owner<M> {
    fn drop(&mut self) {
        // All are told before any is waited for: a task of one may wait for a task of another
        // to be dropped.
        for lane in &self.rt.lanes {
            lane.close();
        }
        for thread in self.threads.drain(..) {
            // Dropped on one of its own lanes, which cannot wait for itself: it ends after the
            // current poll.
            if !thread.is_current() {
                // A lane catches the panics of what it runs; one that panics itself is a bug
                // of doorbell, which std has already printed.
                let _ = thread.join();
            }
        }
    }
}

impl<M: Machine> Rt<M> {
    fn run_lane(self: Arc<Self>, core: usize) {
        let shared = Arc::clone(&self.lanes[core]);
        let entered = ambient::enter(Handle::new(self), Some(core));
        Lane::new(shared).run();
        drop(entered);
    }
}

impl<M: Machine> Ambient for Rt<M> {
    fn cores(&self) -> usize {
        self.lanes.len()
    }

    fn next_core(&self) -> usize {
        (self.cursor.add_shared(1) % self.lanes.len() as u64) as usize
    }

    unsafe fn launch(
        &self,
        core: usize,
        kind: Kind,
        vtable: &'static BodyVtable,
        write: &mut dyn FnMut(*mut u8),
    ) -> RawJoin {
        let front = Arc::clone(self.lanes[core].front());
        // SAFETY: passed on from the caller.
        unsafe { launch(front, kind, vtable, write) }
    }

    unsafe fn call_blocking(&self, core: usize, call: &ErasedCall) -> Result<(), Gone> {
        // SAFETY: passed on from the caller.
        unsafe { wait_for(self.lanes[core].front(), call) }
    }

    fn block_on(&self, future: Pin<&mut dyn Future<Output = ()>>) {
        // A lane may be asked to watch for ever; a thread of the user's only for a while.
        wait::block_on::<M, _>(future, self.watch_ns.min(SPIN_NS));
    }

    fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    fn arm_timer(&self, when_ns: u64, waker: &Waker) -> Result<RawTimer, Gone> {
        // The core matters only to a caller that is no lane.
        RawTimer::arm(self.lanes[0].front(), when_ns, waker)
    }

    fn metrics(&self) -> Metrics {
        let lanes = self.lanes.iter().enumerate();
        Metrics::new(
            lanes.map(|(core, lane)| {
                LaneMetrics::new(CoreId::new(core), lane.state(), lane.counts())
            }),
        )
    }

    fn lane_state(&self, core: usize) -> LaneState {
        self.lanes[core].state()
    }

    fn switches(&self) -> Switches {
        self.switches.load()
    }

    fn set_switches(&self, switches: Switches) {
        self.switches.store(switches);
    }
}
