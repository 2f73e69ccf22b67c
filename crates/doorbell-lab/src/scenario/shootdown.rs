//! `doorbell lab shootdown`: every core and many threads call all cores at once, and wait.
//!
//! A program whose threads all unmap memory does the same: each thread must make every core forget it.
//!
//! Source: "smp: do not send IPI if `call_single_queue` not empty", Linux, April 2017 (vm-scalability's
//! case-swap-w-seq-mt with 88 threads on a two-node Broadwell EP). In the seed the calls flush TLBs and
//! interrupt running CPUs. Here they count, and a ring to a running worker is a system call that wakes no
//! thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use crossbeam_utils::CachePadded;
use doorbell::metrics::{WorkerMetrics, raw::WorkerCounts};
use doorbell::{CallError, CoreId, Handle, call::ManyResults};

use crate::error::check_count;
use crate::frame::{Contestant, Outcome, Plan, Work};
use crate::measure::allowed_cpus;
use crate::peers::{Doorbell, Team, Workers};
use crate::tools::{Crew, End};

const THREADS: usize = 32;
const SPAN_MS: [u32; 2] = [2_000, 300];
const BASE: &str = "call_coalesce=base";
const ON: &str = "call_coalesce=on";

pub(super) const PLAN: Plan = Plan {
    scenario: "shootdown",
    work: |options| Work::of(options.full_or_quick(SPAN_MS), 50, SPAN_MS[1]),
    contestants: |_| Ok(contestants(THREADS)),
    compared: "calls_per_s",
    ..Plan::NEW
};

fn contestants(threads: usize) -> Vec<Contestant> {
    let one = |setting| {
        let start = move || Callers::start(setting, threads);
        let run = |callers: &mut Callers, span_ms: u32| {
            callers.all_call(Duration::from_millis(span_ms.into()))
        };
        let stop = |callers: Callers| callers.threads.end();
        let one = Contestant::new("doorbell", setting, start, run, stop);
        one.in_group("all cores at once")
    };
    vec![one(BASE).baseline(), one(ON)]
}

/// The calls that ran on each core.
type Counts = [CachePadded<AtomicU64>];

#[inline]
fn one_ran(counts: &Counts, core: CoreId) {
    let count = &counts[core.index()];
    // ORDER: Relaxed; only this worker writes, so it reads its own last value.
    let ran = count.load(Ordering::Relaxed);
    // ORDER: Relaxed; a reader has waited for the call.
    count.store(ran + 1, Ordering::Relaxed);
}

fn all_ran(counts: &Counts) -> Vec<u64> {
    // ORDER: Relaxed; the reader has received the results of all callers.
    let counts = counts.iter().map(|one| one.load(Ordering::Relaxed));
    counts.collect()
}

/// Until when a thread calls, and whom it tells how often it did.
type Order = (Arc<End>, Sender<Called>);

/// How many calls a caller made.
type Called = Result<u64>;

/// A runtime on all CPUs, and threads beside it. All of them call.
#[derive(Debug)]
struct Callers {
    peer: Doorbell,
    counts: &'static Counts,
    threads: Team<Order>,
}

impl Callers {
    fn start(setting: &str, threads: usize) -> Result<Self> {
        let cpus = allowed_cpus()?;
        let counts: Vec<_> = cpus.iter().map(|_| CachePadded::default()).collect();
        let counts: &'static Counts = counts.leak();
        let workers = Workers::Bound(cpus);
        let peer = Doorbell::switched(&workers, setting)?;
        let mut team = Team::new("shootdown-caller");
        for _ in 0..threads {
            let handle = peer.0.handle().clone();
            team.add(None, move || {
                move |(end, called): Order| {
                    // The receiver is gone only if the waiting thread has panicked.
                    let _ = called.send(call_all(&handle, counts, &end));
                }
            })?;
        }
        Ok(Self {
            peer,
            counts,
            threads: team,
        })
    }

    fn all_call(&self, span: Duration) -> Result<Outcome> {
        let (handle, counts) = (self.peer.0.handle(), self.counts);
        let (ran_before, before) = (all_ran(counts), counts_of(handle));
        let end = Arc::new(End::default());
        let begin = Instant::now();
        let (mut by_threads, mut by_workers) = (Crew::new(), Crew::new());
        for thread in 0..self.threads.len() {
            let order = (Arc::clone(&end), by_threads.teller());
            self.threads.order(thread, order)?;
        }
        for core in 0..handle.cores() {
            let end = Arc::clone(&end);
            let task = by_workers.member(async move {
                let mut calls = 0;
                loop {
                    calls += 1;
                    let results =
                        doorbell::call_all(move |core: CoreId| one_ran(counts, core)).await;
                    match all_done(results) {
                        Ok(()) if !end.is_asked() => {}
                        ended => break ended.map(|()| calls),
                    }
                }
            });
            drop(handle.task().on(core).spawn(task));
        }
        thread::sleep(span);
        end.ask();
        let (by_workers, by_threads) = (sum(by_workers)?, sum(by_threads)?);
        let span = begin.elapsed();
        once_each(by_workers + by_threads, &ran_before, &all_ran(counts))?;
        let after = counts_of(handle);
        let used = after.iter().zip(&before);
        let used: Vec<_> = used.map(|(after, before)| after.since(before)).collect();
        Ok(outcome(by_workers, by_threads, span, &used))
    }
}

/// A thread that calls.
fn call_all(handle: &Handle, counts: &'static Counts, end: &End) -> Called {
    let mut calls = 0;
    loop {
        calls += 1;
        let results = handle.call_all_blocking(|core| one_ran(counts, core));
        match all_done(results) {
            Ok(()) if !end.is_asked() => {}
            ended => return ended.map(|()| calls),
        }
    }
}

fn all_done(results: Result<ManyResults<()>, CallError>) -> Result<()> {
    let all = results.is_ok_and(|each| each.iter().all(Result::is_ok));
    ensure!(
        all,
        "a call to all cores came back without the result of one"
    );
    Ok(())
}

fn sum(callers: Crew<Called>) -> Called {
    callers.gather()?.into_iter().sum()
}

/// Each call ran on each core once.
fn once_each(calls: u64, before: &[u64], after: &[u64]) -> Result<()> {
    let mut each = before.iter().zip(after);
    each.try_for_each(|(then, now)| check_count("calls on each core", calls, now - then))
}

fn counts_of(handle: &Handle) -> Vec<WorkerCounts> {
    let workers = handle.metrics().workers;
    workers.iter().map(WorkerMetrics::raw).collect()
}

fn outcome(by_workers: u64, by_threads: u64, span: Duration, used: &[WorkerCounts]) -> Outcome {
    let calls = by_workers + by_threads;
    let per_s = |count: u64| count as f64 / span.as_secs_f64();
    let per_1k = |count: u64| 1_000.0 * count as f64 / calls.max(1) as f64;
    let all = |of: fn(&WorkerCounts) -> u64| used.iter().map(of).sum::<u64>();
    let rings = all(|one| one.rings);
    let figures = [
        ("calls_per_s", per_s(calls)),
        ("worker_calls_per_s", per_s(by_workers)),
        ("thread_calls_per_s", per_s(by_threads)),
        ("rings_per_s", per_s(rings)),
        ("rings_per_1k", per_1k(rings)),
        ("rings_awake_per_1k", per_1k(all(|one| one.rings_awake))),
        ("parks_per_1k", per_1k(all(|one| one.parks))),
        ("by_workers_percent", per_1k(by_workers) / 10.0),
        ("workers_count", used.len() as f64),
    ];
    Outcome::of(calls, figures)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::testing::{self, assert_plan, try_each};
    use crate::scenario::Options;

    const THREADS_TRIED: usize = 4;

    #[test]
    fn both_settings_answer_every_call() {
        let cores = allowed_cpus().expect("the mask can be read").len();
        try_each(contestants(THREADS_TRIED), |one, run| {
            for span_ms in [1, 20] {
                let outcome = testing::outcome(one, run, span_ms);
                assert!(
                    outcome.operations >= (cores + THREADS_TRIED) as u64,
                    "{one:?}"
                );
                let figures = outcome.figures;
                assert!(
                    (figures["workers_count"] - cores as f64).abs() < 1e-9,
                    "{one:?}"
                );
                assert!(figures["by_workers_percent"] > 0.0, "{one:?}");
                assert!(figures["rings_awake_per_1k"] <= figures["rings_per_1k"]);
                if one.variant == ON {
                    assert!(figures["rings_awake_per_1k"].abs() < 1e-9, "{one:?}");
                }
            }
        });
    }

    #[test]
    fn a_call_that_did_not_run_everywhere_once_is_an_error() {
        assert!(once_each(5, &[1, 2], &[6, 7]).is_ok());
        assert!(once_each(5, &[1, 2], &[6, 6]).is_err());
        assert!(once_each(5, &[0], &[6]).is_err());
    }

    #[test]
    fn figures_are_per_call_to_all() {
        let mut used = WorkerCounts::default();
        (used.rings, used.rings_awake, used.parks) = (500, 250, 100);
        let outcome = outcome(200, 800, Duration::from_millis(500), &[used]);
        assert_eq!(outcome.operations, 1_000);
        for (name, value) in [
            ("calls_per_s", 2_000.0),
            ("worker_calls_per_s", 400.0),
            ("rings_per_s", 1_000.0),
            ("rings_awake_per_1k", 250.0),
            ("by_workers_percent", 20.0),
        ] {
            let found = outcome.figures[name];
            assert!((found - value).abs() < 1e-9, "{name}: {found}");
        }
    }

    #[test]
    fn the_plan_fits() {
        let kept = [
            "calls/s",
            "x base",
            "rings/1k",
            "awake/1k",
            "RES+CAL/1k",
            "syscalls/1k",
        ];
        assert_plan(&PLAN, &Options::default(), &kept);
    }
}
