//! A contestant: a runtime that has done a little work and then is idle.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use super::super::contestant::Stage;
use super::super::timers::{Host, Job, Timers, WORKERS, gather};
use super::super::trial::{Outcome, Trial};
use crate::error::LabError;
use crate::measure::{SyscallCounter, SyscallSource, Threads, ThreadsUse};

/// The tasks that run before.
const TASKS: usize = 1_000;
/// From the end of the work until a runtime must be idle: the longest spin, and the time until a thread
/// sleeps.
const SETTLES: Duration = Duration::from_millis(100);

/// One runtime with two workers.
#[derive(Debug)]
pub(super) struct Idling<T: Timers> {
    stage: Stage,
    syscalls: Option<SyscallSource>,
    baseline: bool,
    running: Option<(T::Host, Threads)>,
    timers: PhantomData<T>,
}

impl<T: Timers> Idling<T> {
    pub(super) fn new(stage: Stage, syscalls: Option<SyscallSource>) -> Self {
        Self {
            stage,
            syscalls,
            baseline: false,
            running: None,
            timers: PhantomData,
        }
    }

    /// Makes it the baseline.
    pub(super) fn baseline(self) -> Self {
        Self {
            baseline: true,
            ..self
        }
    }
}

impl<T: Timers> Trial for Idling<T> {
    fn name(&self) -> &'static str {
        T::NAME
    }

    fn variant(&self) -> &'static str {
        super::VARIANT
    }

    fn group(&self) -> &'static str {
        super::VARIANT
    }

    fn is_baseline(&self) -> bool {
        self.baseline
    }

    fn setup(&mut self) -> Result<(), LabError> {
        let before = Threads::now()?;
        let host = T::Host::start(self.stage.placement)?;
        let own = Threads::now()?.since(&before);
        self.running = Some((host, own));
        Ok(())
    }

    fn run(&mut self, span_ms: u32) -> Result<Outcome, LabError> {
        let (host, threads) = self.running.as_ref().ok_or(LabError::NotSetUp)?;
        work(host)?;
        thread::sleep(SETTLES);
        // Each thread has a counter of its own, so that this thread's reads are not counted.
        let counters = self.syscalls.and_then(|source| counters(source, threads));
        let before = threads.used()?;
        let begin = Instant::now();
        thread::sleep(Duration::from_millis(u64::from(span_ms)));
        let used = threads.used()?.since(before);
        let span = begin.elapsed();
        let syscalls = counters.as_deref().map(sum).transpose()?;
        Ok(outcome(used, span, syscalls, threads.count()))
    }

    fn teardown(&mut self) -> Result<(), LabError> {
        self.running.take().map_or(Ok(()), |(host, _)| host.stop())
    }
}

/// Starts a counter for each thread; `None` if one is refused.
fn counters(source: SyscallSource, threads: &Threads) -> Option<Vec<SyscallCounter>> {
    let opened = threads.numbers().map(|number| source.open_for(number));
    opened.collect::<Result<_, _>>().ok()
}

fn sum(counters: &[SyscallCounter]) -> Result<u64, LabError> {
    counters.iter().map(SyscallCounter::read).sum()
}

/// Gives both workers some work.
fn work(host: &impl Host) -> Result<(), LabError> {
    let (done, results) = mpsc::channel();
    for core in 0..WORKERS {
        let job = |_| -> Job {
            let done = done.clone();
            Box::pin(async move {
                // The receiver is gone only if the waiting thread has panicked.
                let _ = done.send(());
            })
        };
        host.run(core, (0..TASKS / WORKERS).map(job).collect())?;
    }
    gather(&results, TASKS).map(drop)
}

/// What the threads did while there was no work.
pub(super) fn outcome(
    used: ThreadsUse,
    span: Duration,
    syscalls: Option<u64>,
    threads: usize,
) -> Outcome {
    let switches = used.voluntary_switches + used.involuntary_switches;
    let mut figures = BTreeMap::from([
        ("idle_switches_count", switches as f64),
        ("idle_involuntary_count", used.involuntary_switches as f64),
        ("idle_span_s", span.as_secs_f64()),
        ("threads_count", threads as f64),
    ]);
    if let Some(cpu_ns) = used.cpu_ns {
        let percent = 100.0 * cpu_ns as f64 / span.as_nanos() as f64;
        figures.insert("idle_cpu_percent", percent);
    }
    if let Some(syscalls) = syscalls {
        figures.insert("idle_syscalls_count", syscalls as f64);
    }
    Outcome {
        operations: TASKS as u64,
        figures,
        ..Outcome::default()
    }
}
