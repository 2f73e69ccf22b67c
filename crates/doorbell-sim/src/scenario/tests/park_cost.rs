//! What it costs a worker to wake, run one task and fall asleep again, in small and large schedulers: the timer tree must
//! not make that grow with the number of workers.

use super::{one_scheduler, result_of};
use crate::fuzz::machine_for;
use crate::scenario::oracle;
use crate::scenario::program::run_until;
use crate::scenario::scheduler::Workers;
use doorbell_core::switches::TimerPull;
use doorbell_core::task::Kind;
use doorbell_machine::sim::{self, Config};
use doorbell_machine::{Machine, Sim};
use std::sync::Arc;

/// By then a task that was launched has run, and its worker sleeps.
const SETTLE_NS: u64 = 200_000;
/// How often the worker wakes and falls asleep.
const TURNS: u64 = 20;
/// Of the polls of a worker that is awake.
const POLL_NS: u64 = 2_000;
/// The worker that is measured.
const MEASURED: usize = 3;

#[derive(Clone, Copy, Debug)]
struct Setting {
    workers: usize,
    pull: TimerPull,
    /// A worker that is awake all the time, if any.
    awake: Option<usize>,
}

fn play(setting: Setting) -> u64 {
    Sim::<0>::bind_thread(&[setting.workers]).unwrap();
    let mut config = one_scheduler(setting.workers);
    config.switches.timer_pull = setting.pull;
    let (workers, threads) = Workers::<0>::start(config, Arc::default()).unwrap();
    let settle = || sim::sleep(SETTLE_NS);
    settle();
    let end_ns = sim::time_ns() + (2 * TURNS + 10) * SETTLE_NS;
    let polls = |worker| workers.launch(worker, Kind::Pinned, run_until(end_ns, POLL_NS));
    let awake = setting.awake.map(polls);
    let remote = workers.remote(MEASURED);
    let turns = || {
        for _ in 0..TURNS {
            drop(workers.launch(MEASURED, Kind::Pinned, async {}));
            settle();
        }
        remote.cpu_time_ns().expect("it runs")
    };
    let before_ns = turns();
    let parks = workers.counts()[MEASURED].parks;
    let ran_ns = turns() - before_ns;
    let parks = workers.counts()[MEASURED].parks - parks;
    if parks != TURNS {
        sim::fail(format!("{parks} parks"));
    }
    if let Some(awake) = awake {
        drop(workers.wait_for(awake, 0));
    }
    workers.close(threads);
    oracle::check_quiescence(&workers);
    oracle::check_freed(workers);
    ran_ns / TURNS
}

/// The CPU time of one turn.
fn turn_ns(setting: Setting) -> u64 {
    let config = Config {
        machine: machine_for(setting.workers + 1, None),
        events_max: 100_000_000,
        ..Config::default()
    };
    let turn_ns = result_of(config, move || play(setting));
    turn_ns.unwrap_or_else(|why| panic!("{setting:?}: {why}"))
}

#[test]
fn a_park_in_the_timer_tree_costs_about_as_much_among_many_workers_as_among_few() {
    for awake in [None, Some(0), Some(31)] {
        let cost = |workers, pull| {
            turn_ns(Setting {
                workers,
                pull,
                awake,
            })
        };
        let [few, many] = [32, 1_023].map(|workers| cost(workers, TimerPull::On));
        let [few_off, many_off] = [32, 1_023].map(|workers| cost(workers, TimerPull::Off));
        eprintln!("awake {awake:?}: on {few} and {many} ns, off {few_off} and {many_off} ns");
        assert!(2 * many <= 3 * few, "awake {awake:?}: {few} ns, {many} ns");
    }
}
