//! `doorbell lab wake`: how soon a woken worker runs, as schbench measures it for threads.
//!
//! Each of 8 messengers wakes its own workers every 4 ms: 4 of them at light load, 16 at moderate load. A
//! worker computes for 30 µs and waits again. Its lateness is the time from its wake until it runs. Workers
//! are tasks of a runtime, and messengers are tasks of the same runtime or OS threads. In other contestants
//! all are OS threads, or jobs of a pool of threads that never sleep.

mod board;
mod pool;

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use doorbell::IdleClaim;

use crate::error::LabError;
use crate::frame::{Contestant, Outcome, Plan, Stage, Work};
use crate::measure::{Samples, Usage};
use crate::peers::{Doorbell, Peer, Smol, Threads, Tokio, WakeCounts, Workers, join, thread_on};
use crate::tools::{Crew, steps_for};
use board::{Board, PERIOD};

const TENTH: Duration = Duration::from_millis(100);
const TENTHS: [u32; 2] = [20, 5];
/// A worker's work.
const WORK: Duration = Duration::from_micros(30);
const SEED: u64 = 0x5C4B_E2C4;
const MESSENGER: &str = "messenger";
const MESSENGERS: usize = 8;

/// A variant: how many workers each messenger has, and whether messengers are OS threads.
#[derive(Debug, Clone, Copy)]
struct Variant {
    name: &'static str,
    workers: usize,
    by_threads: bool,
    is_pinned: bool,
}

const VARIANTS: [Variant; 8] = [
    variant("light, pinned", 4, false, true),
    variant("light, unpinned", 4, false, false),
    variant("light, by threads, pinned", 4, true, true),
    variant("light, by threads, unpinned", 4, true, false),
    variant("moderate, pinned", 16, false, true),
    variant("moderate, unpinned", 16, false, false),
    variant("moderate, by threads, pinned", 16, true, true),
    variant("moderate, by threads, unpinned", 16, true, false),
];

const fn variant(name: &'static str, workers: usize, by_threads: bool, is_pinned: bool) -> Variant {
    Variant {
        name,
        workers,
        by_threads,
        is_pinned,
    }
}

pub(super) const PLAN: Plan = Plan {
    scenario: "wake",
    work: |options| Work::of(options.full_or_quick(TENTHS), 1, TENTHS[1]),
    contestants: |stage| Ok(contestants(stage)),
    ..Plan::NEW
};

static STEPS: LazyLock<u64> = LazyLock::new(|| steps_for(WORK));

/// The settings of the switch that have a row of their own in a variant.
fn settings(variant: Variant) -> impl Iterator<Item = (IdleClaim, String)> {
    let load = variant.name.strip_suffix(", by threads, unpinned");
    let named = move |setting| {
        let name = match setting {
            IdleClaim::On => "on",
            IdleClaim::Off => "off",
            IdleClaim::Mark => "mark",
            IdleClaim::Base => "base",
        };
        load.map(|load| (setting, format!("{load}, idle_claim={name}")))
    };
    IdleClaim::ALL.into_iter().filter_map(named)
}

fn contestants(stage: &Stage) -> Vec<Contestant> {
    // Measured before the CPUs are busy.
    LazyLock::force(&STEPS);
    let mut all = Vec::new();
    for variant in VARIANTS {
        let cpus = stage.cpus();
        let workers = if variant.is_pinned {
            Workers::on(cpus)
        } else {
            Workers::Free(cpus.len())
        };
        all.extend([
            tasks::<Tokio>(&workers, variant).baseline(),
            tasks::<Doorbell>(&workers, variant),
            tasks::<Smol>(&workers, variant),
        ]);
        if !variant.by_threads {
            all.extend([tasks::<Threads>(&workers, variant), pool(&workers, variant)]);
        }
        for (claim, name) in settings(variant) {
            let workers = workers.clone();
            let start =
                move || Doorbell::switched(&workers, |switches| switches.idle_claim = claim);
            all.push(Contestant::of(name, start, work_on(variant)).in_group(variant.name));
        }
    }
    all
}

fn tasks<P: Peer>(workers: &Workers, variant: Variant) -> Contestant {
    let workers = workers.clone();
    Contestant::of(
        variant.name,
        move || P::start(&workers),
        work_on::<P>(variant),
    )
}

/// Threads that never sleep.
fn pool(workers: &Workers, variant: Variant) -> Contestant {
    let workers = workers.clone();
    let run = move |pass: &mut u64, tenths| {
        measure(variant, tenths, pass, |board| pool::run(board, &workers))
    };
    Contestant::new("spinning pool", variant.name, || Ok(0), run, |_| Ok(()))
}

fn work_on<P: Peer>(variant: Variant) -> impl Fn(&mut P, u32) -> Result<Outcome, LabError> {
    let pass = std::cell::Cell::new(0);
    move |peer, tenths| {
        let before = peer.counts();
        let mut seed = pass.get();
        let outcome = measure(variant, tenths, &mut seed, |board| {
            work(peer, board, variant.by_threads)
        })?;
        pass.set(seed);
        let counted = WakeCounts::figures_between(before, peer.counts(), outcome.operations);
        Ok(outcome.and(counted))
    }
}

/// A pass: the work on a new board, whose messengers begin at times that change from pass to pass.
fn measure(
    variant: Variant,
    tenths: u32,
    pass: &mut u64,
    work: impl FnOnce(&Arc<Board>) -> Result<Vec<Samples>, LabError>,
) -> Result<Outcome, LabError> {
    let bursts = (TENTH * tenths).as_nanos() / PERIOD.as_nanos();
    let seed = SEED + *pass;
    *pass += 1;
    let board = Arc::new(Board::new(variant.workers, bursts as u32, *STEPS, seed));
    let before = Usage::now()?;
    let found = work(&board)?;
    let cpu = Usage::now()?.since(before).cpu;
    let [wakes, skipped] = board.counted()?;
    let late = Samples::of_all(&found);
    LabError::check_count("runs", wakes, late.len() as u64)?;
    let cpu_us = cpu.as_secs_f64() * 1e6 / wakes.max(1) as f64;
    let figures = [("skipped_count", skipped as f64), ("cpu_us_per_op", cpu_us)];
    Ok(Outcome::of(wakes, figures).late(late))
}

/// Workers as tasks, and messengers as tasks or as threads.
fn work<P: Peer>(
    peer: &mut P,
    board: &Arc<Board>,
    by_threads: bool,
) -> Result<Vec<Samples>, LabError> {
    let mut crew = Crew::new();
    for place in 0..board.all_workers() {
        let board = Arc::clone(board);
        let worker = async move { board.worker(place).await };
        peer.spawn(crew.member(worker))?;
    }
    let mut threads = Vec::new();
    for number in 0..MESSENGERS {
        let board = Arc::clone(board);
        if by_threads {
            let messenger = move || {
                futures::executor::block_on(board.messenger(number, Threads::sleep_until));
            };
            threads.push(thread_on(MESSENGER, None, messenger)?);
        } else {
            peer.spawn(async move { board.messenger(number, P::sleep_until).await })?;
        }
    }
    let found = crew.gather();
    let joined = threads
        .into_iter()
        .try_for_each(|thread| join(thread, MESSENGER));
    joined.and(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::testing::{self, assert_plan, outcome, try_each};
    use crate::scenario::Options;

    #[test]
    fn every_wake_is_counted_and_done() {
        try_each(
            testing::contestants(&PLAN, &Options::default()),
            |one, run| {
                let outcome = outcome(one, run, 1);
                let workers = if one.variant.starts_with("light") {
                    32
                } else {
                    128
                };
                // On a busy machine a worker may still be busy with the last wake.
                let skipped = outcome.figures["skipped_count"] as u64;
                assert_eq!(outcome.operations + skipped, 25 * workers, "{one:?}");
                assert!(outcome.operations >= workers, "{one:?}");
                let counts_stacked = outcome.figures.contains_key("stacked_per_1k");
                assert_eq!(counts_stacked, one.name == "doorbell", "{one:?}");
            },
        );
    }

    #[test]
    fn each_setting_of_the_switch_has_a_row() {
        let of = |variant: Variant| settings(variant).map(|(_, name)| name).collect::<Vec<_>>();
        let [.., light, _, _, _, moderate] = VARIANTS.map(of);
        let names = ["on", "off", "mark", "base"];
        assert_eq!(light, names.map(|name| format!("light, idle_claim={name}")));
        assert_eq!(
            moderate,
            names.map(|name| format!("moderate, idle_claim={name}"))
        );
    }

    #[test]
    fn the_plan_fits() {
        let kept = [
            "p50 us",
            "p99 us",
            "p99.5 us",
            "max us",
            "x tokio",
            "skipped",
            "stacked/1k",
        ];
        assert_plan(&PLAN, &Options::default(), &kept);
    }
}
