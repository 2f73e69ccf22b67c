//! On which worker a timer is armed with `timer_pull=base`, step by step.

use super::all_by_hand;
use super::hand_on::{end, falls_asleep};
use crate::scheduler::Scheduler;
use crate::scheduler::offline::TakenOff;
use crate::switches::TimerPull;
use crate::testing::{pulling, spawn};
use crate::wheel::Base;
use crate::worker::timer::{Polled, RawTimer, Reset};
use crate::worker::{IdlePolicy, Worker};
use doorbell_machine::{Counter, Host, Machine};
use std::task::{Context, Waker};

const HOUR_NS: u64 = 3_600_000_000_000;

/// The waker of all polls. A static: each unit of the compiler may have its own table behind `Waker::noop`, and wakers
/// of two tables are not the same.
static NOOP: &Waker = Waker::noop();

/// Four workers that run, with this setting. Two caches have two each: 0 and 1, 2 and 3.
fn running(timer_pull: TimerPull) -> [Worker<Host>; 4] {
    let distance = |one: usize, other: usize| match (one / 2 == other / 2, one == other) {
        (_, true) => 0,
        (true, false) => 1,
        (false, false) => 2,
    };
    let remotes = Scheduler::new(4, &pulling::<Host>(timer_pull), distance);
    let idle = remotes[0].scheduler().idle();
    (0..4).for_each(|worker| idle.start(worker));
    all_by_hand(remotes, IdlePolicy::Park)
}

fn arm(worker: &Worker<Host>) -> RawTimer {
    let due_ns = Host::now_ns() + HOUR_NS;
    let timer = RawTimer::arm(worker.shared.remote(), due_ns, NOOP);
    timer.expect("the worker runs")
}

fn takes_mail(worker: &Worker<Host>) {
    let _ = worker.local.enter(|| worker.take());
}

/// Worker 0 arms a timer: on which worker is it, once all have looked at their mail? The timer is dropped.
fn armed_on(workers: &[Worker<Host>; 4]) -> usize {
    let timer = workers[0].local.enter(|| arm(&workers[0]));
    workers[1..].iter().for_each(takes_mail);
    let has = |worker: &&Worker<Host>| worker.local.wheel().len() == 1;
    let at = workers.iter().position(|worker| has(&worker));
    workers[0].local.enter(|| drop(timer));
    workers[1..].iter().for_each(takes_mail);
    assert!(workers.iter().all(|it| it.local.wheel().len() == 0));
    at.expect("it is somewhere")
}

#[test]
fn a_worker_without_other_work_arms_its_timers_on_the_nearest_that_is_awake() {
    let workers = running(TimerPull::Base);
    assert_eq!(armed_on(&workers), 1, "its neighbour");
    falls_asleep(&workers[1]);
    assert_eq!(armed_on(&workers), 2, "in the other cache");
    let scheduler = workers[0].shared.remote().scheduler();
    assert_eq!(scheduler.take_off(2), TakenOff::Now);
    assert_eq!(armed_on(&workers), 3, "2 is off");
    falls_asleep(&workers[3]);
    assert_eq!(armed_on(&workers), 0, "nobody else is awake");
    workers[1].leave_idle_set();
    assert_eq!(armed_on(&workers), 1, "awake again");
    let rings: u64 = workers
        .iter()
        .map(|it| it.shared.remote().counts().rings.get())
        .sum();
    assert_eq!(rings, 0, "none of them was asleep when it got a timer");
    end(workers);
}

#[test]
fn a_worker_that_stays_busy_arms_its_timers_itself_and_so_does_a_pinned_task() {
    let workers = running(TimerPull::Base);
    let [worker, ..] = &workers;
    worker.local.set_base(Base::Local);
    assert_eq!(armed_on(&workers), 0, "of a pinned task");
    worker.local.set_base(Base::Global);
    worker
        .local
        .enter(|| drop(spawn(worker.shared.remote(), async {})));
    assert_eq!(armed_on(&workers), 0, "it has other work");
    assert!(worker.local.enter(|| worker.local.run_one()));
    assert_eq!(armed_on(&workers), 1);
    end(workers);
}

#[test]
fn with_the_other_settings_each_worker_arms_its_timers_itself() {
    for setting in [TimerPull::Off, TimerPull::On] {
        let workers = running(setting);
        assert_eq!(armed_on(&workers), 0, "{setting:?}");
        end(workers);
    }
}

/// It sleeps, but has not said so.
#[test]
fn a_worker_that_was_taken_for_awake_is_rung_once_for_all_timers() {
    let workers = running(TimerPull::Base);
    let [worker, asleep, ..] = &workers;
    let bell = asleep.shared.remote().bell();
    let _ = (bell.announce_spin(), bell.announce_park());
    let timers: Vec<_> = worker.local.enter(|| (0..3).map(|_| arm(worker)).collect());
    assert_eq!(asleep.shared.remote().counts().rings.get(), 1);
    let _ = bell.end_idle();
    takes_mail(asleep);
    assert_eq!(asleep.local.wheel().len(), 3);
    assert!(asleep.local.due_ns().is_some(), "it wakes for them");
    worker.local.enter(|| drop(timers));
    end(workers);
}

/// A poll with the same waker leaves it where it is; a reset has it armed anew.
#[test]
fn a_timer_that_is_elsewhere_is_polled_and_reset_from_here() {
    let workers = running(TimerPull::Base);
    let [worker, other, ..] = &workers;
    let mut timer = worker.local.enter(|| arm(worker));
    let look = |timer: &mut RawTimer| {
        worker.local.enter(|| {
            let polled = timer.poll(&mut Context::from_waker(NOOP));
            (polled, timer.reset(Host::now_ns() + HOUR_NS))
        })
    };
    let expected = (Polled::Pending, Reset::Elsewhere);
    assert_eq!(look(&mut timer), expected, "on its way");
    takes_mail(other);
    assert_eq!(look(&mut timer), expected, "armed there");
    worker.local.enter(|| drop(timer));
    end(workers);
}

#[test]
fn a_worker_that_has_ended_refuses_no_timer_of_another() {
    let workers = running(TimerPull::Base);
    let [worker, ended, ..] = &workers;
    ended.local.enter(|| ended.local.close());
    let timer = worker.local.enter(|| arm(worker));
    assert_eq!(worker.local.wheel().len(), 1, "it is armed here");
    worker.local.enter(|| drop(timer));
    let [worker, _, third, fourth] = workers;
    end([worker, third, fourth]);
}

/// The first worker that ended has closed the common mailbox, and a visitor has the wheel of one that still runs.
#[test]
fn t18_a_worker_that_runs_arms_timers_although_another_ended_and_a_visitor_has_its_wheel() {
    for setting in [TimerPull::Off, TimerPull::On, TimerPull::Base] {
        let workers = running(setting);
        let [worker, ended, ..] = &workers;
        ended.local.enter(|| ended.local.close());
        worker.local.enter_gated(|| {
            let remote = worker.shared.remote();
            let mut timers = Vec::new();
            let visited = remote.gate().visit_by_hand(remote.parker(), || {
                timers.push(arm(worker));
                timers.push(arm(worker));
                let _ = worker.take();
                assert_eq!(worker.local.wheel().len(), 0, "the visitor has it");
            });
            assert!(visited.is_some());
            let _ = worker.take();
            assert_eq!(worker.local.wheel().len(), 2, "{setting:?}");
            for timer in &mut timers {
                let polled = timer.poll(&mut Context::from_waker(NOOP));
                assert_eq!(polled, Polled::Pending, "{setting:?}");
            }
        });
        let [worker, _, third, fourth] = workers;
        end([worker, third, fourth]);
    }
}
