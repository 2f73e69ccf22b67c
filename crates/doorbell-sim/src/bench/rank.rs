//! A task of rank 99 waits behind a poll of rank 50 that takes 600 µs, while the other urgent workers are idle or run
//! rank 1.

use super::{Bench, BenchError, Measured, Ratio, finish, sleep_until, start, worker_here};
use crate::scenario::{RT, Workers};
use doorbell_core::task::{Join, Kind};
use doorbell_machine::sim::{self, SimCounter};
use doorbell_machine::{Counter, ThreadError};
use futures_channel::oneshot::{Receiver, Sender, channel};
use serde::Deserialize;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

/// How long the poll is that the task waits behind.
pub const LONG_NS: u64 = 600_000;
/// How long each poll of rank 1 is.
pub const SHORT_NS: u64 = 5_000;
/// The rank of the task that waits.
const HIGH: u8 = 99;
const MIDDLE: u8 = 50;
const LOW: u8 = 1;
/// By when a task that was launched waits, and its worker sleeps.
const SETTLE_NS: u64 = 300_000;
/// How far into the long poll the task is woken: the seed draws it, up to this.
const INTO_MAX_NS: u64 = 50_000;
/// Longer than the launch of the long poll takes.
const LAUNCH_NS: u64 = 60_000;

/// Who wakes the task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Waker {
    /// A thread that is no worker.
    Thread,
    /// The long poll itself.
    Poll,
}

/// What the other urgent workers do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Others {
    /// Nothing.
    Idle,
    /// Each runs a task of rank 1 all the time, in short polls.
    Busy,
}

/// The size of a run.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// How many urgent workers there are. At least 2.
    pub workers: usize,
    /// Who wakes the task.
    pub by: Waker,
    /// What the other workers do.
    pub others: Others,
    /// How often it is done.
    pub times: u64,
}

/// What was measured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// For each wake, how long the task waited.
    pub wait_ns: Vec<u64>,
    /// Tries that do not count, because another worker had taken the task before it was to wait.
    pub skipped: u64,
}

impl Measured for Figures {
    fn add(&mut self, other: Self) {
        self.wait_ns.extend(other.wait_ns);
        self.skipped += other.skipped;
    }

    fn times_ns(&self) -> Vec<(&'static str, &[u64])> {
        vec![("", &self.wait_ns)]
    }

    fn ratios(&self, _: u64) -> Vec<Ratio> {
        vec![
            ("wakes_count", [self.wait_ns.len() as u64, 1]),
            ("skipped_count", [self.skipped, 1]),
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

/// Runs in short polls until told to stop.
async fn run_always(stop: Arc<SimCounter>) {
    poll_fn(|cx| {
        sim::work(SHORT_NS);
        if stop.get() != 0 {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Waits to be woken once. Returns where it waited and how long it then took to run.
async fn wait_once(woken: Receiver<u64>) -> (usize, u64) {
    let waits_at = worker_here();
    match woken.await {
        Ok(at_ns) => (waits_at, sim::time_ns() - at_ns),
        Err(_) => (waits_at, 0),
    }
}

fn wake(say: Sender<u64>) {
    if say.send(sim::time_ns()).is_err() {
        sim::fail("lost: the task ended before it was woken");
    }
}

/// One try, on the first urgent worker.
fn try_once(shape: Shape, workers: &Arc<Workers<0>>, figures: &mut Figures) {
    let first = RT * shape.workers;
    let (say, woken) = channel();
    let waits = workers.launch_ranked(first, Kind::Task, HIGH, wait_once(woken));
    sim::sleep(SETTLE_NS);
    let at_ns = sim::time_ns() + LAUNCH_NS;
    let until_ns = at_ns + LONG_NS;
    let wakes_ns = at_ns + sim::random() % INTO_MAX_NS;
    let (by_poll, by_thread) = match shape.by {
        Waker::Poll => (Some(say), None),
        Waker::Thread => (None, Some(say)),
    };
    let long = workers.launch_ranked(first, Kind::Pinned, MIDDLE, async move {
        if let Some(say) = by_poll {
            sim::work(wakes_ns.saturating_sub(sim::time_ns()));
            wake(say);
        }
        sim::work(until_ns.saturating_sub(sim::time_ns()));
    });
    if let Some(say) = by_thread {
        sleep_until(wakes_ns);
        wake(say);
    }
    drop(workers.wait_for(long, 0));
    match workers.result_of(waits) {
        Some((0, wait_ns)) => figures.wait_ns.push(wait_ns),
        Some(_) => figures.skipped += 1,
        None => {}
    }
}

/// The first thread of a run.
fn play(bench: &Bench, shape: Shape) -> Result<Figures, ThreadError> {
    let (workers, threads) = start(bench.by_rank(shape.workers))?;
    let stop = Arc::<SimCounter>::default();
    let urgent = RT * shape.workers;
    let others: Vec<Join<()>> = match shape.others {
        Others::Idle => Vec::new(),
        Others::Busy => (1..shape.workers)
            .map(|worker| {
                let runs = run_always(Arc::clone(&stop));
                workers.launch_ranked(urgent + worker, Kind::Pinned, LOW, runs)
            })
            .collect(),
    };
    let mut figures = Figures::default();
    for _ in 0..shape.times {
        try_once(shape, &workers, &mut figures);
    }
    stop.set(1);
    for task in others {
        drop(workers.wait_for(task, 0));
    }
    finish(workers, threads, bench.switches);
    Ok(figures)
}
