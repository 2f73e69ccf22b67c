//! What the look of a worker at the timers of sleepers costs: it reads no clock where they have none.

use super::one_scheduler;
use super::pull::launch;
use crate::fuzz::machine_for;
use crate::scenario::oracle;
use crate::scenario::program::yield_now;
use crate::scenario::scheduler::Workers;
use crate::scenario::timer::Sleep;
use doorbell_core::switches::TimerPull;
use doorbell_core::task::Kind;
use doorbell_machine::sim::{self, Config, Event, EventKind};
use doorbell_machine::{Machine, Sim};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

const MS: u64 = 1_000_000;
const WORKERS: usize = 2;
/// Polls between which the worker that is awake looks.
const POLLS: u64 = 200;
/// The notes in front of the first one and behind the last one.
const BEGIN: u32 = 1;
const END: u32 = 2;

/// How often a worker that is awake reads the clock in its polls, beside a sleeper that has a timer or none.
fn clock_reads(pull: TimerPull, timer: bool) -> u64 {
    let (reads, polling) = (Rc::new(Cell::new(0)), Cell::new(None));
    let theirs = Rc::clone(&reads);
    let sink = Box::new(move |event: &Event| match (event.kind, event.line) {
        (EventKind::Note, BEGIN) => polling.set(Some(event.thread)),
        (EventKind::Note, END) => polling.set(None),
        (EventKind::Clock, _) if polling.get() == Some(event.thread) => {
            theirs.set(theirs.get() + 1);
        }
        _ => {}
    });
    let config = Config {
        machine: machine_for(WORKERS + 1, None),
        ..Config::default()
    };
    let outcome = sim::run_traced(config, Some(sink), move || play(pull, timer));
    assert_eq!(outcome.unwrap().failure, None);
    reads.get()
}

fn play(pull: TimerPull, timer: bool) {
    Sim::<0>::bind_thread(&[WORKERS]).unwrap();
    let mut config = one_scheduler(WORKERS);
    config.switches.timer_pull = pull;
    let (workers, threads) = Workers::<0>::start(config, Arc::default()).unwrap();
    sim::sleep(MS);
    if timer {
        let sleep = Sleep::new(&workers, 1, 100 * MS);
        launch(&workers, 1, Kind::Task, async move {
            sleep.await;
        });
        sim::sleep(MS);
    }
    launch(&workers, 0, Kind::Pinned, async {
        sim::note(BEGIN);
        for _ in 0..POLLS {
            yield_now().await;
        }
        sim::note(END);
    });
    sim::sleep(MS);
    oracle::until_quiet(&workers);
    workers.close(threads);
    oracle::check_freed(workers);
}

#[test]
fn a_look_for_timers_of_sleepers_reads_no_clock_where_none_has_one() {
    let [off, on, due] = [
        (TimerPull::Off, false),
        (TimerPull::On, false),
        (TimerPull::On, true),
    ]
    .map(|(pull, timer)| clock_reads(pull, timer));
    assert_eq!(on, off, "for what no sleeper has");
    // One in each pass, and one after at most 8 polls.
    assert!(due >= on + POLLS / 8, "{due} and {on}");
}
