//! Lanes on a simulated machine: started, used from outside and from within, closed and counted.

use super::ledger::Ledger;
use doorbell_core::call::{CallFailed, blocking, wait_for};
use doorbell_core::crew::{Crew, FrontRef};
use doorbell_core::lane::{IdlePolicy, Lane, LaneConfig, LaneCounts, LaneShared};
use doorbell_core::mailbox::Front;
use doorbell_core::switches::{SwitchWord, Switches};
use doorbell_core::task::{BodyVtable, Join, Kind, launch, write_body};
use doorbell_core::wheel::Clock;
use doorbell_machine::sim::SimThread;
use doorbell_machine::{Machine, Sim, ThreadError, ThreadHandle, ThreadSpec};
use std::sync::Arc;

/// How the lanes of a crew are.
#[derive(Clone, Copy, Debug)]
pub(super) struct CrewConfig {
    pub(super) lanes: usize,
    pub(super) idle: IdlePolicy,
    pub(super) switches: Switches,
}

/// The lanes of a run: lane `n` is the thread on CPU `n`.
#[derive(Debug)]
pub(super) struct Lanes<const BUG: u8> {
    shared: Vec<Arc<LaneShared<Sim<BUG>>>>,
    pub(super) ledger: Arc<Ledger>,
}

/// The threads of a run's lanes.
pub(super) type Threads = Vec<SimThread>;

impl<const BUG: u8> Lanes<BUG> {
    /// Starts the lanes.
    pub(super) fn start(
        config: CrewConfig,
        ledger: Arc<Ledger>,
    ) -> Result<(Arc<Self>, Threads), ThreadError> {
        let switches = Arc::new(SwitchWord::new(config.switches));
        let clock = Arc::new(Clock::default());
        let cpus = Sim::<BUG>::topology().cpus;
        let distance = |a: usize, b: usize| match (&cpus[a], &cpus[b]) {
            (a, b) if a.smt == b.smt => 0,
            (a, b) if a.llc == b.llc => 1,
            (a, b) if a.node == b.node => 2,
            _ => 3,
        };
        let fronts = Crew::new(config.lanes, &switches, distance);
        let idle = LaneConfig { idle: config.idle };
        let shared: Vec<_> = fronts
            .into_iter()
            .map(|front| Arc::new(LaneShared::with(idle, front, Arc::clone(&clock))))
            .collect();
        let start = |(lane, shared): (usize, &Arc<LaneShared<Sim<BUG>>>)| {
            let shared = Arc::clone(shared);
            let spec = ThreadSpec {
                name: format!("lane {lane}"),
                cpu: Some(lane),
            };
            Sim::<BUG>::spawn(spec, Box::new(move || Lane::new(shared).run()))
        };
        let threads = shared
            .iter()
            .enumerate()
            .map(start)
            .collect::<Result<_, _>>()?;
        Ok((Arc::new(Lanes { shared, ledger }), threads))
    }

    pub(super) fn len(&self) -> usize {
        self.shared.len()
    }

    pub(super) fn front(&self, lane: usize) -> &FrontRef<Sim<BUG>> {
        self.shared[lane].front()
    }

    pub(super) fn crew(&self) -> &Crew<Sim<BUG>> {
        self.front(0).crew()
    }

    /// All counts of all lanes.
    pub(super) fn counts(&self) -> Vec<LaneCounts> {
        self.shared.iter().map(|shared| shared.counts()).collect()
    }

    /// Asks all lanes to end, and waits until they have.
    pub(super) fn close(&self, threads: Threads) {
        self.shared.iter().for_each(|shared| shared.close());
        for thread in threads {
            // A panic ends the whole run, so there is none.
            let _ = thread.join();
        }
    }

    /// Launches a task or a call.
    pub(super) fn launch<F>(&self, lane: usize, kind: Kind, future: F) -> Join<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send,
    {
        let vtable = BodyVtable::of::<F>();
        // SAFETY: the body written is of the table's type and Send, and so is its output, which
        // is the one that the handle is typed with.
        unsafe {
            launch(self.front(lane).clone(), kind, vtable, |body| {
                write_body(body, future);
            })
            .typed()
        }
    }

    /// Calls a lane and waits. Not from a lane.
    pub(super) fn call<R: Send>(&self, lane: usize, f: impl FnOnce() -> R + Send) -> Option<R> {
        let front: &Front<Sim<BUG>> = self.front(lane);
        // SAFETY: the call is waited for here, once, and nothing of it is kept; closure and result
        // are Send.
        match unsafe { blocking(f, |call| wait_for(front, &call)) } {
            Ok(result) => Some(result),
            Err(CallFailed::Gone(_) | CallFailed::Panicked(_)) => None,
        }
    }
}
