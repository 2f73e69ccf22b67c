//! Who looks after the timers that sleeping workers leave to others (`timer_pull=on`), step by step.

use super::hand_on::{MS, end, falls_asleep, gets, polls_are_tiny};
use super::{Eternal, again, all_by_hand};
use crate::bell::Announced;
use crate::link::Node;
use crate::mailbox::Posted;
use crate::scheduler::Scheduler;
use crate::scheduler::offline::TakenOff;
use crate::switches::{SwitchWord, Switches, TimerPull};
use crate::testing::{Log, post, pulling, spawn};
use crate::tree::Tree;
use crate::wheel::Base;
use crate::worker::local::VISITED_RETRY_NS;
use crate::worker::spin::SpinEnd;
use crate::worker::timer::RawTimer;
use crate::worker::{IdlePolicy, Worker};
use doorbell_machine::{Host, Machine};
use std::cell::Cell;
use std::future::poll_fn;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Wake, Waker};

/// Three workers: the first is inside a poll, as far as others can see; the second is about to leave a timer; the third
/// sleeps and can be claimed. The first two are active.
pub(super) struct Three {
    pub(super) workers: [Worker<Host>; 3],
    switches: Arc<SwitchWord<<Host as Machine>::Counter>>,
    pub(super) due_ns: u64,
}

impl Three {
    pub(super) fn new() -> Self {
        Self::idling_by(IdlePolicy::Park)
    }

    fn idling_by(idle: IdlePolicy) -> Self {
        let switches = pulling::<Host>(TimerPull::On);
        let remotes = Scheduler::new(3, &switches, |_, _| 0);
        let workers: [Worker<Host>; 3] = all_by_hand(remotes, idle);
        let _ = workers[2].shared.remote().bell().announce_spin();
        falls_asleep(&workers[2]);
        let it = Three {
            workers,
            switches,
            due_ns: Host::now_ns() + MS,
        };
        it.tree().activate(0);
        it.tree().activate(1);
        it
    }

    pub(super) fn tree(&self) -> &Tree<Host> {
        let scheduler = self.workers[0].shared.remote().scheduler();
        scheduler.tree().expect("it is of class Fair")
    }

    pub(super) fn turn_off(&self) {
        self.switches.store(Switches::default());
    }

    /// The second worker falls asleep and leaves its timer; returns until when it sleeps.
    pub(super) fn leaves(&self) -> Option<u64> {
        let leaver = &self.workers[1];
        leaver.shared.remote().publish_next_global(self.due_ns);
        leaver.leave_timers()
    }

    /// The second worker is taken off, and notices that.
    fn goes_off(&self) {
        let leaver = &self.workers[1];
        let scheduler = leaver.shared.remote().scheduler();
        assert_eq!(scheduler.take_off(1), TakenOff::Now);
        leaver.local.follow();
        assert!(leaver.local.is_off());
    }

    pub(super) fn is_third_claimed(&self) -> bool {
        let scheduler = self.workers[0].shared.remote().scheduler();
        !scheduler.idle().holds(2)
    }
}

#[test]
fn a_worker_that_is_off_leaves_its_timers_to_one_in_a_poll_and_asks_for_a_watchdog() {
    let it = Three::new();
    it.workers[0].local.begin_long_poll();
    assert!(!it.is_third_claimed(), "nothing waits for it yet");
    it.goes_off();
    assert_eq!(it.leaves(), None);
    assert!(it.is_third_claimed());
}

/// Of a task whose last polls were long. It is inside the poll, or begins it behind the sleeper.
#[test]
fn sleepers_are_looked_after_by_a_third_worker_in_a_long_poll() {
    for begins_first in [true, false] {
        let it = Three::new();
        let [busy, leaver, _] = &it.workers;
        if begins_first {
            busy.local.begin_long_poll();
        }
        assert_eq!(it.leaves(), None);
        assert_eq!(leaver.wish_ns(Host::now_ns()).is_some(), begins_first);
        if !begins_first {
            busy.local.begin_long_poll();
        }
        assert_eq!(it.is_third_claimed(), !begins_first);
    }
}

#[test]
fn sleepers_are_looked_after_when_the_switch_has_been_turned_off() {
    let it = Three::new();
    let [busy, leaver, looks] = &it.workers;
    busy.local.begin_long_poll();
    assert_eq!(it.leaves(), None);
    it.turn_off();
    assert!(looks.wish_ns(it.due_ns).is_some());
    assert_eq!(looks.next_for(busy.shared.remote()), it.due_ns);
    // It counts as overdue, so the worker that looks takes the place of the stuck one.
    let fired = looks.set_aside_if(busy.shared.remote(), |due_ns| due_ns == it.due_ns);
    assert!(!fired, "it is not due yet");
    assert!(!it.tree().is_active(0) && it.tree().is_active(2));
    assert_eq!(looks.next_for(looks.shared.remote()), it.due_ns);
    leaver.come_back();
    assert!(it.tree().is_active(1));
}

#[test]
fn a_worker_that_goes_off_while_it_is_awake_takes_back_the_next_wake_of_its_last_sleep() {
    let it = Three::new();
    let [busy, leaver, _] = &it.workers;
    assert_eq!(it.leaves(), None);
    leaver.come_back();
    it.goes_off();
    assert!(!leaver.pull_timers());
    assert!(!it.tree().is_active(1));
    assert_eq!(busy.next_for(busy.shared.remote()), u64::MAX);
}

#[test]
fn a_worker_that_is_off_looks_after_no_sleeper_when_it_wakes() {
    let it = Three::new();
    let [busy, leaver, _] = &it.workers;
    it.goes_off();
    assert_eq!(it.leaves(), None);
    assert_eq!(busy.next_for(busy.shared.remote()), it.due_ns);
    leaver.come_back();
    assert!(!it.tree().is_active(1), "its core is not for it");
    assert_eq!(busy.next_for(busy.shared.remote()), u64::MAX);
}

/// The one that it asks to take the duty reads the switch as off.
#[test]
fn the_duty_is_taken_when_the_switch_is_turned_off_while_the_last_worker_steps_aside() {
    let it = Three::new();
    let [busy, _, asked] = &it.workers;
    it.goes_off();
    let _: Option<u64> = busy.leave_timers();
    assert_eq!(it.leaves(), None);
    assert!(asked.shared.remote().pending(), "it is asked for a pass");
    it.turn_off();
    asked.come_back();
    assert_eq!(asked.leave_timers(), Some(it.due_ns));
    assert_eq!(busy.leave_timers(), None, "one is enough");
}

/// A task waits on this worker. Returns its waker.
fn waits_on(worker: &Worker<Host>) -> Waker {
    let waker = Arc::new(Mutex::new(None));
    let theirs = Arc::clone(&waker);
    let waits = poll_fn(move |cx| {
        *theirs.lock().unwrap() = Some(cx.waker().clone());
        Poll::<()>::Pending
    });
    worker.local.enter(|| {
        drop(spawn(worker.shared.remote(), waits));
        assert!(worker.local.run_one());
    });
    waker.lock().unwrap().take().expect("it was polled")
}

/// The first of three workers has so many tasks queued; some of the others sleep. It wakes a task that ran last on the
/// second one. Returns at which worker the task lies then.
fn woken_at(
    queued: usize,
    asleep: &[usize],
    wakes: impl FnOnce(&Worker<Host>, Waker),
) -> Option<usize> {
    woken_of(1, queued, asleep, wakes)
}

/// As [`woken_at`], of a task that ran last on that worker.
fn woken_of(
    last: usize,
    queued: usize,
    asleep: &[usize],
    wakes: impl FnOnce(&Worker<Host>, Waker),
) -> Option<usize> {
    let remotes = Scheduler::new(3, &pulling::<Host>(TimerPull::On), |_, _| 0);
    let workers: [Worker<Host>; 3] = all_by_hand(remotes, IdlePolicy::Park);
    let waker = waits_on(&workers[last]);
    // Its last poll has pushed nothing.
    gets(&workers[0], queued + 1, 1);
    for worker in asleep {
        let bell = workers[*worker].shared.remote().bell();
        assert_eq!(bell.announce_spin(), Announced::Yes);
        assert_eq!(bell.announce_park(), Announced::Yes);
        falls_asleep(&workers[*worker]);
    }
    workers[0].local.enter(|| wakes(&workers[0], waker));
    let is_there = |worker: &Worker<Host>| match worker.shared.remote() {
        first if first.worker() == 0 => first.queued_len() > queued as u64,
        other => other.has_injected(),
    };
    let found = workers.iter().position(is_there);
    for worker in asleep {
        let _ = workers[*worker].shared.remote().bell().end_idle();
        workers[*worker].leave_idle_set();
    }
    end(workers);
    found
}

#[test]
fn what_is_fired_for_a_sleeper_waits_behind_no_other_task_while_a_worker_is_idle() {
    let fires = |worker: &Worker<Host>, waker: Waker| {
        worker.local.bring_for_sleeper(true, || waker.wake());
    };
    assert_eq!(woken_at(0, &[1, 2], fires), Some(0), "it runs at once");
    assert_eq!(woken_at(1, &[1, 2], fires), Some(1), "where it ran last");
    assert_eq!(woken_at(1, &[2], fires), Some(2), "where nothing runs");
    assert_eq!(woken_at(1, &[], fires), Some(0), "nobody is idle");
    assert_eq!(woken_of(0, 1, &[1, 2], fires), Some(0), "it ran here last");
    let stolen = |worker: &Worker<Host>, waker: Waker| {
        if let Some(node) = worker.local.pop_movable() {
            worker.local.set_stolen(node);
        }
        fires(worker, waker);
    };
    assert_eq!(woken_at(1, &[1, 2], stolen), Some(1), "behind a stolen one");
    let brings = |worker: &Worker<Host>, waker: Waker| {
        worker.local.bring(|| waker.wake());
    };
    assert_eq!(woken_at(1, &[1, 2], brings), Some(0), "for itself");
    let both = |worker: &Worker<Host>, waker: Waker| {
        worker.local.bring_for_sleeper(true, || ());
        worker.local.bring(|| waker.wake());
    };
    assert_eq!(woken_at(1, &[1, 2], both), Some(0), "that has ended");
}

/// Its wheel has a visitor when it looks, and it falls asleep before it looks again.
#[test]
fn a_worker_whose_wheel_is_visited_looks_again_although_it_falls_asleep() {
    let it = Three::new();
    let [_, leaver, _] = &it.workers;
    leaver.local.enter_gated(|| {
        let remote = leaver.shared.remote();
        let timer = RawTimer::arm(remote, 1, Waker::noop()).unwrap();
        let visited = remote.gate().visit_by_hand(remote.parker(), || {
            assert_eq!(leaver.local.expire(), 0);
        });
        assert!(visited.is_some());
        let until_ns = leaver.leave_timers().expect("it looks again");
        assert!(until_ns <= Host::now_ns() + 20_000);
        leaver.come_back();
        drop(timer);
        leaver.local.close();
    });
}

#[test]
fn a_worker_that_leaves_its_timers_wakes_for_those_of_pinned_tasks() {
    let it = Three::new();
    let [_, leaver, _] = &it.workers;
    leaver.local.set_base(Base::Local);
    let remote = leaver.shared.remote();
    leaver.local.enter(|| {
        let timer = RawTimer::arm(remote, it.due_ns, Waker::noop());
        assert_eq!(leaver.leave_timers(), Some(it.due_ns));
        leaver.come_back();
        drop(timer);
    });
}

/// It has timers of both bases when it looks at its wheel, and the first one is not of a pinned task.
#[test]
fn a_worker_that_leaves_its_timers_behind_a_look_wakes_for_those_of_pinned_tasks() {
    let it = Three::new();
    let [_, leaver, _] = &it.workers;
    let remote = leaver.shared.remote();
    let pinned_ns = it.due_ns + 1_000 * MS;
    leaver.local.enter_gated(|| {
        let arm = |base, due_ns| {
            leaver.local.set_base(base);
            RawTimer::arm(remote, due_ns, Waker::noop())
        };
        let timers = [
            arm(Base::Global, 1),
            arm(Base::Global, it.due_ns + 100 * MS),
            arm(Base::Local, pinned_ns),
        ];
        assert_eq!(leaver.local.expire(), 1);
        assert_eq!(leaver.leave_timers(), Some(pinned_ns));
        leaver.come_back();
        drop(timers);
        leaver.local.close();
    });
}

/// Else others would not see that it is inside the same call for long.
#[test]
fn a_worker_that_runs_calls_is_listed_for_those_who_leave_timers_to_it() {
    let it = Three::new();
    let [busy, ..] = &it.workers;
    let scheduler = busy.shared.remote().scheduler();
    assert!(!scheduler.work().holds(0));
    let _ = post(busy.shared.remote(), 1, &Log::default());
    let _ = busy.local.enter(|| busy.take());
    assert!(scheduler.work().holds(0));
    busy.local.enter(|| busy.local.close());
}

/// Writes down when it is woken.
pub(super) struct Noted(Log);

impl Noted {
    pub(super) fn new(log: &Log) -> Self {
        Noted(log.clone())
    }
}

impl Wake for Noted {
    fn wake(self: Arc<Self>) {
        self.0.push(FIRED);
    }
}

/// What the log has when the timer fires.
pub(super) const FIRED: u64 = 100;

/// The second worker sleeps, and has left a timer that is due to the first one, which then does something.
pub(super) fn leaves_what_is_due(it: &Three, log: &Log, then: impl FnOnce(&Worker<Host>)) {
    let [busy, leaver, _] = &it.workers;
    leaver.local.enter_gated(|| {
        let waker = Waker::from(Arc::new(Noted::new(log)));
        let timer = RawTimer::arm(leaver.shared.remote(), 1, &waker);
        assert_eq!(leaver.leave_timers(), None);
        then(busy);
        leaver.come_back();
        drop(timer);
        leaver.local.close();
    });
}

#[test]
fn a_worker_that_spins_fires_what_is_due_of_a_sleeper() {
    let it = Three::idling_by(IdlePolicy::Spin { spin_ns: MS });
    let log = Log::default();
    leaves_what_is_due(&it, &log, |busy| {
        let bell = busy.shared.remote().bell();
        assert_eq!(bell.announce_spin(), Announced::Yes);
        assert_eq!(busy.spin(), SpinEnd::Busy);
        let _ = bell.end_idle();
    });
    log.assert_once_and_in_order(&[FIRED]);
}

/// No slice of its spin is quiet.
#[test]
fn a_worker_that_spins_through_calls_fires_what_is_due_of_a_sleeper_behind_the_first() {
    let it = Three::idling_by(IdlePolicy::Spin { spin_ns: MS });
    let log = Log::default();
    leaves_what_is_due(&it, &log, |busy| {
        let remote = busy.shared.remote();
        let call = Eternal {
            node: Node::new(again),
            remote: remote.clone(),
            rounds_left: Cell::new(u64::MAX),
        };
        assert_eq!(remote.bell().announce_spin(), Announced::Yes);
        // SAFETY: `call` stays in place until its last delivery below.
        let posted = unsafe { remote.post(NonNull::from(&call).cast()) };
        assert_eq!(posted, Posted::Yes);
        assert_eq!(busy.spin(), SpinEnd::Busy);
        assert_eq!(busy.shared.counts().takes, 1);
        let _ = remote.bell().end_idle();
        call.rounds_left.set(0);
        assert_eq!(busy.take().delivered, 1);
    });
    log.assert_once_and_in_order(&[FIRED]);
}

/// A third thread has that wheel for a moment.
#[test]
fn a_worker_that_could_not_enter_the_wheel_of_a_sleeper_tries_again_after_a_while() {
    let it = Three::new();
    let log = Log::default();
    let [_, leaver, _] = &it.workers;
    let remote = leaver.shared.remote();
    leaves_what_is_due(&it, &log, |busy| {
        let refused = || busy.shared.counts().pulls_refused;
        let visited = remote.gate().visit_by_hand(remote.parker(), || {
            let sleeps_past = |from_ns| {
                assert!(!busy.pull_timers());
                let until_ns = busy.leave_timers().expect("it has the duty");
                busy.come_back();
                until_ns >= from_ns + VISITED_RETRY_NS
            };
            assert!(sleeps_past(Host::now_ns()), "it would wake at once");
            // On a slow computer that time is over before the second try.
            let mut tries = std::iter::repeat_with(|| {
                let (from_ns, before) = (Host::now_ns(), refused());
                let _ = (busy.pull_timers(), busy.pull_timers());
                (
                    refused() - before,
                    Host::now_ns() < from_ns + VISITED_RETRY_NS,
                )
            });
            let (most, _) = tries.find(|(_, in_time)| *in_time).expect("endless");
            assert!(most <= 1, "it tried again at once");
        });
        assert!(visited.is_some());
        assert!(refused() > 0);
    });
    assert!(log.entries().is_empty());
}

#[test]
fn a_busy_worker_looks_every_8_polls_for_what_is_due_of_a_sleeper() {
    let it = Three::new();
    let log = Log::default();
    let [busy, ..] = &it.workers;
    busy.local.enter(|| {
        for entry in 0..10 {
            let log = log.clone();
            drop(spawn(busy.shared.remote(), async move { log.push(entry) }));
        }
    });
    leaves_what_is_due(&it, &log, |busy| {
        busy.local.enter(|| {
            while !busy.local.is_empty() {
                polls_are_tiny(busy);
                busy.run_ready();
            }
        });
    });
    assert_eq!(log.entries(), [0, 1, 2, 3, 4, 5, 6, 7, FIRED, 8, 9]);
}
