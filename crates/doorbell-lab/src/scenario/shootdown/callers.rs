//! A contestant: a runtime on all CPUs, and threads beside it. All of them call.

use std::collections::BTreeMap;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use doorbell::{
    Builder, CallCoalesce, CallError, CoreId, Handle, ManyResults, Runtime, Switches, WorkerCounts,
};

use super::super::trial::{Outcome, Trial};
use super::counts::Counts;
use crate::error::LabError;
use crate::measure::allowed_cpus;

const THREAD: &str = "shootdown-caller";

/// The result of a caller: how many calls it made, or that one was lost.
type Called = Result<u64, Lost>;
/// The order to call, with the channel for the result.
type Order = Sender<Called>;

/// A call without a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Lost;

/// One setting of the switch.
#[derive(Debug)]
pub(super) struct Callers {
    setting: CallCoalesce,
    threads: usize,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    runtime: Runtime,
    counts: &'static Counts,
    threads: Vec<(Sender<Order>, JoinHandle<()>)>,
}

impl Callers {
    pub(super) fn new(setting: CallCoalesce, threads: usize) -> Self {
        Self {
            setting,
            threads,
            running: None,
        }
    }

    /// The name of a setting in the table.
    pub(super) fn variant_of(setting: CallCoalesce) -> &'static str {
        match setting {
            CallCoalesce::Base => "call_coalesce=base",
            CallCoalesce::On => "call_coalesce=on",
        }
    }
}

impl Trial for Callers {
    fn name(&self) -> &'static str {
        "doorbell"
    }

    fn variant(&self) -> &str {
        Self::variant_of(self.setting)
    }

    fn group(&self) -> &'static str {
        "all cores at once"
    }

    fn is_baseline(&self) -> bool {
        self.setting == CallCoalesce::Base
    }

    fn setup(&mut self) -> Result<(), LabError> {
        let cpus = allowed_cpus()?;
        let counts = Counts::leaked(cpus.len());
        let runtime = Builder::new().core_list(cpus).name("lab").build()?;
        runtime.handle().set_switches(Switches {
            call_coalesce: self.setting,
            ..Switches::default()
        });
        let running = self.running.insert(Running {
            runtime,
            counts,
            threads: Vec::new(),
        });
        for _ in 0..self.threads {
            let (orders, inject) = mpsc::channel();
            let handle = running.runtime.handle().clone();
            let thread = start(move || follow(&inject, &handle, counts))?;
            running.threads.push((orders, thread));
        }
        Ok(())
    }

    fn run(&mut self, span_ms: u32) -> Result<Outcome, LabError> {
        let running = self.running.as_ref().ok_or(LabError::NotSetUp)?;
        running.all_call(Duration::from_millis(u64::from(span_ms)))
    }

    fn teardown(&mut self) -> Result<(), LabError> {
        self.running.take().map_or(Ok(()), Running::end)
    }
}

impl Running {
    fn all_call(&self, span: Duration) -> Result<Outcome, LabError> {
        let handle = self.runtime.handle();
        let counts = self.counts;
        let ran_before = counts.ran();
        let before = counts_of(handle);
        counts.go_on(true);
        let begin = Instant::now();
        let by_threads = self.start_threads()?;
        let by_workers = start_workers(handle, counts);
        thread::sleep(span);
        counts.go_on(false);
        let by_workers = gather(&by_workers, handle.cores())?;
        let by_threads = gather(&by_threads, self.threads.len())?;
        let span = begin.elapsed();
        let used = since(&counts_of(handle), &before);
        once_each(by_workers + by_threads, &ran_before, &counts.ran())?;
        Ok(outcome(by_workers, by_threads, span, used))
    }

    /// Tells every thread to call.
    fn start_threads(&self) -> Result<Receiver<Called>, LabError> {
        let (called, results) = mpsc::channel();
        for (orders, _) in &self.threads {
            orders
                .send(called.clone())
                .map_err(|_| LabError::ThreadPanicked { thread: THREAD })?;
        }
        Ok(results)
    }

    fn end(self) -> Result<(), LabError> {
        let mut joined = Ok(());
        for (orders, thread) in self.threads {
            drop(orders);
            if thread.join().is_err() {
                joined = Err(LabError::ThreadPanicked { thread: THREAD });
            }
        }
        drop(self.runtime);
        joined
    }
}

fn start(work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, LabError> {
    thread::Builder::new()
        .name(THREAD.to_owned())
        .spawn(work)
        .map_err(|source| LabError::System {
            what: "starting a thread",
            source,
        })
}

/// A foreign thread: it calls whenever it is told to, at least once.
fn follow(inject: &Receiver<Order>, handle: &Handle, counts: &'static Counts) {
    while let Ok(order) = inject.recv() {
        let mut calls = 0;
        let called = loop {
            calls += 1;
            let results = handle.call_all_blocking(|core| counts.one_ran(core));
            match all_done(results) {
                Ok(()) if counts.goes_on() => {}
                ended => break ended.map(|()| calls),
            }
        };
        // The receiver is gone only if the waiting thread has panicked.
        let _ = order.send(called);
    }
}

/// Starts a calling task on every worker. Each calls at least once.
fn start_workers(handle: &Handle, counts: &'static Counts) -> Receiver<Called> {
    let (called, results) = mpsc::channel();
    for core in 0..handle.cores() {
        let called = called.clone();
        let task = handle.task().on(core).spawn(async move {
            let mut calls = 0;
            let ended = loop {
                calls += 1;
                let results = doorbell::call_all(move |core: CoreId| counts.one_ran(core)).await;
                match all_done(results) {
                    Ok(()) if counts.goes_on() => {}
                    ended => break ended.map(|()| calls),
                }
            };
            // The receiver is gone only if the waiting thread has panicked.
            let _ = called.send(ended);
        });
        // Its result comes through the channel.
        drop(task);
    }
    results
}

/// Checks that a call ran on every core.
fn all_done(results: Result<ManyResults<()>, CallError>) -> Result<(), Lost> {
    let all = results.is_ok_and(|each| each.iter().all(Result::is_ok));
    if all { Ok(()) } else { Err(Lost) }
}

/// The sum of the callers' calls.
fn gather(results: &Receiver<Called>, callers: usize) -> Result<u64, LabError> {
    let mut sum = 0;
    for _ in 0..callers {
        let called = results.recv().map_err(|_| LabError::TaskLost)?;
        sum += called.map_err(|Lost| LabError::CallLost {
            reason: "a call to all cores came back without the result of one",
        })?;
    }
    Ok(sum)
}

/// Checks that every core ran every call once.
pub(super) fn once_each(calls: u64, before: &[u64], after: &[u64]) -> Result<(), LabError> {
    let ran = before
        .iter()
        .zip(after)
        .map(|(before, after)| after - before);
    match ran.into_iter().find(|ran| *ran != calls) {
        None => Ok(()),
        Some(found) => Err(LabError::PostsMiscounted {
            expected: calls,
            found,
        }),
    }
}

/// The counts of all workers.
fn counts_of(handle: &Handle) -> Vec<WorkerCounts> {
    let workers = handle.metrics().workers;
    workers.iter().map(|worker| worker.counts).collect()
}

/// The counts of interest, summed over the workers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct WorkersUse {
    pub(super) workers: usize,
    pub(super) rings: u64,
    pub(super) rings_awake: u64,
    pub(super) parks: u64,
}

fn since(after: &[WorkerCounts], before: &[WorkerCounts]) -> WorkersUse {
    let each = after.iter().zip(before);
    each.fold(WorkersUse::default(), |sum, (after, before)| {
        let one = after.since(before);
        WorkersUse {
            workers: sum.workers + 1,
            rings: sum.rings + one.rings,
            rings_awake: sum.rings_awake + one.rings_awake,
            parks: sum.parks + one.parks,
        }
    })
}

/// The figures.
pub(super) fn outcome(
    by_workers: u64,
    by_threads: u64,
    span: Duration,
    used: WorkersUse,
) -> Outcome {
    let calls = by_workers + by_threads;
    let per_s = |count: u64| count as f64 / span.as_secs_f64();
    let per_1k = |count: u64| 1_000.0 * count as f64 / calls.max(1) as f64;
    Outcome {
        operations: calls,
        figures: BTreeMap::from([
            ("calls_per_s", per_s(calls)),
            ("worker_calls_per_s", per_s(by_workers)),
            ("thread_calls_per_s", per_s(by_threads)),
            ("rings_per_s", per_s(used.rings)),
            ("rings_per_1k", per_1k(used.rings)),
            ("rings_awake_per_1k", per_1k(used.rings_awake)),
            ("parks_per_1k", per_1k(used.parks)),
            ("by_workers_percent", per_1k(by_workers) / 10.0),
            ("workers_count", used.workers as f64),
        ]),
        ..Outcome::default()
    }
}
