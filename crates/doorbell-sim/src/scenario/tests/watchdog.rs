//! The watchdog: it sleeps on an idle runtime, a timer that ticks wakes it ever more seldom and no other lane, and
//! what a long poll holds up is begun by another lane within a millisecond.

use super::{one_crew, with_lanes};
use crate::scenario::crew::{CrewConfig, Lanes};
use crate::scenario::timer::Sleep;
use doorbell_core::task::Kind;
use doorbell_core::watchdog::WatchdogCounts;
use doorbell_machine::Counter;
use doorbell_machine::sim::{self, SimCounter};
use std::sync::Arc;

const MS: u64 = 1_000_000;
const CORES: usize = 2;
/// How long a poll goes on that holds up others.
const LONG_NS: u64 = 5 * MS;
/// By when what it holds up has begun.
const BEGUN_NS: u64 = MS;
const TICK_NS: u64 = 20 * MS;
const TICKS: u64 = 2_500;

fn watched() -> CrewConfig {
    CrewConfig {
        watchdog: true,
        ..one_crew(CORES)
    }
}

fn counts(lanes: &Lanes<0>) -> WatchdogCounts {
    lanes.watchdog().expect("the crew has one")
}

/// Tasks that are pushed behind a poll; returns by how much the last one was late.
fn behind(lanes: &Arc<Lanes<0>>, tasks: usize) -> u64 {
    let begun: Vec<Arc<SimCounter>> = (0..tasks).map(|_| Arc::default()).collect();
    let pushed = Arc::new(SimCounter::default());
    let (mine, theirs, when) = (Arc::clone(lanes), begun.clone(), Arc::clone(&pushed));
    let long = lanes.launch(0, Kind::Pinned, async move {
        when.set(sim::time_ns());
        for begun in theirs {
            let begins = async move { begun.set(sim::time_ns()) };
            drop(mine.launch(0, Kind::Task, begins));
        }
        sim::work(LONG_NS);
    });
    drop(lanes.wait_for(long, 0));
    sim::sleep(MS);
    let last_ns = begun.iter().map(|it| it.get()).max().unwrap_or(0);
    last_ns - pushed.get()
}

/// A timer of one task is due while another task of its lane is inside a long poll, the first after it idled; returns by how much it
/// was late.
fn timer(lanes: &Arc<Lanes<0>>) -> u64 {
    let fired = Arc::new(SimCounter::default());
    let (mine, when) = (Arc::clone(lanes), Arc::clone(&fired));
    let due_ns = sim::time_ns() + 3 * MS;
    let sleeps = lanes.launch(0, Kind::Task, async move {
        let _ = Sleep::new(&mine, 0, due_ns - sim::time_ns()).await;
        when.set(sim::time_ns());
    });
    sim::sleep(MS);
    let long = lanes.launch(0, Kind::Pinned, async { sim::work(LONG_NS) });
    drop(lanes.wait_for(sleeps, 0));
    drop(lanes.wait_for(long, 0));
    fired.get().saturating_sub(due_ns)
}

fn check_late(what: &str, late_ns: u64) {
    if late_ns > BEGUN_NS {
        sim::fail(format!("{what} were late by {late_ns} ns"));
    }
}

#[test]
fn what_waits_behind_a_long_poll_is_begun_within_a_millisecond() {
    with_lanes(watched(), |lanes, close| {
        sim::sleep(MS);
        for tasks in [1, 2, 4] {
            check_late(&format!("{tasks} tasks"), behind(lanes, tasks));
            sim::sleep(10 * MS);
        }
        for _ in 0..4 {
            check_late("timers", timer(lanes));
            sim::sleep(10 * MS);
        }
        let before = counts(lanes);
        sim::sleep(10_000 * MS);
        let looks = counts(lanes).looks - before.looks;
        if before.stuck < 7 || looks > 0 {
            sim::fail(format!("{looks} looks at an idle runtime: {before:?}"));
        }
        close();
    });
}

#[test]
fn a_timer_that_ticks_wakes_no_other_lane_and_the_watchdog_seldom() {
    with_lanes(watched(), |lanes, close| {
        let mine = Arc::clone(lanes);
        let ticks = lanes.launch(0, Kind::Task, async move {
            for _ in 0..TICKS {
                let _ = Sleep::new(&mine, 0, TICK_NS).await;
            }
        });
        sim::sleep(MS);
        let others = || {
            lanes
                .counts()
                .iter()
                .map(|it| it.unparks_rung + it.unparks_deadline)
                .min()
        };
        let before = (others(), counts(lanes).parks);
        drop(lanes.wait_for(ticks, 0));
        let wakes = counts(lanes).parks - before.1;
        if others() != before.0 {
            sim::fail("another lane was woken".to_owned());
        }
        // A few at first, then two in ten seconds.
        if !(2..=50).contains(&wakes) {
            sim::fail(format!("the watchdog woke up {wakes} times"));
        }
        close();
    });
}
