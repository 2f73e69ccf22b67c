//! `doorbell lab rank`: how long the most urgent task waits behind the poll of a less urgent one.
//!
//! Two workers of class Rt. A task of rank 50 wakes a task of rank 99 and then computes for 600 µs in the same poll.
//! Only the other worker can run the task of rank 99 sooner. That worker is idle, or it runs a task of rank 1 in
//! polls of 5 µs. No other runtime has ranks: tokio is shown with three equal tasks, and a `SCHED_FIFO` thread for
//! each task shows what the kernel does, which can preempt.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::error::check_count;
use crate::frame::{Contestant, Outcome, Plan, Stage, Work};
use crate::measure::{Samples, current_cpu};
use crate::peers::{Doorbell, Peer, Role, Threads, Tokio, Workers, refused};
use crate::tools::{Crew, Slot, compute, counted, spin, steps_for};
use anyhow::Result;

const TURNS: [u32; 2] = [1_000, 500];
/// The poll behind which the urgent task waits.
const POLL: Duration = Duration::from_micros(600);
/// Time between two turns.
const PAUSE: Duration = Duration::from_micros(500);
/// How long before the wake the task of rank 1 begins.
const LEAD: Duration = Duration::from_micros(300);
/// A poll of rank 1.
const SHORT: Duration = Duration::from_micros(5);
const IDLE: &str = "other idle";
const BUSY: &str = "other at rank 1";
const URGENT: Role = Role::of_rank(99);
const BLOCKER: Role = Role::on(0).ranked(50);
const FILLER: Role = Role::on(1).ranked(1);

pub(super) const PLAN: Plan = Plan {
    scenario: "rank",
    work: |options| Work::of(options.full_or_quick(TURNS), 20, 100),
    contestants,
    notes: |_| refused().into_iter().collect(),
    ..Plan::NEW
};

fn contestants(stage: &Stage) -> Result<Vec<Contestant>> {
    let has_ranks = stage.may_be_first()?;
    let mut all = Vec::new();
    for variant in [IDLE, BUSY] {
        if has_ranks {
            let threads = rank::<Threads>(stage, variant).named("SCHED_FIFO threads");
            all.push(threads.baseline());
        }
        all.push(rank::<Doorbell>(stage, variant));
        all.push(rank::<Tokio>(stage, variant));
    }
    Ok(all)
}

fn rank<P: Peer>(stage: &Stage, variant: &'static str) -> Contestant {
    let [first, second] = stage.cpus();
    // The first CPU has more work for the OS, so core 0 is on the second one.
    let workers = Workers::on([second, first]);
    let run = move |peer: &mut P, turns: u32| {
        counted(peer, |peer| {
            let (waits, moved) = take_turns(peer, turns, variant == BUSY)?;
            let moved = 100.0 * f64::from(moved) / f64::from(turns.max(1));
            Ok(Outcome::of(turns.into(), [("moved_percent", moved)]).late(waits))
        })
    };
    Contestant::of(variant, move || P::start(&workers), run)
}

/// A wake of the urgent task.
#[derive(Debug, Clone, Copy)]
struct Woken {
    at: Instant,
    cpu: u32,
}

/// What the three tasks share: one that blocks its worker, the urgent one behind it, and one that keeps the
/// other worker busy.
#[derive(Debug, Default)]
struct Scene {
    urgent: Slot<Woken>,
    answer: Slot<()>,
    filler: Slot<()>,
    fills: AtomicBool,
}

impl Scene {
    /// How long it waited each time, and how often it ran on another CPU.
    async fn be_urgent(&self) -> (Samples, u32) {
        let (mut waits, mut moved) = (Samples::default(), 0);
        while let Some(woken) = self.urgent.take().await {
            waits.record(woken.at.elapsed().as_nanos() as u64);
            moved += u32::from(current_cpu() != woken.cpu);
            self.answer.put(());
        }
        (waits, moved)
    }

    async fn block<P: Peer>(&self, turns: u32, fills: bool) {
        for _ in 0..turns {
            P::sleep_until(Instant::now() + PAUSE).await;
            if fills {
                // ORDER: Relaxed, here and below; a flag that publishes nothing and may be seen late.
                self.fills.store(true, Ordering::Relaxed);
                self.filler.put(());
                P::sleep_until(Instant::now() + LEAD).await;
            }
            // Nothing is awaited from here until the work is done, so all of it is one poll.
            self.urgent.put(Woken {
                at: Instant::now(),
                cpu: current_cpu(),
            });
            compute(steps_for(POLL));
            let _ = self.answer.take().await;
            self.fills.store(false, Ordering::Relaxed);
        }
        self.urgent.close();
        self.filler.close();
    }

    async fn fill<P: Peer>(&self) {
        while self.filler.take().await.is_some() {
            while self.fills.load(Ordering::Relaxed) {
                spin(SHORT);
                P::yield_now().await;
            }
        }
    }
}

fn take_turns<P: Peer>(peer: &mut P, turns: u32, fills: bool) -> Result<(Samples, u32)> {
    let (scene, mut crew) = (Arc::new(Scene::default()), Crew::new());
    let theirs = Arc::clone(&scene);
    peer.spawn_as(URGENT, crew.member(async move { theirs.be_urgent().await }))?;
    let theirs = Arc::clone(&scene);
    peer.spawn_as(FILLER, async move { theirs.fill::<P>().await })?;
    peer.spawn_as(BLOCKER, async move { scene.block::<P>(turns, fills).await })?;
    let (waits, moved) = crew.gather()?.remove(0);
    check_count("wakes", turns.into(), waits.len() as u64)?;
    Ok((waits, moved))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::testing::{assert_plan, contestants, outcome, try_each};
    use crate::scenario::Options;

    #[test]
    fn the_urgent_one_runs_once_in_each_turn() {
        try_each(contestants(&PLAN, &Options::default()), |one, run| {
            let outcome = outcome(one, run, 5);
            assert_eq!((outcome.operations, outcome.late.len()), (5, 5), "{one:?}");
            let moved = outcome.figures["moved_percent"];
            assert!((0.0..=100.0).contains(&moved), "{one:?}: {moved}");
            let counts_rings = outcome.figures.contains_key("rings_per_op");
            assert_eq!(counts_rings, one.name == "doorbell", "{one:?}");
        });
    }

    #[test]
    fn the_plan_fits() {
        let kept = [
            "p50 us",
            "p99 us",
            "max us",
            "x FIFO",
            "moved %",
            "rings/turn",
        ];
        assert_plan(&PLAN, &Options::default(), &kept);
    }
}
