//! Work that is handed over without waiting for it: calls of all workers to one at a time, and tasks that one spawns.

use super::{Bench, BenchError, Measured, Ratio, finish, gather, sleep_until, start};
use crate::scenario::{Sleep, Workers};
use doorbell_core::task::{Join, Kind};
use doorbell_machine::{ThreadError, sim};
use serde::Deserialize;
use std::sync::Arc;

/// How long a spawned task computes.
const TASK_NS: u64 = 1_000;
/// What the launch of a task may take the launcher.
const LAUNCH_NS: u64 = 50_000;

/// What is handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// A task on each worker calls the last worker, many times in a row.
    Flood,
    /// A task on the first worker spawns tasks, which any worker may run.
    Spawn,
}

/// The size of a run.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// How many workers there are. At least 2.
    pub workers: usize,
    /// What is handed over.
    pub what: What,
    /// How many calls or tasks in all, about.
    pub total: usize,
}

/// What was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// The time in which everything was handed over; of a flood, also taken in and run.
    pub span_ns: u64,
    /// How many calls or tasks.
    pub count: u64,
    /// How often a cache line went from one CPU to another meanwhile, or was taken from all others for a write.
    pub lines_moved: u64,
}

impl Measured for Figures {
    fn add(&mut self, other: Self) {
        self.span_ns += other.span_ns;
        self.count += other.count;
        self.lines_moved += other.lines_moved;
    }

    fn ratios(&self, _: u64) -> Vec<Ratio> {
        vec![
            ("op_ns", [self.span_ns, self.count]),
            ("lines_per_op", [self.lines_moved, self.count]),
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

/// Hands over so much from that moment on. Returns when it began, and when it ended.
async fn hand_over(
    workers: Arc<Workers<0>>,
    me: usize,
    what: What,
    count: usize,
    from_ns: u64,
) -> Vec<[u64; 2]> {
    Sleep::new(&workers, me, from_ns.saturating_sub(sim::time_ns())).await;
    let begun_ns = sim::time_ns();
    let (to, kind, work_ns) = match what {
        What::Flood => (workers.len() - 1, Kind::Call, 0),
        What::Spawn => (me, Kind::Task, TASK_NS),
    };
    let hand = |_| workers.launch(to, kind, async move { sim::work(work_ns) });
    let all: Vec<Join<()>> = (0..count).map(hand).collect();
    let handed_ns = sim::time_ns();
    for one in all {
        if one.await.is_err() {
            sim::fail("lost: what was handed over did not run");
        }
    }
    let ended_ns = if what == What::Flood {
        sim::time_ns()
    } else {
        handed_ns
    };
    vec![[begun_ns, ended_ns]]
}

/// The first thread of a run.
fn play(bench: &Bench, shape: Shape) -> Result<Figures, ThreadError> {
    let (workers, threads) = start(bench.one_scheduler(shape.workers))?;
    let posters = match shape.what {
        What::Flood => shape.workers - 1,
        What::Spawn => 1,
    };
    let each = shape.total.div_ceil(posters);
    let from_ns = sim::time_ns() + LAUNCH_NS * (posters as u64 + 1);
    let hand_over = |me| {
        let it = hand_over(Arc::clone(&workers), me, shape.what, each, from_ns);
        workers.launch(me, Kind::Pinned, it)
    };
    let all: Vec<_> = (0..posters).map(hand_over).collect();
    if sim::time_ns() > from_ns {
        sim::fail("a task was launched too late to begin with the others");
    }
    sleep_until(from_ns);
    let before = sim::lines_moved();
    let spans = gather(&workers, all);
    let lines_moved = sim::lines_moved() - before;
    finish(workers, threads, bench.switches);
    let begun_ns = spans.iter().map(|it| it[0]).min().unwrap_or(0);
    let ended_ns = spans.iter().map(|it| it[1]).max().unwrap_or(0);
    Ok(Figures {
        span_ns: ended_ns - begun_ns,
        count: (each * posters) as u64,
        lines_moved,
    })
}
