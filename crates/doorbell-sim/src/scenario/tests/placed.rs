//! Movable timers that are armed by workers about to idle beside one that is awake, dropped and fired, while
//! `timer_pull` is turned.

use super::{one_scheduler, result_of};
use crate::fuzz::machine_for;
use crate::scenario::oracle;
use crate::scenario::program::{run_until, yield_now};
use crate::scenario::rest;
use crate::scenario::scheduler::Workers;
use crate::scenario::timer::Sleep;
use doorbell_core::switches::TimerPull;
use doorbell_core::task::Kind;
use doorbell_machine::sim::{self, Config};
use doorbell_machine::{Machine, Sim};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

const US: u64 = 1_000;
const MS: u64 = 1_000 * US;
const WORKERS: usize = 8;
/// By then workers that have nothing to do sleep.
const SETTLE_NS: u64 = MS;
/// Of the worker that is awake.
const POLL_NS: u64 = 2 * US;
/// How many timers each other worker arms, and how many it awaits: it drops the others.
const ROUNDS: u64 = 40;
const AWAITED: u64 = ROUNDS / 2;
const TIMERS: u64 = AWAITED * (WORKERS as u64 - 1);
/// When they are due.
const AHEAD_NS: u64 = 100 * US;
/// How late a timer is, at most: eight short polls, a wake, and one more where the switch is turned meanwhile.
const LATE_NS: u64 = 60 * US;
/// Between two turns of the switch.
const TURN_NS: u64 = 30 * US;

#[derive(Clone, Copy, Debug)]
struct Setting {
    pull: TimerPull,
    /// Whether the switch is turned while timers are armed, dropped and fire.
    turns: bool,
    seed: u64,
}

/// Arms timers, each in a poll behind which its worker idles, and drops every second one.
async fn arm(workers: Arc<Workers<0>>, worker: usize) {
    for round in 0..ROUNDS {
        let mut sleep = pin!(Sleep::new(&workers, worker, AHEAD_NS));
        if round % 2 == 0 {
            sleep.await;
            continue;
        }
        let armed = poll_fn(|cx| Poll::Ready(sleep.as_mut().poll(cx)));
        if armed.await.is_ready() {
            sim::fail("never early: a timer was due when it was armed");
        }
        // Its mail is on its way, or it hangs elsewhere by then.
        yield_now().await;
    }
}

/// The first thread of a run.
fn play(setting: Setting) -> (u64, u64) {
    Sim::<0>::bind_thread(&[WORKERS]).unwrap();
    let mut config = one_scheduler(WORKERS);
    config.switches.timer_pull = setting.pull;
    let (workers, threads) = Workers::<0>::start(config, Arc::default()).unwrap();
    sim::sleep(SETTLE_NS);
    let arming: Vec<_> = (1..WORKERS)
        .map(|worker| workers.launch(worker, Kind::Task, arm(Arc::clone(&workers), worker)))
        .collect();
    let end_ns = sim::time_ns() + 2 * ROUNDS * AHEAD_NS;
    let polls = workers.launch(0, Kind::Pinned, run_until(end_ns, POLL_NS));
    while setting.turns && sim::time_ns() < end_ns {
        sim::sleep(TURN_NS);
        workers.turn_timer_pull(1 + (sim::random() % 2) as usize);
    }
    for task in arming {
        drop(workers.wait_for(task, 0));
    }
    drop(workers.wait_for(polls, 0));
    sim::sleep(SETTLE_NS);
    rest::check_rest(&workers);
    workers.close(threads);
    oracle::check_quiescence(&workers);
    oracle::check_counts(&workers.counts(), config.switches);
    let ledger = &workers.ledger;
    let timers = (ledger.timers(), ledger.latest_ns());
    oracle::check_freed(workers);
    timers
}

/// A run in which each timer that is awaited fires once, none early, and none later than that.
fn run(setting: Setting) {
    let config = Config {
        seed: setting.seed,
        machine: machine_for(WORKERS + 1, None),
        ..Config::default()
    };
    let timers = result_of(config, move || play(setting));
    let (fired, latest_ns) = timers.unwrap_or_else(|why| panic!("{setting:?}: {why}"));
    assert_eq!(fired, TIMERS, "{setting:?}");
    assert!(latest_ns <= LATE_NS, "{setting:?}: {latest_ns} ns late");
}

#[test]
fn each_timer_fires_once_also_while_the_switch_is_turned_between_three_settings() {
    for pull in TimerPull::ALL {
        for (turns, seed) in [(false, 0), (true, 0), (true, 1), (true, 2)] {
            run(Setting { pull, turns, seed });
        }
    }
}
