//! Dbench's shape: pairs of a client and a server. The client sends a request under a timeout and waits for the answer;
//! most timeouts are dropped, and now and then a client thinks.
//!
//! The numbers, each with its reason:
//!
//! | number | value | reason |
//! |---|---|---|
//! | work of an operation | 5 µs of the client, 10 µs of the server | one pair of the kernel patch's run moves 353 MB/s: at 8 KiB, 23 µs each; two wakes take the rest |
//! | timeout | 1 ms | some fifty operations of a pair, so a timer that is not dropped is a rare event, and a run has some |
//! | lost requests | 1 of 256 | timeouts are mostly dropped; these fire |
//! | thinking | 1 operation of 32, for 100 µs | so that workers of few pairs idle, and a timer is the only reason to wake |
//!
//! Of each 256 requests of a client one is lost, and after one of 32 operations it thinks; which, the seed decides. So
//! seeds differ little, and a row of a few seeds shows a change of one per cent.

use super::{Bench, BenchError, Measured, Ratio, SECOND_NS, counted, finish, gather, start, sum};
use crate::scenario::{Sleep, Workers};
use doorbell_core::task::{Join, Kind};
use doorbell_machine::ThreadError;
use doorbell_machine::sim;
use futures_channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use serde::Deserialize;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

/// The work of one operation.
pub const CLIENT_NS: u64 = 5_000;
/// See `CLIENT_NS`.
pub const SERVER_NS: u64 = 10_000;
/// How long a client waits for an answer.
pub const TIMEOUT_NS: u64 = 1_000_000;
/// One request in so many is lost.
pub const LOST_IN: u64 = 256;
/// A client thinks after one operation in so many.
pub const THINKS_IN: u64 = 32;
/// For so long.
pub const THINK_NS: u64 = 100_000;
/// Between the launches of two pairs: by then both tasks wait, and their workers sleep. Else a worker that is awake takes
/// the next tasks before theirs, and pairs begin on one core while others are idle.
const LAUNCH_NS: u64 = 150_000;
/// Between the first operation and the first one that counts.
const WARM_NS: u64 = 500_000;

/// The size of a run.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// How many pairs there are.
    pub pairs: usize,
    /// On how many cores.
    pub workers: usize,
    /// How long operations count.
    pub span_ns: u64,
}

/// What was measured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// How many operations ended in each run.
    pub ended: Vec<u64>,
    /// In how much time, of all runs together.
    pub span_ns: u64,
    /// Timeouts that fired.
    pub timeouts: u64,
    /// How often clients thought, and how much later than that they went on, all together.
    pub thinks: u64,
    /// See `thinks`.
    pub late_ns: u64,
    /// System calls that woke workers.
    pub rings: u64,
    /// Timers that another worker fired than the one that had them.
    pub pulled: u64,
    /// Of those, timers whose tasks went to an idle worker.
    pub placed: u64,
}

impl Measured for Figures {
    fn add(&mut self, other: Self) {
        self.ended.extend(other.ended);
        self.span_ns += other.span_ns;
        self.timeouts += other.timeouts;
        self.thinks += other.thinks;
        self.late_ns += other.late_ns;
        self.rings += other.rings;
        self.pulled += other.pulled;
        self.placed += other.placed;
    }

    fn ratios(&self, _: u64) -> Vec<Ratio> {
        let (ended, runs) = (self.ended.iter().sum::<u64>(), self.ended.len() as u64);
        let per_s = |ended: u64| [ended * SECOND_NS, self.span_ns];
        let of_one = |ended: Option<&u64>| ended.map_or([0, 0], |ended| per_s(ended * runs));
        vec![
            ("ops_per_s", per_s(ended)),
            ("ops_min_per_s", of_one(self.ended.iter().min())),
            ("ops_max_per_s", of_one(self.ended.iter().max())),
            ("timeouts_per_1k", [1_000 * self.timeouts, ended]),
            ("late_us", [self.late_ns, 1_000 * self.thinks]),
            ("rings_per_op", [self.rings, ended]),
            ("pulled_per_1k", [1_000 * self.pulled, ended]),
            ("placed_per_1k", [1_000 * self.placed, ended]),
            ("ops_count", [ended, 1]),
        ]
    }
}

/// When operations count.
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
    bench.run(shape.workers + 1, shape.workers, move |bench| {
        play(bench, shape)
    })
}

/// What a server is asked for.
enum Request {
    Answer,
    /// It gets no answer.
    Lose,
}

/// One client, and the worker that it is launched on.
struct Client {
    workers: Arc<Workers<0>>,
    worker: usize,
    ask: UnboundedSender<Request>,
    answers: UnboundedReceiver<()>,
}

/// What came of the operations of a client that count.
#[derive(Clone, Copy, Debug, Default)]
struct Done {
    ended: u64,
    timeouts: u64,
    thinks: u64,
    late_ns: u64,
}

/// What happens once in so many operations of a client; the seed draws in which of them.
struct OneIn {
    many: u64,
    /// How many of them are over.
    over: u64,
    happens_after: u64,
}

impl OneIn {
    /// The first operation may be any of the first so many.
    fn new(many: u64) -> Self {
        OneIn {
            over: sim::random() % many,
            ..Self::all(many)
        }
    }

    fn all(many: u64) -> Self {
        OneIn {
            many,
            over: 0,
            happens_after: sim::random() % many,
        }
    }

    /// Whether it happens in the next operation.
    fn draw(&mut self) -> bool {
        let happens = self.over == self.happens_after;
        self.over += 1;
        if self.over == self.many {
            *self = Self::all(self.many);
        }
        happens
    }
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waited {
    Answered,
    TimedOut,
}

impl Client {
    /// Waits for an answer, until the timeout.
    async fn wait(&mut self) -> Waited {
        let mut timeout = pin!(Sleep::new(&self.workers, self.worker, TIMEOUT_NS));
        let mut answer = pin!(self.answers.recv());
        poll_fn(|cx| {
            if let Poll::Ready(came) = answer.as_mut().poll(cx) {
                if came.is_err() {
                    sim::fail("lost: a server ended before its client");
                }
                return Poll::Ready(Waited::Answered);
            }
            match timeout.as_mut().poll(cx) {
                Poll::Ready(fired) => {
                    if !fired {
                        sim::fail("lost: a timeout ended without firing");
                    }
                    Poll::Ready(Waited::TimedOut)
                }
                Poll::Pending => Poll::Pending,
            }
        })
        .await
    }

    async fn run(mut self, span: Span) -> Vec<Done> {
        let begin_ns = (span.from_ns - WARM_NS).saturating_sub(sim::time_ns());
        Sleep::new(&self.workers, self.worker, begin_ns).await;
        let mut done = Done::default();
        let (mut loses, mut thinks) = (OneIn::new(LOST_IN), OneIn::new(THINKS_IN));
        while sim::time_ns() < span.until_ns {
            sim::work(CLIENT_NS);
            let is_lost = loses.draw();
            let request = if is_lost {
                Request::Lose
            } else {
                Request::Answer
            };
            // The server lives as long as its client.
            let _ = self.ask.unbounded_send(request);
            let waited = self.wait().await;
            if is_lost && waited == Waited::Answered {
                sim::fail("once: a lost request was answered");
            }
            if !is_lost && waited == Waited::TimedOut {
                // It is late, not lost: its answer must not count for the next request.
                let _ = self.answers.recv().await;
            }
            let counts = (span.from_ns..span.until_ns).contains(&sim::time_ns());
            done.ended += u64::from(counts);
            done.timeouts += u64::from(counts && waited == Waited::TimedOut);
            if thinks.draw() {
                let due_ns = sim::time_ns() + THINK_NS;
                Sleep::new(&self.workers, self.worker, THINK_NS).await;
                if counts {
                    done.thinks += 1;
                    done.late_ns += sim::time_ns().saturating_sub(due_ns);
                }
            }
        }
        vec![done]
    }
}

async fn serve(mut asked: UnboundedReceiver<Request>, say: UnboundedSender<()>) {
    while let Ok(request) = asked.recv().await {
        sim::work(SERVER_NS);
        match request {
            // The client may have ended.
            Request::Answer => drop(say.unbounded_send(())),
            Request::Lose => {}
        }
    }
}

/// The first thread of a run.
fn play(bench: &Bench, shape: Shape) -> Result<Figures, ThreadError> {
    let (workers, threads) = start(bench.one_scheduler(shape.workers))?;
    let launched_ns = sim::time_ns();
    let begin_ns = launched_ns + (shape.pairs as u64 + 1) * LAUNCH_NS;
    let from_ns = begin_ns + WARM_NS;
    let span = Span {
        from_ns,
        until_ns: from_ns + shape.span_ns,
    };
    let mut clients: Vec<Join<Vec<Done>>> = Vec::new();
    let mut servers: Vec<Join<()>> = Vec::new();
    for pair in 0..shape.pairs {
        let (ask, asked) = unbounded();
        let (say, answers) = unbounded();
        let [here, there] = [2 * pair, 2 * pair + 1].map(|place| place % shape.workers);
        servers.push(workers.launch(there, Kind::Task, serve(asked, say)));
        let client = Client {
            workers: Arc::clone(&workers),
            worker: here,
            ask,
            answers,
        };
        clients.push(workers.launch(here, Kind::Task, client.run(span)));
        super::sleep_until(launched_ns + (pair as u64 + 1) * LAUNCH_NS);
    }
    if sim::time_ns() > begin_ns {
        sim::fail("too late for the first operation");
    }
    super::sleep_until(from_ns);
    let before = workers.counts();
    super::sleep_until(span.until_ns);
    let did = counted(&before, &workers.counts());
    let done = gather(&workers, clients);
    for task in servers {
        drop(workers.wait_for(task, 0));
    }
    finish(workers, threads, bench.switches);
    Ok(Figures {
        ended: vec![done.iter().map(|it| it.ended).sum()],
        span_ns: shape.span_ns,
        timeouts: done.iter().map(|it| it.timeouts).sum(),
        thinks: done.iter().map(|it| it.thinks).sum(),
        late_ns: done.iter().map(|it| it.late_ns).sum(),
        rings: sum(&did, |it| it.rings),
        pulled: sum(&did, |it| it.timers_pulled),
        placed: sum(&did, |it| it.pulls_placed),
    })
}
