//! Calls to workers: of a few threads to one worker, as ipistorm makes them, or of all workers to all, as threads that swap.

use super::{
    Bench, BenchError, Measured, Ratio, SECOND_NS, counted, finish, gather, mean, sleep_until,
    start, sum,
};
use crate::scenario::{Sleep, Workers, spawn};
use doorbell_core::call::Outcome;
use doorbell_core::task::{Join, Kind};
use doorbell_machine::sim::{self, SimCounter, SimThread};
use doorbell_machine::{Counter, ThreadError, ThreadHandle};
use futures_channel::mpsc::{UnboundedReceiver, unbounded};
use serde::Deserialize;
use std::sync::Arc;

/// What the launch of a task may take the launcher.
const LAUNCH_NS: u64 = 20_000;
/// How long calls are made that do not count.
const WARM_UP_NS: u64 = 100_000;

/// Who calls whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Who {
    /// So many threads that are no workers, each with a CPU of its own behind those of the workers, call the last
    /// worker, and spin until it answers.
    CallLast(usize),
    /// A task on each worker calls all workers.
    CallAll,
}

/// The size of a run.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
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

impl Measured for Figures {
    fn add(&mut self, other: Self) {
        self.took_ns.extend(other.took_ns);
        self.answers += other.answers;
        self.rings += other.rings;
        self.passes += other.passes;
        self.span_ns += other.span_ns;
    }

    fn times_ns(&self) -> Vec<(&'static str, &[u64])> {
        vec![("", &self.took_ns)]
    }

    fn ratios(&self, _: u64) -> Vec<Ratio> {
        let ended = self.took_ns.len() as u64;
        vec![
            ("op_ns", mean(&self.took_ns)),
            ("calls_per_s", [ended * SECOND_NS, self.span_ns]),
            ("rings_per_1k", [1_000 * self.rings, ended]),
            ("passes_per_1k", [1_000 * self.passes, ended]),
        ]
    }
}

/// Runs it.
///
/// # Errors
/// [`BenchError`] if the machine cannot be simulated or an oracle fails.
pub fn run(bench: &Bench, shape: Shape) -> Result<Figures, BenchError> {
    let threads = match shape.who {
        Who::CallLast(callers) => callers,
        Who::CallAll => 0,
    };
    let cpus = shape.workers + threads;
    bench.run(cpus + 1, cpus, move |bench| play(bench, shape))
}

/// When calls are made that count.
#[derive(Clone, Copy, Debug)]
struct Span {
    begins_ns: u64,
    ends_ns: u64,
}

/// Calls again and again until the time is over, at least once. Returns how long each call took that counts.
macro_rules! call_often {
    ($span:expr, $call:expr) => {{
        let span: Span = $span;
        let mut took_ns = Vec::new();
        loop {
            let from_ns = sim::time_ns();
            if from_ns >= span.ends_ns && !took_ns.is_empty() {
                break took_ns;
            }
            if !$call {
                sim::fail("lost: a call did not run");
            }
            if from_ns >= span.begins_ns {
                took_ns.push(sim::time_ns() - from_ns);
            }
        }
    }};
}

/// A task that calls all workers. All of these begin at one moment.
async fn call_all(
    workers: Arc<Workers<0>>,
    me: usize,
    span: Span,
    ran: Arc<SimCounter>,
) -> Vec<u64> {
    let from_ns = span.begins_ns - WARM_UP_NS;
    Sleep::new(&workers, me, from_ns.saturating_sub(sim::time_ns())).await;
    let all: Vec<_> = (0..workers.len()).collect();
    call_often!(span, {
        let ran = Arc::clone(&ran);
        let many = workers.call_many(move |_| _ = ran.add_shared(1), &all);
        let outcomes = many.await;
        outcomes.iter().all(|it| matches!(it, Outcome::Done(())))
    })
}

/// A thread that calls the last worker.
fn call_last(workers: &Workers<0>, span: Span, ran: &SimCounter) -> Vec<u64> {
    let last = workers.len() - 1;
    call_often!(span, workers.call(last, || _ = ran.add_shared(1)).is_some())
}

/// Starts all callers. Once all have ended, the receiver has a list of times of each.
fn begin(
    shape: Shape,
    workers: &Arc<Workers<0>>,
    span: Span,
    ran: &Arc<SimCounter>,
) -> Result<Callers, ThreadError> {
    let (mut tasks, mut threads) = (Vec::new(), Vec::new());
    let (says, took) = unbounded();
    match shape.who {
        Who::CallAll => tasks.extend((0..shape.workers).map(|worker| {
            let calls = call_all(Arc::clone(workers), worker, span, Arc::clone(ran));
            workers.launch(worker, Kind::Pinned, calls)
        })),
        Who::CallLast(callers) => {
            for caller in 0..callers {
                let (says, workers, ran) = (says.clone(), Arc::clone(workers), Arc::clone(ran));
                let call = move || drop(says.unbounded_send(call_last(&workers, span, &ran)));
                threads.push(spawn::<0>("caller", shape.workers + caller, call)?);
            }
        }
    }
    Ok(Callers {
        tasks,
        threads,
        took,
    })
}

struct Callers {
    tasks: Vec<Join<Vec<u64>>>,
    threads: Vec<SimThread>,
    took: UnboundedReceiver<Vec<u64>>,
}

impl Callers {
    /// How long all calls took that count.
    fn join(mut self, workers: &Workers<0>) -> Result<Vec<u64>, ThreadError> {
        let mut took_ns = gather(workers, self.tasks);
        self.threads.into_iter().try_for_each(ThreadHandle::join)?;
        while let Ok(theirs) = self.took.try_recv() {
            took_ns.extend(theirs);
        }
        Ok(took_ns)
    }
}

/// The first thread of a run.
fn play(bench: &Bench, shape: Shape) -> Result<Figures, ThreadError> {
    let (workers, threads) = start(bench.one_scheduler(shape.workers))?;
    let (callers, each) = match shape.who {
        Who::CallAll => (shape.workers, shape.workers),
        Who::CallLast(callers) => (callers, 1),
    };
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
    let callers = begin(shape, &workers, span, &ran)?;
    sleep_until(span.begins_ns);
    let before = workers.counts();
    sleep_until(span.ends_ns);
    let did = counted(&before, &workers.counts());
    let took_ns = callers.join(&workers)?;
    for sleeper in sleepers {
        drop(workers.wait_for(sleeper, 0));
    }
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
