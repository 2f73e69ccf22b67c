//! Lanes on a simulated machine: started, used from outside and from within, closed and counted.

use super::ledger::Ledger;
use doorbell_core::call::{Many, ManyCall, blocking, launch_many, wait_for};
use doorbell_core::crew::{Crew, CrewSpec, FrontRef, Turns};
use doorbell_core::lane::{IdlePolicy, Lane, LaneConfig, LaneCounts, LaneShared, RunBudget};
use doorbell_core::mailbox::Front;
use doorbell_core::switches::{SwitchWord, Switches};
use doorbell_core::task::{BodyVtable, Join, Kind, launch_described, write_body};
use doorbell_core::wait::block_on_inside;
use doorbell_core::wheel::{AtRest, Clock};
use doorbell_machine::sim::{self, SimCounter, SimThread};
use doorbell_machine::{Machine, Sim, ThreadError, ThreadHandle, ThreadSpec};
use std::sync::Arc;

/// How the lanes of a crew are.
#[derive(Clone, Copy, Debug)]
pub(super) struct CrewConfig {
    pub(super) lanes: usize,
    pub(super) idle: IdlePolicy,
    pub(super) switches: Switches,
    /// Their clock stands still until nothing is left to do.
    pub(super) paused: bool,
    pub(super) turns: Turns,
    /// For how long each runs of a period.
    pub(super) budget: Option<RunBudget>,
}

/// The lanes of a run: lane `n` is the thread on CPU `n`.
#[derive(Debug)]
pub(super) struct Lanes<const BUG: u8> {
    shared: Vec<Arc<LaneShared<Sim<BUG>>>>,
    pub(super) ledger: Arc<Ledger>,
    pub(super) clock: Arc<Clock<Sim<BUG>>>,
    turns: Turns,
    /// Each front has a share.
    switches: Arc<SwitchWord<SimCounter>>,
}

/// How many ranks tasks have where that matters.
const RANKS: u64 = 5;
/// How long after one lane the next is asked to end, at most.
const CLOSE_APART_NS: u64 = 60_000;
/// By when a lane that was rung is awake, mostly.
const WAKE_NS: u64 = 8_000;

/// The threads of a run's lanes.
pub(super) type Threads = Vec<SimThread>;

impl<const BUG: u8> Lanes<BUG> {
    /// Starts the lanes.
    pub(super) fn start(
        config: CrewConfig,
        ledger: Arc<Ledger>,
    ) -> Result<(Arc<Self>, Threads), ThreadError> {
        let switches = Arc::new(SwitchWord::new(config.switches));
        let cpus = Sim::<BUG>::topology().cpus;
        let distance = |a: usize, b: usize| match (&cpus[a], &cpus[b]) {
            (a, b) if a.smt == b.smt => 0,
            (a, b) if a.llc == b.llc => 1,
            (a, b) if a.node == b.node => 2,
            _ => 3,
        };
        let fronts = {
            let spec = CrewSpec {
                turns: config.turns,
                ..CrewSpec::default()
            };
            Crew::described(config.lanes, &switches, spec, distance)
        };
        let clock = Arc::new(if config.paused {
            let told = Arc::clone(&ledger);
            Clock::paused(fronts[0].clone(), move || {
                told.check_rest();
                AtRest::Nobody
            })
        } else {
            Clock::default()
        });
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
            let lane = move || Lane::limited(shared, config.budget).run();
            Sim::<BUG>::spawn(spec, Box::new(lane))
        };
        let threads = shared
            .iter()
            .enumerate()
            .map(start)
            .collect::<Result<_, _>>()?;
        let lanes = Lanes {
            shared,
            ledger,
            clock,
            turns: config.turns,
            switches,
        };
        Ok((Arc::new(lanes), threads))
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

    /// Waits for a future, on a thread that is no lane: watches for so long, then parks.
    pub(super) fn wait_for<F: Future>(&self, future: F, watch_ns: u64) -> F::Output {
        block_on_inside(&self.clock, future, watch_ns)
    }

    /// All counts of all lanes.
    pub(super) fn counts(&self) -> Vec<LaneCounts> {
        self.shared.iter().map(|shared| shared.counts()).collect()
    }

    /// Asks all lanes to end, and waits until they have.
    pub(super) fn close(&self, threads: Threads) {
        self.shared.iter().for_each(|shared| shared.close());
        Self::join(threads);
    }

    /// The same, one after the other, each a little later than the one before, and some while they
    /// wake up.
    pub(super) fn close_slowly(&self, threads: Threads) {
        for shared in &self.shared {
            if sim::random().is_multiple_of(2) {
                shared.front().request_pass();
                sim::work(sim::random() % WAKE_NS);
            }
            shared.close();
            sim::sleep(sim::random() % CLOSE_APART_NS);
        }
        Self::join(threads);
    }

    fn join(threads: Threads) {
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
        let rank = match self.turns {
            Turns::ByArrival => 0,
            Turns::ByRank => (sim::random() % RANKS) as u8,
        };
        // SAFETY: the body written is of the table's type and Send, and so is its output, which
        // is the one that the handle is typed with.
        unsafe {
            launch_described(self.front(lane).clone(), kind, rank, None, vtable, |body| {
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
        unsafe { blocking(f, |call| wait_for(front, &call)) }.ok()
    }

    /// Calls several lanes at once.
    pub(super) fn call_many<F, R>(&self, f: F, lanes: &[usize]) -> Many<R>
    where
        F: Fn(usize) -> R + Send + Sync + 'static,
        R: Send + 'static,
    {
        let call = ManyCall::new(f, lanes);
        let layout = call.layout();
        let fronts = lanes.iter().map(|lane| &**self.front(*lane));
        let table = ManyCall::<F, R>::TABLE;
        // SAFETY: as many fronts as lanes, one at least; what is written is what the table is for,
        // and closure and results are Send and Sync.
        let raw =
            unsafe { launch_many(fronts, lanes.len(), table, layout, |data| call.write(data)) };
        // SAFETY: launched with that table, and not polled.
        unsafe { Many::typed::<F>(raw) }
    }

    /// Lets the crew go, whose lanes have ended and whose last user this is. How many of its
    /// fronts are there still.
    pub(super) fn free(lanes: Arc<Self>) -> Result<usize, usize> {
        let users = Arc::strong_count(&lanes);
        let lanes = Arc::into_inner(lanes).ok_or(users - 1)?;
        let switches = Arc::clone(&lanes.switches);
        drop(lanes);
        Ok(Arc::strong_count(&switches) - 1)
    }
}
