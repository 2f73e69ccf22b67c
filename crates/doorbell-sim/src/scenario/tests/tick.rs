//! A ticking task on an otherwise idle scheduler never wakes another worker, and neither does one with a timer that is far
//! away. If a task that has made long polls before is in one when the timer is due, another worker handles the timer in
//! time.

use super::{one_scheduler, with_workers, work_long_again};
use crate::scenario::scheduler::Workers;
use crate::scenario::timer::Sleep;
use doorbell_core::task::Kind;
use doorbell_machine::Counter;
use doorbell_machine::sim::{self, SimCounter};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

const MS: u64 = 1_000_000;
const TICK_NS: u64 = 20 * MS;
const TICKS: u64 = 25;
/// How long a poll of the task takes.
const SHORT_NS: u64 = 20_000;
/// How long the worker is stuck when the tick after the last one is due.
const STUCK_NS: u64 = 50 * MS;
/// How late that tick may be: promised in `worker/watch/README.md`.
const LATE_NS: u64 = 750_000;
/// How often another worker parks: when it starts.
const PARKS_MAX: u64 = 1;

/// When the worker gets the long poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stuck {
    /// While it sleeps until the next tick.
    AfterSleep,
    /// In the poll that arms the next tick, without a sleep in between.
    AfterPoll,
}

const STUCK: [Stuck; 2] = [Stuck::AfterSleep, Stuck::AfterPoll];

/// Launches a task with long polls on worker 0.
fn get_stuck(workers: &Workers<0>) {
    drop(workers.launch(0, Kind::Pinned, work_long_again(STUCK_NS)));
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
    for workers in [2, 4] {
        for stuck in STUCK {
            with_workers(one_scheduler(workers), move |workers, close| {
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

/// How far ahead the timer is. Its worker gets a short task now and then.
const FAR_NS: u64 = 40 * MS;
const TASKS: u64 = 200;
const TASK_EVERY_NS: u64 = 100_000;

/// The worker idles between the tasks, and while others look at it.
fn now_and_then(workers: &Arc<Workers<0>>) {
    let its = Arc::clone(workers);
    let task = workers.launch(0, Kind::Task, async move {
        let due_ns = sim::time_ns() + FAR_NS;
        Sleep::new(&its, 0, FAR_NS).await;
        sim::time_ns() - due_ns
    });
    for _ in 0..TASKS {
        sim::sleep(TASK_EVERY_NS);
        drop(workers.launch(0, Kind::Pinned, async { sim::work(SHORT_NS) }));
    }
    let counts = workers.counts();
    let others = &counts[1..];
    // One park of each at its start.
    let (parks, watchdogs): (u64, u64) = (
        others.iter().map(|it| it.parks).sum(),
        others.iter().map(|it| it.watchdogs).sum(),
    );
    if watchdogs > 0 || parks > others.len() as u64 {
        sim::fail(format!("{parks} parks of others, {watchdogs} watchdogs"));
    }
    get_stuck(workers);
    let late_ns = workers.wait_for(task, 0).expect("it ends");
    if late_ns > LATE_NS {
        sim::fail(format!("the timer was {late_ns} ns late"));
    }
}

#[test]
fn a_timer_that_is_far_away_wakes_nobody_until_a_poll_may_be_long() {
    for n in [2, 4, 16] {
        with_workers(one_scheduler(n), |workers, close| {
            now_and_then(workers);
            close();
            let fired: u64 = workers.counts().iter().map(|it| it.timers_for_stuck).sum();
            if fired != 1 {
                sim::fail("not fired by another worker");
            }
        });
    }
}

/// Worker 0 asks another one to look after it, and is stuck when its timer is due. The other gets a long task so long
/// after that; a third one sleeps.
fn asked_worker_gets_a_task(workers: &Arc<Workers<0>>, after_ns: u64) {
    let its = Arc::clone(workers);
    let task = workers.launch(0, Kind::Task, async move {
        let due_ns = sim::time_ns() + 5 * MS;
        Sleep::new(&its, 0, 5 * MS).await;
        sim::time_ns() - due_ns
    });
    sim::sleep(MS);
    get_stuck(workers);
    sim::sleep(after_ns);
    drop(workers.launch(1, Kind::Pinned, async { sim::work(STUCK_NS) }));
    let late_ns = workers.wait_for(task, 0).expect("it ends");
    if late_ns > LATE_NS {
        sim::fail(format!("{after_ns} ns: the timer was {late_ns} ns late"));
    }
}

#[test]
fn a_worker_that_looks_after_a_timer_and_gets_a_task_hands_that_on() {
    for after_ns in (0..80).map(|step| step * 250) {
        with_workers(one_scheduler(3), move |workers, close| {
            asked_worker_gets_a_task(workers, after_ns);
            close();
        });
    }
}
