//! A ticking task on an otherwise idle scheduler never wakes another worker. If its worker is stuck when
//! the next tick is due, another worker handles the tick in time.

use super::{one_scheduler, with_workers};
use crate::scenario::scheduler::{SchedulerConfig, Workers};
use crate::scenario::timer::Sleep;
use doorbell_core::scheduler::Turns;
use doorbell_core::task::Kind;
use doorbell_machine::Counter;
use doorbell_machine::sim::{self, SimCounter};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

const MS: u64 = 1_000_000;
const TICK_NS: u64 = 20 * MS;
/// They end within the first second, in which an urgent scheduler is armed.
const TICKS: u64 = 25;
/// How long a poll of the task takes.
const SHORT_NS: u64 = 20_000;
/// How long the worker is stuck when the tick after the last one is due.
const STUCK_NS: u64 = 50 * MS;
/// How late that tick may be.
const LATE_NS: u64 = MS;
/// How often another worker parks: when it starts, and once more.
const PARKS_MAX: u64 = 2;

/// When the worker gets the long poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stuck {
    /// While it sleeps until the next tick.
    AfterSleep,
    /// In the poll that arms the next tick, without a sleep in between.
    AfterPoll,
}

const STUCK: [Stuck; 2] = [Stuck::AfterSleep, Stuck::AfterPoll];

/// Launches a task with a long poll on worker 0.
fn get_stuck(workers: &Workers<0>) {
    drop(workers.launch(0, Kind::Pinned, async { sim::work(STUCK_NS) }));
}

/// Ticks, and once more while the worker is stuck. Returns the lateness of that tick.
async fn ticks(workers: Arc<Workers<0>>, stuck: Stuck, ticked: Arc<SimCounter>) -> u64 {
    for _ in 0..TICKS {
        Sleep::new(&workers, 0, TICK_NS).await;
        sim::work(SHORT_NS);
        ticked.add_shared(1);
    }
    for counts in &workers.counts()[1..] {
        if counts.parks > PARKS_MAX || counts.watchdogs > 0 || counts.polls > 0 {
            sim::fail(format!("{stuck:?}: another worker was woken: {counts:?}"));
        }
    }
    let due_ns = sim::time_ns() + TICK_NS;
    let mut last = pin!(Sleep::new(&workers, 0, TICK_NS));
    if stuck == Stuck::AfterPoll {
        poll_fn(|cx| Poll::Ready(last.as_mut().poll(cx).is_pending())).await;
        get_stuck(&workers);
    }
    last.await;
    sim::time_ns() - due_ns
}

fn program(workers: &Arc<Workers<0>>, stuck: Stuck) {
    let ticked = Arc::<SimCounter>::default();
    let task = workers.launch(
        0,
        Kind::Task,
        ticks(Arc::clone(workers), stuck, Arc::clone(&ticked)),
    );
    while ticked.get() < TICKS {
        sim::sleep(TICK_NS / 4);
    }
    if stuck == Stuck::AfterSleep {
        get_stuck(workers);
    }
    let late_ns = workers.wait_for(task, 0).expect("it ends");
    if late_ns > LATE_NS {
        sim::fail(format!("{stuck:?}: the last tick was {late_ns} ns late"));
    }
}

#[test]
fn a_tick_wakes_no_other_worker_and_is_looked_after_when_its_worker_is_stuck() {
    for (workers, turns) in [
        (2, Turns::ByArrival),
        (4, Turns::ByArrival),
        (4, Turns::ByRank),
    ] {
        for stuck in STUCK {
            let scheduler = SchedulerConfig {
                turns,
                ..one_scheduler(workers)
            };
            with_workers(scheduler, move |workers, close| {
                program(workers, stuck);
                close();
                let fired: u64 = workers.counts().iter().map(|it| it.timers_for_stuck).sum();
                if fired != 1 {
                    sim::fail(format!("{stuck:?}: not fired by another worker"));
                }
            });
        }
    }
}
