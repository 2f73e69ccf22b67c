//! Calls between workers: of a few to one, as ipistorm makes them, or of all to all, as threads that swap.

use super::{Bench, BenchError, counted, finish, gather, sleep_until, start, sum};
use crate::scenario::{Sleep, Workers};
use doorbell_core::call::Outcome;
use doorbell_core::task::{Join, Kind};
use doorbell_core::worker::IdlePolicy;
use doorbell_machine::sim::{self, SimCounter};
use doorbell_machine::{Counter, ThreadError};
use std::sync::Arc;

/// What the launch of a task may take the launcher.
const LAUNCH_NS: u64 = 20_000;
/// How long calls are made that do not count.
const WARM_UP_NS: u64 = 100_000;

/// Who calls whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// A task on each of so many workers, from the first on, calls the last worker. None of them ever parks.
    CallLast(usize),
    /// A task on each worker calls all workers. They park as a runtime does that was asked for nothing.
    CallAll,
}

/// The size of a run.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// How many workers there are.
    pub workers: usize,
    /// Who calls whom.
    pub who: Who,
    /// How many tasks sleep on the last worker meanwhile.
    pub sleepers: usize,
    /// How long calls are made that count.
    pub span_ns: u64,
}

/// What was measured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// How long each call took.
    pub took_ns: Vec<u64>,
    /// How many workers answered, of all calls that count.
    pub answers: u64,
    /// System calls that woke workers, or would have.
    pub rings: u64,
    /// Passes of all workers.
    pub passes: u64,
    /// The time in which calls were made.
    pub span_ns: u64,
}

impl Figures {
    /// Adds the figures of another seed.
    pub fn add(&mut self, other: Self) {
        self.took_ns.extend(other.took_ns);
        self.answers += other.answers;
        self.rings += other.rings;
        self.passes += other.passes;
        self.span_ns += other.span_ns;
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

/// When calls are made that count.
#[derive(Clone, Copy, Debug)]
struct Span {
    begins_ns: u64,
    ends_ns: u64,
}

/// Calls until the time is over, at least once, and returns how long each call took that counts.
async fn call_often(
    workers: Arc<Workers<0>>,
    who: Who,
    span: Span,
    ran: Arc<SimCounter>,
) -> Vec<u64> {
    let all: Vec<_> = (0..workers.len()).collect();
    let mut took_ns = Vec::new();
    loop {
        let from_ns = sim::time_ns();
        if from_ns >= span.ends_ns && !took_ns.is_empty() {
            return took_ns;
        }
        let ran = Arc::clone(&ran);
        let is_done = if who == Who::CallAll {
            let many = workers.call_many(move |_| _ = ran.add_shared(1), &all);
            let outcomes = many.await;
            outcomes.iter().all(|it| matches!(it, Outcome::Done(())))
        } else {
            let last = all.len() - 1;
            let call = workers.launch(last, Kind::Call, async move {
                ran.add_shared(1);
            });
            call.await.is_ok()
        };
        if !is_done {
            sim::fail("lost: a call did not run");
        }
        if from_ns >= span.begins_ns {
            took_ns.push(sim::time_ns() - from_ns);
        }
    }
}

/// The first thread of a run.
fn play(bench: &Bench, shape: Shape) -> Result<Figures, ThreadError> {
    let mut config = bench.one_scheduler(shape.workers);
    let callers = match shape.who {
        Who::CallAll => shape.workers,
        Who::CallLast(callers) => {
            config.idle = IdlePolicy::NeverPark;
            callers
        }
    };
    let (workers, threads) = start(config)?;
    let launched_ns = LAUNCH_NS * (callers + shape.sleepers) as u64;
    let begins_ns = sim::time_ns() + launched_ns + WARM_UP_NS;
    let span = Span {
        begins_ns,
        ends_ns: begins_ns + shape.span_ns,
    };
    let last = shape.workers - 1;
    let sleep = |number: usize| {
        let for_ns = span.ends_ns.saturating_sub(sim::time_ns()) + WARM_UP_NS + number as u64;
        workers.launch(last, Kind::Pinned, Sleep::new(&workers, last, for_ns))
    };
    let sleepers: Vec<_> = (0..shape.sleepers).map(sleep).collect();
    let ran = Arc::<SimCounter>::default();
    let call = |worker| {
        let calls = call_often(Arc::clone(&workers), shape.who, span, Arc::clone(&ran));
        workers.launch(worker, Kind::Pinned, calls)
    };
    let callers: Vec<Join<Vec<u64>>> = (0..callers).map(call).collect();
    sleep_until(span.begins_ns);
    let before = workers.counts();
    sleep_until(span.ends_ns);
    let did = counted(&before, &workers.counts());
    let took_ns = gather(&workers, callers);
    for sleeper in sleepers {
        drop(workers.wait_for(sleeper, 0));
    }
    let each = if shape.who == Who::CallAll {
        shape.workers
    } else {
        1
    };
    let answers = (took_ns.len() * each) as u64;
    if ran.get() < answers {
        sim::fail("lost: fewer calls ran than were answered");
    }
    finish(workers, threads, bench.switches);
    Ok(Figures {
        took_ns,
        answers,
        rings: sum(&did, |it| it.rings),
        passes: sum(&did, |it| it.passes),
        span_ns: shape.span_ns,
    })
}
