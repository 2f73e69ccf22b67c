//! `doorbell lab shootdown`: every core and many threads call all cores at once, and wait.
//!
//! A program whose threads all unmap memory does the same: each thread must make every core forget it.
//!
//! Source: "smp: do not send IPI if `call_single_queue` not empty", Linux, April 2017 (vm-scalability's
//! case-swap-w-seq-mt with 88 threads on a two-node Broadwell EP). In the seed the calls flush TLBs and
//! interrupt running CPUs. Here they count, and a ring to a running worker is a system call that wakes no
//! thread.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;
use doorbell::{
    CallError, CoreId, Handle, call::ManyResults, metrics::raw::WorkerCounts,
    switches::CallCoalesce,
};

use crate::error::LabError;
use crate::frame::{Conclusion, Contestant, Outcome, Plan, Rated, Results, Work};
use crate::measure::{allowed_cpus, median, variation_percent};
use crate::peers::{Doorbell, Team, Workers};
use crate::report::{SideTable, known};
use crate::tools::Crew;

const THREADS: usize = 32;
const SPAN_MS: [u32; 2] = [2_000, 300];
const BASE: &str = "call_coalesce=base";
const ON: &str = "call_coalesce=on";
/// The goal for the change of wake syscalls.
const RINGS_GOAL_PERCENT: f64 = -80.0;

pub(super) const PLAN: Plan = Plan {
    scenario: "shootdown",
    work: |options| Work::of(options.full_or_quick(SPAN_MS), 50, SPAN_MS[1]),
    contestants: |_| Ok(contestants(THREADS)),
    compared: "calls_per_s",
    conclude,
    ..Plan::NEW
};

fn contestants(threads: usize) -> Vec<Contestant> {
    let one = |variant, setting| {
        let start = move || Callers::start(setting, threads);
        let run = |callers: &mut Callers, span_ms: u32| {
            callers.all_call(Duration::from_millis(span_ms.into()))
        };
        Contestant::new("doorbell", variant, start, run, |callers| {
            callers.threads.end()
        })
        .in_group("all cores at once")
    };
    vec![
        one(BASE, CallCoalesce::Base).baseline(),
        one(ON, CallCoalesce::On),
    ]
}

/// The calls that ran on each core, and the signal to go on calling.
#[derive(Debug)]
struct Counts {
    ran: Box<[CachePadded<AtomicU64>]>,
    goes_on: AtomicBool,
}

impl Counts {
    #[inline]
    fn one_ran(&self, core: CoreId) {
        let count = &self.ran[core.index()];
        // ORDER: Relaxed; only this worker writes, so it reads its own last value.
        let ran = count.load(Ordering::Relaxed);
        // ORDER: Relaxed; a reader has waited for the call.
        count.store(ran + 1, Ordering::Relaxed);
    }

    fn ran(&self) -> Vec<u64> {
        // ORDER: Relaxed; the reader has received the results of all callers.
        let counts = self.ran.iter().map(|one| one.load(Ordering::Relaxed));
        counts.collect()
    }

    #[inline]
    fn goes_on(&self) -> bool {
        // ORDER: Relaxed; one call more or less does not matter.
        self.goes_on.load(Ordering::Relaxed)
    }

    fn go_on(&self, goes_on: bool) {
        // ORDER: Relaxed; callers are started, and report, through channels and tasks.
        self.goes_on.store(goes_on, Ordering::Relaxed);
    }
}

/// How many calls a caller made.
type Called = Result<u64, LabError>;

/// A runtime on all CPUs, and threads beside it. All of them call.
#[derive(Debug)]
struct Callers {
    peer: Doorbell,
    counts: &'static Counts,
    threads: Team<Sender<Called>>,
}

impl Callers {
    fn start(setting: CallCoalesce, threads: usize) -> Result<Self, LabError> {
        let cpus = allowed_cpus()?;
        let counts: &'static Counts = Box::leak(Box::new(Counts {
            ran: cpus.iter().map(|_| CachePadded::default()).collect(),
            goes_on: AtomicBool::new(false),
        }));
        let workers = Workers::Bound(cpus);
        let peer = Doorbell::switched(&workers, |switches| switches.call_coalesce = setting)?;
        let mut team = Team::new("shootdown-caller");
        for _ in 0..threads {
            let handle = peer.0.handle().clone();
            team.add(None, move || {
                move |order: Sender<Called>| {
                    // The receiver is gone only if the waiting thread has panicked.
                    let _ = order.send(call_all(&handle, counts));
                }
            })?;
        }
        Ok(Self {
            peer,
            counts,
            threads: team,
        })
    }

    fn all_call(&self, span: Duration) -> Result<Outcome, LabError> {
        let (handle, counts) = (self.peer.0.handle(), self.counts);
        let (ran_before, before) = (counts.ran(), counts_of(handle));
        counts.go_on(true);
        let begin = Instant::now();
        let (mut by_threads, mut by_workers) = (Crew::new(), Crew::new());
        for thread in 0..self.threads.len() {
            self.threads.order(thread, by_threads.teller())?;
        }
        for core in 0..handle.cores() {
            let task = by_workers.member(async move {
                let mut calls = 0;
                loop {
                    calls += 1;
                    let results =
                        doorbell::call_all(move |core: CoreId| counts.one_ran(core)).await;
                    match all_done(results) {
                        Ok(()) if counts.goes_on() => {}
                        ended => break ended.map(|()| calls),
                    }
                }
            });
            drop(handle.task().on(core).spawn(task));
        }
        thread::sleep(span);
        counts.go_on(false);
        let (by_workers, by_threads) = (sum(by_workers)?, sum(by_threads)?);
        let span = begin.elapsed();
        once_each(by_workers + by_threads, &ran_before, &counts.ran())?;
        let after = counts_of(handle);
        let used = after
            .iter()
            .zip(&before)
            .map(|(after, before)| after.since(before));
        Ok(outcome(
            by_workers,
            by_threads,
            span,
            &used.collect::<Vec<_>>(),
        ))
    }
}

/// A thread that calls.
fn call_all(handle: &Handle, counts: &'static Counts) -> Called {
    let mut calls = 0;
    loop {
        calls += 1;
        let results = handle.call_all_blocking(|core| counts.one_ran(core));
        match all_done(results) {
            Ok(()) if counts.goes_on() => {}
            ended => return ended.map(|()| calls),
        }
    }
}

fn all_done(results: Result<ManyResults<()>, CallError>) -> Result<(), LabError> {
    let all = results.is_ok_and(|each| each.iter().all(Result::is_ok));
    all.then_some(()).ok_or(LabError::CallLost {
        reason: "a call to all cores came back without the result of one",
    })
}

fn sum(callers: Crew<Called>) -> Called {
    callers.gather()?.into_iter().sum()
}

/// Each call ran on each core once.
fn once_each(calls: u64, before: &[u64], after: &[u64]) -> Result<(), LabError> {
    let mut ran = before
        .iter()
        .zip(after)
        .map(|(before, after)| after - before);
    ran.try_for_each(|ran| LabError::check_count("calls on each core", calls, ran))
}

fn counts_of(handle: &Handle) -> Vec<WorkerCounts> {
    let workers = handle.metrics().workers;
    workers
        .iter()
        .map(doorbell::metrics::WorkerMetrics::raw)
        .collect()
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

/// What the seed measured in its baseline, and with its change.
type Seed = (&'static str, f64, f64);
const INTERRUPTS: Seed = ("interrupts.CAL", 819_388_170.0, 92_214_434.666_666_67);
const THROUGHPUT: Seed = (
    "vm-scalability.throughput",
    5_051_472.0,
    5_991_764.333_333_333,
);

/// The rows of the seed's table: titles, metrics, the seed's figures and the goals.
const LINES: [(&str, &str, Option<Seed>, &str); 7] = [
    (
        "RES+CAL per 1,000 calls",
        "interrupts_per_1k",
        Some(INTERRUPTS),
        "",
    ),
    (
        "calls to all cores a second",
        "calls_per_s",
        Some(THROUGHPUT),
        "> 0",
    ),
    ("of them by threads", "thread_calls_per_s", None, ""),
    ("of them by workers", "worker_calls_per_s", None, ""),
    (
        "wake syscalls per 1,000 calls",
        "rings_per_1k",
        None,
        "<= -80",
    ),
    ("wake syscalls a second", "rings_per_s", None, ""),
    ("all syscalls per 1,000 calls", "syscalls_per_1k", None, ""),
];

fn percent_of(ratio: f64) -> f64 {
    100.0 * (ratio - 1.0)
}

/// The median of the rounds' changes, per cent.
fn change(metric: &str, base: &Rated<'_>, on: &Rated<'_>) -> Option<f64> {
    let rounds = base.rounds.iter().zip(on.rounds);
    let ratios = rounds.filter_map(|(base, on)| Some(on.get(metric)? / base.get(metric)?));
    let ratios: Vec<f64> = ratios.filter(|ratio| ratio.is_finite()).collect();
    median(&ratios).map(percent_of)
}

fn in_words(percent: Option<f64>) -> String {
    match percent {
        None => "an unknown number of".to_owned(),
        Some(percent) if percent < 0.0 => format!("{} % fewer", known(Some(-percent))),
        Some(percent) => format!("{} % more", known(Some(percent))),
    }
}

fn conclude(results: &Results<'_>) -> Conclusion {
    let [base, on] = [BASE, ON].map(|how| results.of("doorbell", how));
    let Some((base, on)) = base.zip(on) else {
        let gist = "Only the baseline was measured, so there is nothing to compare.";
        return Conclusion {
            gist: gist.to_owned(),
            ..Conclusion::default()
        };
    };
    let change = |metric| change(metric, base, on);
    let rings = change("rings_per_1k");
    let reached = match rings {
        Some(percent) if percent <= RINGS_GOAL_PERCENT => "reached",
        Some(_) => "not reached",
        None => "not known",
    };
    let of_seed = |(_, base, patched): Seed| in_words(Some(percent_of(patched / base)));
    let gist = format!(
        "All call all: while {THREADS} threads and {:.0} workers call every core, ringing only workers \
         that sleep and were not notified yet makes {} wake syscalls (the goal, {:.0} % fewer, is \
         {reached}), {} interrupts between CPUs (the seed {}), and {} calls answered a second (the \
         seed {}): {} of the threads' and {} of the workers'.",
        on.metric("workers_count").unwrap_or_default(),
        in_words(rings),
        -RINGS_GOAL_PERCENT,
        in_words(change("interrupts_per_1k")),
        of_seed(INTERRUPTS),
        in_words(change("calls_per_s")),
        of_seed(THROUGHPUT),
        in_words(change("thread_calls_per_s")),
        in_words(change("worker_calls_per_s")),
    );
    Conclusion {
        gist,
        tables: vec![seed_table(base, on)],
        ..Conclusion::default()
    }
}

/// The seed's own table, reproduced.
fn seed_table(base: &Rated<'_>, on: &Rated<'_>) -> SideTable {
    let normalised = |percent: Option<f64>| {
        let text = percent.map(|percent| format!("{:.2} [{percent:+.1}]", 1.0 + percent / 100.0));
        text.unwrap_or_else(|| known(None))
    };
    let rows = LINES.into_iter().flat_map(|(title, metric, seed, goal)| {
        let cells = |one: &Rated<'_>, percent, value: Option<f64>, of_seed, goal: &str| {
            let values = one.over_rounds(metric);
            let several = values.len() > 1;
            let variation = several.then(|| variation_percent(&values)).flatten();
            let seeds =
                seed.zip(value)
                    .map_or([String::new(), String::new()], |((what, ..), value)| {
                        [
                            format!("{what} {}", known(Some(value))),
                            normalised(of_seed),
                        ]
                    });
            let [figure, change] = seeds;
            vec![
                title.to_owned(),
                one.how().to_owned(),
                known(median(&values)),
                normalised(percent),
                known(variation.filter(|percent| percent.is_finite())),
                figure,
                change,
                goal.to_owned(),
            ]
        };
        let patched = seed.map(|(_, base, patched)| percent_of(patched / base));
        [
            cells(base, Some(0.0), seed.map(|seed| seed.1), Some(0.0), ""),
            cells(
                on,
                change(metric, base, on),
                seed.map(|seed| seed.2),
                patched,
                goal,
            ),
        ]
    });
    SideTable {
        caption: "Seed \"do not send IPI if call_single_queue not empty\": normalised to its baseline [per cent \
                  changed]; fewer interrupts and wakes are better, and more calls",
        titles: vec![
            "figure",
            "doorbell",
            "measured",
            "normalised [%]",
            "CV %",
            "seed's figure",
            "seed [%]",
            "goal %",
        ],
        rows: rows.collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::frame::testing::{self, assert_plan, try_each};
    use crate::report::{Metrics, Row};
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
    fn the_settings_are_compared_in_each_round() {
        let row = |variant: &str| Row {
            contestant: "doorbell".to_owned(),
            variant: variant.to_owned(),
            metrics: Metrics::default(),
        };
        let rounds = |calls: [f64; 3], rings: [f64; 3]| {
            let both = calls.into_iter().zip(rings);
            let both = both.map(|(calls, rings)| {
                BTreeMap::from([("calls_per_s", calls), ("rings_per_1k", rings)])
            });
            both.collect::<Vec<_>>()
        };
        let rows = [row(BASE), row(ON)];
        let tapes = [
            rounds([100.0, 200.0, 400.0], [1_000.0, 500.0, 100.0]),
            rounds([120.0, 300.0, 440.0], [100.0, 5.0, 20.0]),
        ];
        let rated = rows
            .iter()
            .zip(&tapes)
            .map(|(row, rounds)| Rated { row, rounds });
        let mut results = Results {
            rated: rated.collect(),
            options: &Options::default(),
        };
        let conclusion = conclude(&results);
        for part in [
            "makes 90.0 % fewer wake syscalls (the goal, 80 % fewer, is reached)",
            "an unknown number of interrupts between CPUs (the seed 88.7 % fewer)",
            "20.0 % more calls answered a second (the seed 18.6 % more)",
        ] {
            assert!(conclusion.gist.contains(part), "{}", conclusion.gist);
        }
        let table = &conclusion.tables[0];
        assert!(table.rows.iter().all(|row| row.len() == table.titles.len()));
        let normalised: Vec<&str> = table.rows.iter().map(|row| row[3].as_str()).collect();
        assert_eq!(
            normalised[..4],
            ["1.00 [+0.0]", "n/a", "1.00 [+0.0]", "1.20 [+20.0]"]
        );
        assert_eq!(
            (normalised[9], &*table.rows[1][6]),
            ("0.10 [-90.0]", "0.11 [-88.7]")
        );
        results.rated.pop();
        let alone = conclude(&results);
        assert!(alone.gist.contains("nothing to compare") && alone.tables.is_empty());
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
