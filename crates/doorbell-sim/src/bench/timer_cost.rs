//! What it costs to arm a timer that never fires, and to drop it, on one worker while a quarter of the others are busy.

use super::{Bench, BenchError, Measured, Ratio, counted, finish, start, sum, worker_here};
use crate::scenario::{Workers, yield_now};
use doorbell_core::task::Kind;
use doorbell_core::worker::timer::RawTimer;
use doorbell_machine::sim::{self, SimCounter};
use doorbell_machine::{Counter, ThreadError};
use futures_channel::mpsc::{UnboundedSender, unbounded};
use serde::Deserialize;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

/// How long each poll of a busy worker takes.
pub const POLL_NS: u64 = 2_000;
/// Every how many-th of the other workers is busy: a quarter, as in the kernel patch, and as far apart as that allows,
/// so that no cache has more of them than another one.
pub const BUSY_EVERY: usize = 4;
/// Timers in a loop, as in the kernel patch.
pub const LOOP: u64 = 1_000;
/// How often the loop is run. The first loops find cold lines.
const LOOPS: u64 = 10;
/// How often one timer is armed, where that is measured alone.
const ARMS: u64 = 200;
/// When the timers are due: long after the run.
const AHEAD_NS: u64 = 10_000_000_000;
/// By then a task that was launched has run, and its worker sleeps.
const SETTLE_NS: u64 = 200_000;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Case {
    /// To arm one, on a worker that has another task queued.
    ArmWhileBusy,
    /// To arm one, on a worker that has nothing else to do.
    ArmBeforeIdle,
    /// To arm one and drop it again, 1,000 times in a poll, on a worker that has nothing else to do.
    Loop,
}

/// The size of a run.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// How many workers there are. At least 2.
    pub workers: usize,
    /// What is measured.
    pub case: Case,
}

/// What was measured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// How long each measurement took: of one timer, or of a loop.
    pub took_ns: Vec<u64>,
    /// How many timers were armed.
    pub timers: u64,
    /// Messages that the other workers took: timers, and drops of timers.
    pub mails: u64,
    /// System calls that woke other workers.
    pub rings: u64,
}

impl Measured for Figures {
    fn add(&mut self, other: Self) {
        self.took_ns.extend(other.took_ns);
        self.timers += other.timers;
        self.mails += other.mails;
        self.rings += other.rings;
    }

    fn ratios(&self, _: u64) -> Vec<Ratio> {
        // Each measurement is of as many timers.
        let timers_each = self.timers / (self.took_ns.len() as u64).max(1);
        let of_one = |ns: Option<&u64>| ns.map_or([0, 0], |ns| [*ns, timers_each]);
        vec![
            ("op_ns", [self.took_ns.iter().sum(), self.timers]),
            ("op_min_ns", of_one(self.took_ns.iter().min())),
            ("op_max_ns", of_one(self.took_ns.iter().max())),
            ("mails_per_timer", [self.mails, self.timers]),
            ("rings_per_1k", [1_000 * self.rings, self.timers]),
            ("timers_count", [self.timers, 1]),
        ]
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

/// Whether a worker is one of the busy ones. The timers are armed on worker 0.
fn is_busy(worker: usize) -> bool {
    worker != 0 && worker.is_multiple_of(BUSY_EVERY)
}

/// Runs in short polls until it is told to stop.
async fn run_until_told(stop: Arc<SimCounter>) {
    while stop.get() == 0 {
        sim::work(POLL_NS);
        yield_now().await;
    }
}

/// Arms timers as the case says, in one poll. `keep` gets those that are not dropped here. `None` if another worker has taken
/// the task, because its own was away for long.
fn measure(
    workers: &Arc<Workers<0>>,
    case: Case,
    due_ns: u64,
    keep: &UnboundedSender<RawTimer>,
    cx: &Context<'_>,
) -> Option<u64> {
    if worker_here() != 0 {
        return None;
    }
    let remote = workers.remote(0).clone();
    let arm = || RawTimer::arm(&remote, due_ns, cx.waker()).expect("the worker runs");
    let queued = (case == Case::ArmWhileBusy)
        .then(|| workers.launch(0, Kind::Pinned, std::future::ready(())));
    let from_ns = sim::time_ns();
    let took_ns = if case == Case::Loop {
        (0..LOOP).for_each(|_| drop(arm()));
        sim::time_ns() - from_ns
    } else {
        let timer = arm();
        let took_ns = sim::time_ns() - from_ns;
        // The receiver outlives the tasks.
        let _ = keep.unbounded_send(timer);
        took_ns
    };
    drop(queued);
    Some(took_ns)
}

/// The first thread of a run.
fn play(bench: &Bench, shape: Shape) -> Result<Figures, ThreadError> {
    let (workers, threads) = start(bench.one_scheduler(shape.workers))?;
    let stop = Arc::new(SimCounter::default());
    let busy = (0..shape.workers).filter(|worker| is_busy(*worker));
    let run = |worker| workers.launch(worker, Kind::Pinned, run_until_told(Arc::clone(&stop)));
    let busy: Vec<_> = busy.map(run).collect();
    sim::sleep(SETTLE_NS);
    let due_ns = workers.clock_ns() + AHEAD_NS;
    let before = workers.counts();
    let (rounds, each) = if shape.case == Case::Loop {
        (LOOPS, LOOP)
    } else {
        (ARMS, 1)
    };
    let (keep, mut kept) = unbounded();
    let mut figures = Figures::default();
    let mut elsewhere = 0;
    while (figures.took_ns.len() as u64) < rounds {
        let (theirs, keep) = (Arc::clone(&workers), keep.clone());
        // Launched while its worker sleeps, so it nearly always runs there.
        let task = workers.launch(
            0,
            Kind::Task,
            poll_fn(move |cx| Poll::Ready(measure(&theirs, shape.case, due_ns, &keep, cx))),
        );
        match workers.result_of(task).flatten() {
            Some(took_ns) => figures.took_ns.push(took_ns),
            None => elsewhere += 1,
        }
        if elsewhere > rounds {
            sim::fail("timers are armed on other workers than is measured");
        }
        sim::sleep(SETTLE_NS);
    }
    figures.timers = rounds * each;
    let did = counted(&before, &workers.counts());
    figures.mails = sum(&did[1..], |it| it.delivered);
    figures.rings = sum(&did[1..], |it| it.rings);
    while let Ok(timer) = kept.try_recv() {
        drop(timer);
    }
    stop.set(1);
    for task in busy {
        let _: Option<()> = workers.result_of(task);
    }
    finish(workers, threads, bench.switches);
    Ok(figures)
}
