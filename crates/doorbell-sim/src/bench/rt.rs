//! Cyclictest's shape: each urgent worker has a task that runs every 100 µs, all at one instant.
//!
//! Beside them there may be movable tasks of lower rank, which become ready at the same instants: at one of the workers
//! the movable task waits behind the periodic one, while all the others go idle. Or two workers stay overloaded with
//! pinned tasks that no other worker may take.

use super::{Bench, BenchError, Measured, Ratio, SECOND_NS, counted, finish, gather, start, sum};
use crate::scenario::{RT, Sleep, Workers};
use doorbell_core::task::{Join, Kind};
use doorbell_core::worker::WorkerCounts;
use doorbell_machine::sim::{self, SimCounter};
use doorbell_machine::{Counter, ThreadError};
use serde::Deserialize;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

/// The time between two runs of a periodic task.
pub const PERIOD_NS: u64 = 100_000;
/// How long a poll is on average; the seed draws each, within a tenth.
pub const POLL_NS: u64 = 3_000;
/// The rank of the periodic tasks.
pub const RANK: u8 = 95;
/// The rank of the pinned tasks of a storm.
const STORM_RANK: u8 = 50;
/// How many of them an overloaded worker has.
const STORM_TASKS: usize = 2;
/// Periods before the first that counts.
const WARM_UP: u64 = 10;
/// How long after all tasks were launched the first period begins.
const READY_NS: u64 = 2_000_000;
/// What the launch of a task may take the launcher.
const LAUNCH_NS: u64 = 20_000;
/// How long before the first period that counts the counters are read.
const BEFORE_NS: u64 = PERIOD_NS / 5;

/// What runs beside the periodic tasks.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Load {
    /// Nothing.
    Alone,
    /// A movable task of each of these ranks, with the same period and phase.
    Extra(Vec<u8>),
    /// Pinned tasks that always run or wait, two on each of two workers. These have no periodic task.
    Storm,
}

/// The size of a run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// How many urgent workers there are. At least 4.
    pub workers: usize,
    /// What runs beside the periodic tasks.
    pub load: Load,
    /// How many periods count.
    pub periods: u64,
}

/// What was measured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// How many periods each run counts.
    pub periods: u64,
    /// How late each run of a periodic task was.
    pub late_ns: Vec<u64>,
    /// The same of the movable tasks; in a storm, how long each poll of a pinned task was waited for.
    pub extra_ns: Vec<u64>,
    /// System calls that woke urgent workers.
    pub rings: u64,
    /// Those made to the worker to which most were made.
    pub rings_most: u64,
    /// Tasks that a worker took from another one.
    pub taken: u64,
    /// Searches for work at other workers that found none.
    pub searches_vain: u64,
    /// Times that an idle worker was chosen which another waker got.
    pub claims_lost: u64,
}

impl Measured for Figures {
    fn add(&mut self, other: Self) {
        self.late_ns.extend(other.late_ns);
        self.extra_ns.extend(other.extra_ns);
        self.rings += other.rings;
        self.rings_most = self.rings_most.max(other.rings_most);
        self.taken += other.taken;
        self.searches_vain += other.searches_vain;
        self.claims_lost += other.claims_lost;
        self.periods = self.periods.max(other.periods);
    }

    fn times_ns(&self) -> Vec<(&'static str, &[u64])> {
        vec![("", &self.late_ns), ("extra_", &self.extra_ns)]
    }

    fn ratios(&self, worker_runs: u64) -> Vec<Ratio> {
        const PER_S: u64 = SECOND_NS / PERIOD_NS;
        let worker_periods = self.periods * worker_runs;
        let vain = self.searches_vain * PER_S;
        vec![
            ("runs_count", [self.late_ns.len() as u64, 1]),
            ("rings_per_core_s", [self.rings * PER_S, worker_periods]),
            (
                "rings_most_per_core_s",
                [self.rings_most * PER_S, self.periods],
            ),
            ("searches_vain_per_core_s", [vain, worker_periods]),
            ("taken_count", [self.taken, 1]),
            ("claims_lost_count", [self.claims_lost, 1]),
        ]
    }
}

impl Shape {
    /// The two workers that a storm overloads: one in the middle of the first half, one at its end.
    fn overloaded(&self) -> [usize; 2] {
        [self.workers / 4 - 1, self.workers / 2 - 1]
    }

    fn is_overloaded(&self, worker: usize) -> bool {
        self.load == Load::Storm && self.overloaded().contains(&worker)
    }

    fn first_ns(&self) -> u64 {
        sim::time_ns() + (self.workers as u64 + 8) * LAUNCH_NS + READY_NS
    }
}

/// Runs it.
///
/// # Errors
/// [`BenchError`] if the machine cannot be simulated or an oracle fails.
pub fn run(bench: &Bench, shape: Shape) -> Result<Figures, BenchError> {
    bench.run(shape.workers + 1, shape.workers, move |bench| {
        play(bench, &shape)
    })
}

/// How long one poll is.
fn draw_poll_ns() -> u64 {
    POLL_NS * 9 / 10 + sim::random() % (POLL_NS / 5)
}

/// Runs in every period, and returns how late.
async fn run_periodic(
    workers: Arc<Workers<0>>,
    worker: usize,
    first_ns: u64,
    periods: u64,
) -> Vec<u64> {
    let mut late_ns = Vec::new();
    for period in 0..WARM_UP + periods {
        let due_ns = first_ns + period * PERIOD_NS;
        Sleep::new(&workers, worker, due_ns.saturating_sub(sim::time_ns())).await;
        if period >= WARM_UP {
            late_ns.push(sim::time_ns() - due_ns);
        }
        sim::work(draw_poll_ns());
    }
    late_ns
}

/// Runs in short polls until told to stop, and returns how long it waited for each.
async fn run_always(stop: Arc<SimCounter>) -> Vec<u64> {
    let mut wait_ns = Vec::new();
    let mut ready_ns = None;
    poll_fn(|cx| {
        if let Some(ready_ns) = ready_ns.replace(0) {
            wait_ns.push(sim::time_ns() - ready_ns);
        }
        sim::work(draw_poll_ns());
        if stop.get() != 0 {
            return Poll::Ready(());
        }
        ready_ns = Some(sim::time_ns());
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
    wait_ns
}

/// The tasks of a run.
struct Tasks {
    periodic: Vec<Join<Vec<u64>>>,
    extra: Vec<Join<Vec<u64>>>,
    /// Ends the tasks of a storm.
    stop: Arc<SimCounter>,
}

impl Tasks {
    fn launch(shape: &Shape, workers: &Arc<Workers<0>>, first_ns: u64) -> Self {
        let urgent = RT * shape.workers;
        let launch = |worker: usize, kind, rank| {
            let runs = run_periodic(
                Arc::clone(workers),
                urgent + worker,
                first_ns,
                shape.periods,
            );
            workers.launch_ranked(urgent + worker, kind, rank, runs)
        };
        let stop = Arc::<SimCounter>::default();
        let has_periodic = (0..shape.workers).filter(|worker| !shape.is_overloaded(*worker));
        let periodic = has_periodic
            .map(|worker| launch(worker, Kind::Pinned, RANK))
            .collect();
        let extra = match &shape.load {
            Load::Alone => Vec::new(),
            Load::Extra(ranks) => {
                let places = ranks.iter().enumerate();
                places
                    .map(|(place, rank)| launch(place, Kind::Task, *rank))
                    .collect()
            }
            Load::Storm => {
                let each = shape
                    .overloaded()
                    .into_iter()
                    .flat_map(|worker| [worker; STORM_TASKS]);
                let runs = |worker| {
                    let runs = run_always(Arc::clone(&stop));
                    workers.launch_ranked(urgent + worker, Kind::Pinned, STORM_RANK, runs)
                };
                each.map(runs).collect()
            }
        };
        Tasks {
            periodic,
            extra,
            stop,
        }
    }

    /// How late the periodic tasks were, and how long the others waited.
    fn join(self, workers: &Workers<0>) -> [Vec<u64>; 2] {
        let late_ns = gather(workers, self.periodic);
        self.stop.set(1);
        [late_ns, gather(workers, self.extra)]
    }
}

/// The counts of the urgent workers.
fn counts(workers: &Workers<0>, shape: &Shape) -> Vec<WorkerCounts> {
    let all = workers.counts();
    all[RT * shape.workers..][..shape.workers].to_vec()
}

/// The first thread of a run.
fn play(bench: &Bench, shape: &Shape) -> Result<Figures, ThreadError> {
    let (workers, threads) = start(bench.by_rank(shape.workers))?;
    let first_ns = shape.first_ns();
    let tasks = Tasks::launch(shape, &workers, first_ns);
    if sim::time_ns() + READY_NS / 2 > first_ns {
        sim::fail("too late for the first period");
    }
    super::sleep_until(first_ns + WARM_UP * PERIOD_NS - BEFORE_NS);
    let before = counts(&workers, shape);
    super::sleep_until(first_ns + (WARM_UP + shape.periods) * PERIOD_NS - BEFORE_NS);
    let after = counts(&workers, shape);
    let [late_ns, extra_ns] = tasks.join(&workers);
    finish(workers, threads, bench.switches);
    let did = counted(&before, &after);
    Ok(Figures {
        periods: shape.periods,
        late_ns,
        extra_ns,
        rings: sum(&did, |it| it.rings),
        rings_most: did.iter().map(|it| it.rings).max().unwrap_or(0),
        taken: sum(&did, |it| it.stolen),
        searches_vain: sum(&did, |it| it.searches - it.thefts),
        claims_lost: sum(&did, |it| it.claims_lost),
    })
}
