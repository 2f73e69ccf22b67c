//! `doorbell lab wake`: how soon a woken worker runs, as schbench measures it for threads.
//!
//! Each of 8 messengers wakes its own workers every 4 ms: 4 of them at light load, 16 at moderate load. A
//! worker computes for 30 µs and waits again. Its lateness is the time from its wake until it runs. Workers
//! are tasks of a runtime, and messengers are tasks of the same runtime or OS threads. In other contestants
//! all are OS threads, or jobs of a pool of threads that never sleep.

mod board;
mod pool;

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use crate::error::check_count;
use crate::frame::{Contestant, Outcome, Plan, Stage, Work};
use crate::measure::{Process, Samples};
use crate::peers::{Doorbell, Peer, Smol, Threads, Tokio, Workers, join_all, thread_on};
use crate::tools::{Crew, counted, steps_for};
use anyhow::Result;
use board::{Board, PERIOD};

const TENTH: Duration = Duration::from_millis(100);
const TENTHS: [u32; 2] = [20, 5];
/// A worker's work.
const WORK: Duration = Duration::from_micros(30);
const SEED: u64 = 0x5C4B_E2C4;
const MESSENGERS: usize = 8;

/// How many workers each messenger has.
const LOADS: [(&str, usize); 2] = [("light", 4), ("moderate", 16)];

/// How many workers each messenger has, and whether messengers are OS threads.
#[derive(Debug, Clone, Copy)]
struct Variant {
    workers: usize,
    by_threads: bool,
}

/// The settings of doorbell's switch.
const IDLE_CLAIM: [&str; 4] = [
    "idle_claim=on",
    "idle_claim=off",
    "idle_claim=mark",
    "idle_claim=base",
];

pub(super) const PLAN: Plan = Plan {
    scenario: "wake",
    work: |options| Work::of(options.full_or_quick(TENTHS), 1, TENTHS[1]),
    contestants: |stage| Ok(contestants(stage)),
    ..Plan::NEW
};

fn contestants(stage: &Stage) -> Vec<Contestant> {
    let [pinned, free] = [Workers::on(stage.cpus()), Workers::Free(stage.cpus().len())];
    let mut all = Vec::new();
    for (load, workers) in LOADS {
        for by_threads in [false, true] {
            let variant = Variant {
                workers,
                by_threads,
            };
            let by = if by_threads { ", by threads" } else { "" };
            for (workers, place) in [(&pinned, "pinned"), (&free, "unpinned")] {
                let name = format!("{load}{by}, {place}");
                all.extend([
                    tasks::<Tokio>(workers, &name, variant).baseline(),
                    tasks::<Doorbell>(workers, &name, variant),
                    tasks::<Smol>(workers, &name, variant),
                ]);
                if !by_threads {
                    all.push(tasks::<Threads>(workers, &name, variant));
                    all.push(pool(workers, &name, variant));
                }
            }
        }
        let variant = Variant {
            workers,
            by_threads: true,
        };
        for claim in IDLE_CLAIM {
            let free = free.clone();
            let start = move || Doorbell::switched(&free, claim);
            let name = format!("{load}, {claim}");
            let one = Contestant::of(name, start, work_on(variant));
            all.push(one.in_group(format!("{load}, by threads, unpinned")));
        }
    }
    all
}

fn tasks<P: Peer>(workers: &Workers, name: &str, variant: Variant) -> Contestant {
    let workers = workers.clone();
    Contestant::of(name, move || P::start(&workers), work_on::<P>(variant))
}

/// Threads that never sleep.
fn pool(workers: &Workers, name: &str, variant: Variant) -> Contestant {
    let workers = workers.clone();
    let run = move |pass: &mut Cell<u64>, tenths| {
        measure(variant, tenths, pass, |board| pool::run(board, &workers))
    };
    Contestant::new("spinning pool", name, || Ok(Cell::new(0)), run, |_| Ok(()))
}

fn work_on<P: Peer>(variant: Variant) -> impl Fn(&mut P, u32) -> Result<Outcome> {
    let pass = Cell::new(0);
    move |peer, tenths| {
        counted(peer, |peer| {
            let work = |board: &Arc<Board>| work(peer, board, variant.by_threads);
            measure(variant, tenths, &pass, work)
        })
    }
}

/// A pass: the work on a new board, whose messengers begin at times that change from pass to pass.
fn measure(
    variant: Variant,
    tenths: u32,
    pass: &Cell<u64>,
    work: impl FnOnce(&Arc<Board>) -> Result<Vec<Samples>>,
) -> Result<Outcome> {
    let bursts = (TENTH * tenths).as_nanos() / PERIOD.as_nanos();
    let seed = SEED + pass.replace(pass.get() + 1);
    let (workers, steps) = (variant.workers, steps_for(WORK));
    let board = Arc::new(Board::new(workers, bursts as u32, steps, seed));
    let before = Process::own().cpu()?;
    let found = work(&board)?;
    let cpu = Process::own().cpu()?.saturating_sub(before);
    let [wakes, skipped] = board.counted()?;
    let late = Samples::of_all(&found);
    check_count("runs", wakes, late.len() as u64)?;
    let cpu_us = cpu.as_secs_f64() * 1e6 / wakes.max(1) as f64;
    let figures = [("skipped_count", skipped as f64), ("cpu_us_per_op", cpu_us)];
    Ok(Outcome::of(wakes, figures).late(late))
}

/// Workers as tasks, and messengers as tasks or as threads.
fn work<P: Peer>(peer: &mut P, board: &Arc<Board>, by_threads: bool) -> Result<Vec<Samples>> {
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
            threads.push(thread_on("messenger", None, messenger)?);
        } else {
            peer.spawn(async move { board.messenger(number, P::sleep_until).await })?;
        }
    }
    let found = crew.gather();
    join_all(threads).and(found)
}

#[cfg(test)]
mod tests {
    use doorbell::switches::{IdleClaim, Switches};

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
    fn each_setting_of_the_switch_has_a_row_beside_the_same_baseline() {
        let all = testing::contestants(&PLAN, &Options::default());
        let claims = IDLE_CLAIM
            .iter()
            .map(|claim| claim.parse::<Switches>().expect("it is one"));
        let claims: Vec<_> = claims.map(|switches| switches.idle_claim).collect();
        assert_eq!(claims, IdleClaim::ALL);
        let rows = all.iter().filter(|one| one.variant.contains("idle_claim="));
        let groups = rows.map(|one| one.group.as_str()).collect::<Vec<_>>();
        let of = |load| vec![load; IDLE_CLAIM.len()];
        let wanted = [
            of("light, by threads, unpinned"),
            of("moderate, by threads, unpinned"),
        ];
        assert!(all.is_empty() || groups == wanted.concat(), "{groups:?}");
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
