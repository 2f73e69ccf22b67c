//! Timers on many workers, any of which may fire them. Some workers are awake all the time. Measured are how often the
//! others are woken for timers, and how late the timers are. No task waits for the timers, so nothing else wakes a
//! worker.

use super::{Bench, BenchError, Measured, Ratio, counted, finish, sleep_until, start, sum};
use crate::scenario::{Workers, run_until};
use doorbell_core::task::Kind;
use doorbell_core::tree::Tree;
use doorbell_core::worker::timer::RawTimer;
use doorbell_machine::ThreadError;
use doorbell_machine::sim;
use futures_channel::mpsc::{UnboundedSender, unbounded};
use serde::Deserialize;
use std::sync::Arc;
use std::task::{Wake, Waker};

/// How long each poll of an awake worker takes.
pub const POLL_NS: u64 = 2_000;
/// By when a task that was launched has run, and its worker sleeps.
const SETTLE_NS: u64 = 1_000_000;
/// How long before the first timer can be due the awake workers begin.
const LEAD_NS: u64 = 1_000_000;
/// How long after the last one they go on.
const TAIL_NS: u64 = 1_000_000;

/// The size of a run.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// How many workers there are. At least 2.
    pub workers: usize,
    /// How many of them are awake all the time, in short polls.
    pub awake: usize,
    /// How many timers there are, spread over all workers.
    pub timers: usize,
    /// Within how long they are due, at random.
    pub span_ns: u64,
}

/// What was measured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// For each timer, how late it fired.
    pub late_ns: Vec<u64>,
    /// How often a time ended the park of a worker that was not awake all the time.
    pub wakes: u64,
    /// How often such a worker was rung.
    pub rings: u64,
    /// How many of those wakes found that another worker had fired the timer.
    pub duties_ended: u64,
    /// Timers that another worker fired.
    pub pulled: u64,
    /// Visits of wheels that cost a membarrier.
    pub fenced: u64,
    /// Visits of wheels that could not be entered.
    pub refused: u64,
    /// The CPU time of each worker that was not awake all the time. The rest of the time it was parked.
    pub ran_ns: Vec<u64>,
    /// How often a worker parked.
    pub parks: u64,
    /// How often a word of the timer tree's branches was exchanged.
    pub exchanges: u64,
    /// How often a cache line went from one CPU to another.
    pub lines_moved: u64,
}

impl Measured for Figures {
    fn add(&mut self, other: Self) {
        self.late_ns.extend(other.late_ns);
        self.wakes += other.wakes;
        self.rings += other.rings;
        self.duties_ended += other.duties_ended;
        self.pulled += other.pulled;
        self.fenced += other.fenced;
        self.refused += other.refused;
        self.ran_ns.extend(other.ran_ns);
        self.parks += other.parks;
        self.exchanges += other.exchanges;
        self.lines_moved += other.lines_moved;
    }

    fn times_ns(&self) -> Vec<(&'static str, &[u64])> {
        vec![("", &self.late_ns)]
    }

    fn ratios(&self, _: u64) -> Vec<Ratio> {
        let timers = self.late_ns.len() as u64;
        vec![
            ("timers_count", [timers, 1]),
            ("wakes_per_timer", [self.wakes, timers]),
            ("rings_per_timer", [self.rings, timers]),
            ("pulled_per_timer", [self.pulled, timers]),
            ("words_per_timer", [self.exchanges, timers]),
            ("words_per_park", [self.exchanges, self.parks]),
            ("lines_per_timer", [self.lines_moved, timers]),
            ("ran_p50_us", self.ran_us(50)),
            ("ran_p90_us", self.ran_us(90)),
            ("duties_ended_count", [self.duties_ended, 1]),
            ("fenced_count", [self.fenced, 1]),
            ("refused_count", [self.refused, 1]),
        ]
    }
}

impl Figures {
    /// The CPU time that so many of 100 workers did not exceed, in µs, as a ratio.
    fn ran_us(&self, percent: usize) -> [u64; 2] {
        let mut ran_ns = self.ran_ns.clone();
        ran_ns.sort_unstable();
        let most_ns = ran_ns.get(ran_ns.len() * percent / 100);
        most_ns.map_or([0, 0], |ns| [*ns, 1_000])
    }
}

/// Runs it.
///
/// # Errors
/// [`BenchError`] if the machine cannot be simulated or an oracle fails.
pub fn run(bench: &Bench, shape: Shape) -> Result<Figures, BenchError> {
    bench.run(shape.workers + 1, shape.workers, move |bench| {
        play(bench, shape)
    })
}

/// Notes how late a timer is.
struct Note {
    workers: Arc<Workers<0>>,
    due_ns: u64,
    late: UnboundedSender<u64>,
}

impl Wake for Note {
    fn wake(self: Arc<Self>) {
        let late_ns = self.workers.clock_ns() - self.due_ns;
        let _ = self.late.unbounded_send(late_ns);
    }
}

/// Arms the timers, each on a worker in turn; all are due after `from_ns`, by the workers' clock.
fn arm(
    workers: &Arc<Workers<0>>,
    shape: Shape,
    from_ns: u64,
    late: &UnboundedSender<u64>,
) -> Vec<RawTimer> {
    let (keep, mut kept) = unbounded();
    let mut armed = Vec::new();
    for worker in 0..shape.workers {
        let (its, late, keep) = (Arc::clone(workers), late.clone(), keep.clone());
        let timers = (worker..shape.timers).step_by(shape.workers);
        let due_ns: Vec<u64> = timers
            .map(|_| from_ns + sim::random() % shape.span_ns)
            .collect();
        armed.push(workers.launch(worker, Kind::Task, async move {
            for due_ns in due_ns {
                let note = Note {
                    workers: Arc::clone(&its),
                    due_ns,
                    late: late.clone(),
                };
                let remote = its.remote(worker);
                let timer = RawTimer::arm(remote, due_ns, &Waker::from(Arc::new(note)));
                let _ = keep.unbounded_send(timer.expect("the worker runs"));
            }
        }));
        // Launched one after the other, while all workers sleep, each task runs on its own worker.
        sim::sleep(SETTLE_NS);
    }
    for task in armed {
        drop(workers.wait_for(task, 0));
    }
    std::iter::from_fn(|| kept.try_recv().ok()).collect()
}

/// What only the simulator and the tree know, since the begin of the run.
struct Odometer {
    /// The CPU time of each worker that is not awake all the time.
    ran_ns: Vec<u64>,
    exchanges: u64,
    lines_moved: u64,
}

impl Odometer {
    fn read(workers: &Arc<Workers<0>>, shape: Shape) -> Self {
        let sleepers = shape.awake..shape.workers;
        let ran_ns = sleepers.map(|worker| sim::ran_ns(workers.number(worker)));
        let tree = workers.remote(0).scheduler().tree();
        Odometer {
            ran_ns: ran_ns.collect(),
            exchanges: sim::unseen(|| tree.map_or(0, Tree::exchanges)),
            lines_moved: sim::lines_moved(),
        }
    }
}

/// The first thread of a run.
fn play(bench: &Bench, shape: Shape) -> Result<Figures, ThreadError> {
    let (workers, threads) = start(bench.one_scheduler(shape.workers))?;
    drop(workers.wait_for(workers.launch(0, Kind::Pinned, async {}), 0));
    sim::sleep(SETTLE_NS);
    let (late, mut notes) = unbounded();
    // The arming of all takes less than that.
    let lead_ns = (shape.workers as u64 + 2) * SETTLE_NS + LEAD_NS;
    let from_ns = sim::time_ns() + lead_ns;
    let timers = arm(&workers, shape, workers.clock_ns() + lead_ns, &late);
    sim::sleep(SETTLE_NS);
    let (before, odometer) = (workers.counts(), Odometer::read(&workers, shape));
    let end_ns = from_ns + shape.span_ns + TAIL_NS;
    let awake: Vec<_> = (0..shape.awake)
        .map(|worker| workers.launch(worker, Kind::Pinned, run_until(end_ns, POLL_NS)))
        .collect();
    sleep_until(end_ns + SETTLE_NS);
    let (after, went) = (workers.counts(), Odometer::read(&workers, shape));
    for task in awake {
        drop(workers.wait_for(task, 0));
    }
    let did = counted(&before, &after);
    let sleepers = &did[shape.awake..];
    let pairs = went.ran_ns.iter().zip(&odometer.ran_ns);
    let figures = Figures {
        late_ns: std::iter::from_fn(|| notes.try_recv().ok()).collect(),
        wakes: sum(sleepers, |it| it.unparks_deadline),
        rings: sum(sleepers, |it| it.rings),
        duties_ended: sum(&did, |it| it.duties_ended),
        pulled: sum(&did, |it| it.timers_pulled),
        fenced: sum(&did, |it| it.pulls_fenced),
        refused: sum(&did, |it| it.pulls_refused),
        ran_ns: pairs.map(|(now, then)| now - then).collect(),
        parks: sum(&did, |it| it.parks),
        exchanges: went.exchanges - odometer.exchanges,
        lines_moved: went.lines_moved - odometer.lines_moved,
    };
    drop(timers);
    finish(workers, threads, bench.switches);
    Ok(figures)
}
