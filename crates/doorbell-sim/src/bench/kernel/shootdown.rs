//! A twin of many threads that swap: a thread on each CPU works, and calls all other CPUs again and again.
//!
//! Each of them has to drop a page from its cache of translations, and the caller waits for all. In the kernel before the
//! patch each call interrupts each CPU. With it a call interrupts only the CPU whose call queue was empty. How long a thread
//! works between two calls is the only unknown: a parameter.

use super::Cpus;
use crate::bench::{Bench, BenchError, Measured, Ratio, SECOND_NS, sleep_until};
use crate::scenario::spawn;
use doorbell_machine::sim::{self, SimCounter};
use doorbell_machine::{Counter, ThreadError, ThreadHandle};
use serde::Deserialize;
use std::sync::Arc;

/// What a call does: dropping a page from the cache of translations, for a CPU that does nothing else.
const FUNCTION_NS: u64 = 200;
/// A thread that works takes interrupts this often.
const STEP_NS: u64 = 250;
/// Time before that counts.
const WARM_UP_NS: u64 = 100_000;

/// The size of a run.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// How many CPUs have a thread.
    pub cpus: usize,
    /// Whether a call queue that is not empty is left without an interrupt.
    pub is_patched: bool,
    /// How long a thread works between two calls, on average.
    pub work_ns: u64,
    /// The time that counts.
    pub span_ns: u64,
}

/// What was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Calls to all that ended in the time that counts.
    pub calls: u64,
    /// Interrupts that all CPUs took in that time.
    pub interrupts: u64,
    /// That time.
    pub span_ns: u64,
}

impl Measured for Figures {
    fn add(&mut self, other: Self) {
        self.calls += other.calls;
        self.interrupts += other.interrupts;
        self.span_ns += other.span_ns;
    }

    fn ratios(&self, _: u64) -> Vec<Ratio> {
        vec![
            ("calls_per_s", [self.calls * SECOND_NS, self.span_ns]),
            ("interrupts_per_1k", [1_000 * self.interrupts, self.calls]),
        ]
    }
}

/// Runs it.
///
/// # Errors
/// [`BenchError`] if the machine cannot be simulated.
pub fn run(bench: &Bench, shape: Shape) -> Result<Figures, BenchError> {
    bench.run(shape.cpus + 1, shape.cpus, move |bench| play(bench, shape))
}

impl Cpus {
    /// Works for about this long, with interrupts.
    fn compute(&self, me: usize, work_ns: u64) {
        let work_ns = work_ns / 2 + sim::random() % work_ns.max(1);
        for _ in 0..=work_ns / STEP_NS {
            sim::work(STEP_NS);
            self.take_interrupt(me);
        }
    }

    /// Calls all others, and waits until all have run the call.
    fn call_all(&self, me: usize, is_patched: bool) {
        let others = (0..self.all.len()).filter(|cpu| *cpu != me);
        let posted = others.clone().filter(|to| {
            self.take_interrupt(me);
            self.post(me, *to) || !is_patched
        });
        // The kernel queues all calls before it interrupts.
        for to in posted.collect::<Vec<_>>() {
            self.interrupt(to);
            self.take_interrupt(me);
        }
        for to in others {
            self.wait_for(me, to);
        }
    }
}

/// How often a thread has called all others, and whether all shall end.
#[derive(Debug, Default)]
struct Score {
    calls: SimCounter,
    ended: SimCounter,
}

/// The first thread of a run, on a CPU of its own.
fn play(bench: &Bench, shape: Shape) -> Result<Figures, ThreadError> {
    let cpus = Arc::new(Cpus::new(shape.cpus, bench.machine.costs, FUNCTION_NS));
    let score = Arc::<Score>::default();
    let began_ns = sim::time_ns() + shape.cpus as u64 * bench.machine.costs.spawn_ns + WARM_UP_NS;
    let ends_ns = began_ns + shape.span_ns;
    let thread = |me: usize| {
        let (cpus, score) = (Arc::clone(&cpus), Arc::clone(&score));
        spawn::<0>("swap", me, move || {
            while sim::time_ns() < ends_ns {
                cpus.compute(me, shape.work_ns);
                cpus.call_all(me, shape.is_patched);
                score.calls.add_shared(1);
            }
            // Others may still call.
            score.ended.add_shared(1);
            while score.ended.get() < shape.cpus as u64 {
                cpus.compute(me, STEP_NS);
            }
        })
    };
    let threads: Vec<_> = (0..shape.cpus).map(thread).collect::<Result<_, _>>()?;
    let by_now = || {
        let interrupts = cpus.all.iter().map(|it| it.interrupts.get());
        (score.calls.get(), interrupts.sum::<u64>())
    };
    sleep_until(began_ns);
    let before = by_now();
    sleep_until(ends_ns);
    let after = by_now();
    threads.into_iter().try_for_each(ThreadHandle::join)?;
    Ok(Figures {
        calls: after.0 - before.0,
        interrupts: after.1 - before.1,
        span_ns: shape.span_ns,
    })
}
