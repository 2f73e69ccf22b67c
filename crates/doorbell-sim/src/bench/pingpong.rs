//! Uperf's shape: pairs of tasks exchange messages of 8 KiB, without a pause or in 60 bursts a second.
//!
//! The messages lie in memory that both tasks of a pair use. Each KiB of one is a cache line that is charged as any
//! other, and some work: on a real machine the line is waited for, and the prefetcher brings the rest of the KiB.

use super::{Bench, BenchError, Measured, Ratio, SECOND_NS, counted, finish, gather, start, sum};
use crate::scenario::{Sleep, Workers};
use doorbell_core::task::{Join, Kind};
use doorbell_machine::sim;
use doorbell_machine::{Line, Machine, Ordering, Sim, ThreadError, Word};
use futures_channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use serde::Deserialize;
use std::sync::Arc;

/// The lines of a message that are waited for: one for each KiB.
const LINES: usize = 8;
/// The work of copying a message, beside its lines: 20 GB/s.
const COPY_NS: u64 = 400;
/// Exchanges in a burst.
pub const BURST: u64 = 16;
/// The time between two bursts: 60 a second.
pub const FRAME_NS: u64 = 16_666_667;
/// By when as many pairs have been launched, beside some time for the first. What is exchanged before does not count.
const READY_NS: u64 = 75_000;

/// When messages are exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pace {
    /// All the time.
    Always,
    /// 60 times a second all pairs begin a burst of 16 exchanges at one instant.
    Bursts,
}

/// The size of a run.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// How many pairs there are.
    pub pairs: usize,
    /// On how many cores.
    pub workers: usize,
    /// When they exchange messages.
    pub pace: Pace,
    /// How long exchanges count.
    pub span_ns: u64,
}

/// What was measured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// How long each exchange took: a message and its answer.
    pub trip_ns: Vec<u64>,
    /// In how much time these were made.
    pub span_ns: u64,
    /// System calls that woke workers.
    pub rings: u64,
}

impl Measured for Figures {
    fn add(&mut self, other: Self) {
        self.trip_ns.extend(other.trip_ns);
        self.span_ns += other.span_ns;
        self.rings += other.rings;
    }

    fn times_ns(&self) -> Vec<(&'static str, &[u64])> {
        vec![("", &self.trip_ns)]
    }

    fn ratios(&self, _: u64) -> Vec<Ratio> {
        let trips = self.trip_ns.len() as u64;
        vec![
            ("ops_per_s", [trips * SECOND_NS, self.span_ns]),
            ("rings_per_1k", [1_000 * self.rings, trips]),
            ("exchanges_count", [trips, 1]),
        ]
    }
}

/// When exchanges count.
#[derive(Clone, Copy, Debug)]
struct Span {
    from_ns: u64,
    until_ns: u64,
}

/// Runs it.
///
/// # Errors
/// [`BenchError`] if the machine cannot be simulated or an oracle fails.
pub fn run(bench: &Bench, shape: Shape) -> Result<Figures, BenchError> {
    bench.run(shape.workers, shape.workers - 1, move |bench| {
        play(bench, shape)
    })
}

type SimLine = <Sim as Machine>::Line<<Sim as Machine>::U64>;

/// A message in memory, and how its reader is told of it.
struct Message {
    lines: Arc<[SimLine; LINES]>,
}

impl Message {
    fn new() -> Self {
        let line = |_| Line::new(|| Word::new(0));
        Message {
            lines: Arc::new(std::array::from_fn(line)),
        }
    }

    fn share(&self) -> Self {
        Message {
            lines: Arc::clone(&self.lines),
        }
    }

    fn write(&self) {
        sim::work(COPY_NS);
        for line in self.lines.iter() {
            // ORDER: relaxed; the wake that follows publishes it, and only its cost matters.
            line.store(1, Ordering::Relaxed);
        }
    }

    fn read(&self) {
        for line in self.lines.iter() {
            // ORDER: relaxed; the wake before has published it, and only its cost matters.
            let _ = line.load(Ordering::Relaxed);
        }
        sim::work(COPY_NS);
    }
}

/// One side of a pair.
struct Side {
    mine: Message,
    theirs: Message,
    say: UnboundedSender<()>,
    hear: UnboundedReceiver<()>,
}

impl Side {
    fn pair() -> [Self; 2] {
        let (there, back) = (Message::new(), Message::new());
        let (ping, pinged) = unbounded();
        let (pong, ponged) = unbounded();
        let other = Side {
            mine: back.share(),
            theirs: there.share(),
            say: pong,
            hear: pinged,
        };
        let first = Side {
            mine: there,
            theirs: back,
            say: ping,
            hear: ponged,
        };
        [first, other]
    }

    /// Sends a message. The other side may have ended.
    fn send(&self) {
        self.mine.write();
        drop(self.say.unbounded_send(()));
    }

    /// Waits for a message. Returns whether one came.
    async fn receive(&mut self) -> bool {
        let came = self.hear.recv().await.is_ok();
        if came {
            self.theirs.read();
        }
        came
    }

    async fn exchange(&mut self, span: Span, trip_ns: &mut Vec<u64>) {
        let began_ns = sim::time_ns();
        self.send();
        if !self.receive().await {
            sim::fail("lost: a message was never answered");
        }
        if began_ns >= span.from_ns && sim::time_ns() <= span.until_ns {
            trip_ns.push(sim::time_ns() - began_ns);
        }
    }

    async fn answer(mut self) {
        while self.receive().await {
            self.send();
        }
    }
}

/// Exchanges messages, and returns how long each took.
async fn ask(
    mut side: Side,
    workers: Arc<Workers<0>>,
    worker: usize,
    pace: Pace,
    span: Span,
) -> Vec<u64> {
    let mut trip_ns = Vec::new();
    let mut frame_ns = span.from_ns;
    while sim::time_ns() < span.until_ns {
        match pace {
            Pace::Always => side.exchange(span, &mut trip_ns).await,
            Pace::Bursts => {
                Sleep::new(&workers, worker, frame_ns.saturating_sub(sim::time_ns())).await;
                for _ in 0..BURST {
                    side.exchange(span, &mut trip_ns).await;
                }
                frame_ns += FRAME_NS;
            }
        }
    }
    trip_ns
}

/// The first thread of a run.
fn play(bench: &Bench, shape: Shape) -> Result<Figures, ThreadError> {
    let (workers, threads) = start(bench.one_scheduler(shape.workers))?;
    let from_ns = sim::time_ns() + (shape.pairs as u64 + 8) * READY_NS;
    let span = Span {
        from_ns,
        until_ns: from_ns + shape.span_ns,
    };
    let mut asking: Vec<Join<Vec<u64>>> = Vec::new();
    let mut answering: Vec<Join<()>> = Vec::new();
    for pair in 0..shape.pairs {
        let [first, other] = Side::pair();
        let [here, there] = [2 * pair, 2 * pair + 1].map(|place| place % shape.workers);
        answering.push(workers.launch(there, Kind::Task, other.answer()));
        let asks = ask(first, Arc::clone(&workers), here, shape.pace, span);
        asking.push(workers.launch(here, Kind::Task, asks));
    }
    if sim::time_ns() > from_ns {
        sim::fail("too late for the first exchange that counts");
    }
    super::sleep_until(from_ns);
    let before = workers.counts();
    super::sleep_until(span.until_ns);
    let after = workers.counts();
    let trip_ns = gather(&workers, asking);
    for task in answering {
        drop(workers.wait_for(task, 0));
    }
    finish(workers, threads, bench.switches);
    Ok(Figures {
        trip_ns,
        span_ns: shape.span_ns,
        rings: sum(&counted(&before, &after), |it| it.rings),
    })
}
