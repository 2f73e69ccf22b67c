//! Handles on and off their worker, in every state; what is allocated and what is freed.

use super::{Rig, Timer, arm, elsewhere};
use crate::bell::Announced;
use crate::scheduler::RemoteRef;
use crate::task::{BodyVtable, Kind, write_body};
use crate::wheel::entry::{Entry, Roomy};
use crate::wheel::{Base, KEPT_MAX, Window};
use crate::worker::timer::{Fired, Polled, Reset};
use crate::worker::{Local, launch};
use doorbell_machine::{Counter as _, Host};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};

#[test]
fn an_entry_is_as_large_as_the_readme_says() {
    let mailed = size_of::<Entry<Host, RemoteRef<Host>>>();
    let with_room = size_of::<Roomy<Host, RemoteRef<Host>>>();
    assert_eq!((mailed, with_room), (104, 128), "and so in the README");
}

#[test]
fn a_time_that_has_passed_is_due_at_the_next_look_also_at_the_same_time() {
    let rig = Rig::at_edge();
    for ahead in [0, 1, 1, 0, 62, 0] {
        rig.clock.advance_to(rig.now() + ahead);
        for when_ns in [0, rig.now() - 1, rig.now()] {
            let mut timer = rig.arm(when_ns);
            assert_eq!(rig.local.due_ns(), Some(when_ns));
            assert_eq!(rig.expire(), 1);
            timer.check(true);
            assert_eq!(rig.expire(), 0);
            rig.enter(|| drop(timer));
        }
        // One nanosecond early is early.
        let mut timer = rig.arm(rig.now() + 1);
        assert_eq!(rig.expire(), 0);
        rig.enter(|| timer.check(false));
        rig.enter(|| drop(timer));
    }
}

#[test]
fn t7_t11_the_far_end_of_time_neither_panics_nor_fires_early() {
    let edges = [u64::MAX, i64::MAX as u64 + 1, 1 << 36, 1 << 60];
    let mut times: Vec<u64> = edges
        .into_iter()
        .flat_map(|edge| (0..3).map(move |k| edge - k))
        .collect();
    times.sort_unstable();
    let rig = Rig::new();
    times.retain(|when_ns| *when_ns > rig.now() + 1);
    let mut timers: Vec<Timer> = times.iter().map(|when_ns| rig.arm(*when_ns)).collect();
    for (i, when_ns) in times.iter().enumerate() {
        assert_eq!(rig.expire_at(*when_ns - 1), 0);
        // A frozen clock ends one before the end, which stands for never.
        let reached = *when_ns < u64::MAX;
        assert_eq!(rig.expire_at(*when_ns), u64::from(reached));
        rig.enter(|| timers[i].check(reached));
    }
    assert_eq!(rig.pending(), 1);
    assert_eq!(rig.local.due_ns(), None, "never is no deadline");
    // Past times are due at the end of time too.
    let mut late = rig.arm(0);
    assert_eq!(rig.expire(), 1);
    late.check(true);
    rig.enter(|| drop((timers, late)));
    rig.close();
    assert_eq!(rig.entries(), 0);
}

#[test]
fn miri_armed_and_dropped_elsewhere() {
    // Whether the worker looks at its timers, and at its mailbox, before it ends.
    for (expire, serve) in [(false, true), (true, true), (true, false), (false, false)] {
        let rig = Rig::new();
        let timer = rig.arm(rig.now() + 10);
        let wakes = Arc::clone(&timer.wakes);
        timer.drop_elsewhere();
        assert_eq!((rig.entries(), rig.pending()), (1, 1));
        if expire {
            assert_eq!(
                rig.expire_at(rig.now() + 10),
                0,
                "nobody is there to be woken"
            );
            assert_eq!(rig.pending(), 0);
        }
        if serve {
            assert_eq!(rig.serve(), 1);
            // It is used again.
            let again = rig.arm(rig.now() + 20);
            assert_eq!((rig.entries(), rig.pending()), (1, 1));
            rig.enter(|| drop(again));
        }
        rig.close();
        assert_eq!((rig.entries(), rig.pending()), (0, 0));
        assert_eq!((wakes.get(), Arc::strong_count(&wakes)), (0, 1));
    }
}

#[test]
fn miri_t10_mailed_and_dropped_before_the_worker_has_seen_it() {
    for serve in [true, false] {
        let rig = Rig::new();
        let timer = rig.mail(rig.now() + 10);
        let wakes = Arc::clone(&timer.wakes);
        timer.drop_elsewhere();
        assert_eq!(rig.entries(), 1);
        if serve {
            assert_eq!(rig.serve(), 1);
            assert_eq!(rig.pending(), 0);
            assert_eq!(rig.expire_at(rig.now() + 10), 0);
        }
        rig.close();
        assert_eq!((rig.entries(), rig.pending()), (0, 0));
        assert_eq!((wakes.get(), Arc::strong_count(&wakes)), (0, 1));
    }
}

#[test]
fn miri_mailed_and_dropped_on_the_worker() {
    for serve in [true, false] {
        let rig = Rig::new();
        let timer = rig.mail(rig.now() + 10);
        if serve {
            assert_eq!(rig.serve(), 1);
            assert_eq!(rig.pending(), 1);
        }
        rig.enter(|| drop(timer));
        assert_eq!(rig.pending(), 0);
        assert_eq!(rig.serve(), u64::from(!serve));
        rig.close();
        assert_eq!(rig.entries(), 0);
    }
}

#[test]
fn miri_fired_and_dropped_elsewhere() {
    for close in [true, false] {
        let rig = Rig::new();
        let (armed, mailed) = (rig.arm(rig.now() + 10), rig.mail(rig.now() + 10));
        assert_eq!(rig.serve(), 1);
        assert_eq!(rig.expire_at(rig.now() + 10), 2);
        if close {
            rig.close();
        }
        for (mut timer, left) in [(armed, 1), (mailed, 0)] {
            elsewhere(|| timer.check(true));
            timer.drop_elsewhere();
            assert_eq!(rig.entries(), left);
        }
        rig.close();
    }
}

#[test]
fn miri_orphaned_and_dropped_on_any_thread() {
    let rig = Rig::new();
    let mut timers = rig.arm_each((0..3).map(|i| rig.now() + i * 100));
    // This one is in the mailbox when the worker ends.
    timers.push(rig.mail(rig.now()));
    rig.close();
    assert_eq!((rig.entries(), rig.pending()), (4, 0));
    for (i, mut timer) in timers.into_iter().enumerate() {
        assert_eq!(timer.poll(), Polled::Ready(Fired::WorkerGone));
        assert_eq!(timer.wakes.get(), 1, "whoever waits is told");
        assert_eq!(rig.enter(|| timer.raw.reset(0)), Reset::Elsewhere);
        if i % 2 == 0 {
            timer.drop_elsewhere();
        } else {
            rig.enter(|| drop(timer));
        }
        assert_eq!(rig.entries(), 3 - i);
    }
    assert!(rig.enter(|| arm(rig.remote(), 0)).is_err());
    let remote = rig.remote();
    assert!(elsewhere(|| arm(remote, 0)).is_err());
    assert_eq!(rig.entries(), 0);
}

#[test]
fn miri_fired_and_dropped_on_a_worker_that_has_ended() {
    let rig = Rig::new();
    let timer = rig.arm(0);
    assert_eq!(rig.expire(), 1);
    rig.close();
    let remote = rig.remote().clone();
    rig.enter(|| drop(timer));
    drop(rig);
    assert_eq!(remote.shares(), 1, "the entry is freed");
}

/// Drops a handle on another thread when woken.
struct DropsElsewhere(Mutex<Option<Timer>>);

impl Wake for DropsElsewhere {
    fn wake(self: Arc<Self>) {
        if let Some(timer) = self.0.lock().unwrap().take() {
            timer.drop_elsewhere();
        }
    }
}

#[test]
fn miri_dropped_elsewhere_while_the_worker_ends() {
    // The mailbox is closed already, and the timer still hangs in the wheel.
    for ahead in [10, 10_000_000] {
        let rig = Rig::new();
        let other = rig.arm(rig.now() + 20_000_000);
        let wakes = Arc::clone(&other.wakes);
        let waker = Waker::from(Arc::new(DropsElsewhere(Mutex::new(Some(other)))));
        let when_ns = rig.now() + ahead;
        let first =
            rig.enter(|| crate::worker::timer::RawTimer::arm(rig.remote(), when_ns, &waker));
        rig.close();
        assert_eq!((rig.entries(), rig.pending()), (1, 0));
        // Woken although its handle is gone: the end of the worker cannot tell that from a reset that came too late.
        assert_eq!((wakes.get(), Arc::strong_count(&wakes)), (1, 1));
        drop(first);
        assert_eq!(rig.entries(), 0);
    }
}

#[test]
fn miri_entries_are_used_again() {
    let rig = Rig::new();
    for round in 0..if cfg!(miri) { 3 } else { 200 } {
        let timers = rig.arm_each((0..8).map(|i| rig.now() + i));
        assert_eq!(rig.entries(), 8);
        rig.expire_at(rig.now() + round % 9);
        rig.enter(|| drop(timers));
        // Armed here, dropped there.
        let timers = rig.arm_each([rig.now() + 100; 8]);
        timers.into_iter().for_each(Timer::drop_elsewhere);
        assert_eq!(rig.serve(), 8);
        assert_eq!((rig.entries(), rig.pending()), (8, 0));
    }
    rig.close();
    assert_eq!(rig.entries(), 0);
}

#[test]
fn miri_a_worker_keeps_so_many_entries_and_no_more() {
    let rig = Rig::new();
    let timers = rig.arm_each(std::iter::repeat_n(u64::MAX, KEPT_MAX + 10));
    assert_eq!(rig.entries(), KEPT_MAX + 10);
    rig.enter(|| drop(timers));
    assert_eq!(rig.entries(), KEPT_MAX);
    rig.close();
    assert_eq!(rig.entries(), 0);
}

#[test]
fn a_reset_elsewhere_changes_nothing() {
    let rig = Rig::new();
    let mut timer = rig.arm(rig.now() + 10);
    let early_ns = rig.now() + 1;
    assert_eq!(elsewhere(|| timer.raw.reset(early_ns)), Reset::Elsewhere);
    let other = Rig::new();
    assert_eq!(other.enter(|| timer.raw.reset(early_ns)), Reset::Elsewhere);
    // Not there either: the waker stays the worker's.
    assert_eq!(elsewhere(|| timer.poll()), Polled::Elsewhere);
    assert_eq!(other.enter(|| timer.poll()), Polled::Elsewhere);
    assert_eq!(rig.expire_at(early_ns), 0);
    assert_eq!(rig.expire_at(early_ns + 9), 1);
    elsewhere(|| timer.check(true));
}

#[test]
fn a_mailed_timer_is_polled_where_it_was_armed() {
    let rig = Rig::new();
    let mut timer = rig.mail(rig.now() + 10);
    for _ in 0..2 {
        // The same waker: nothing to change.
        elsewhere(|| assert_eq!(timer.poll(), Polled::Pending));
        let raw = &mut timer.raw;
        elsewhere(|| {
            let polled = raw.poll(&mut std::task::Context::from_waker(Waker::noop()));
            assert_eq!(polled, Polled::Elsewhere);
        });
        let _ = rig.serve();
    }
    assert_eq!(rig.expire_at(rig.now() + 10), 1);
    elsewhere(|| timer.check(true));
}

#[test]
fn a_poll_on_the_worker_changes_the_waker() {
    let rig = Rig::new();
    let mut timer = rig.arm(rig.now() + 10);
    let old = std::mem::take(&mut timer.wakes);
    rig.enter(|| timer.check(false));
    assert_eq!(Arc::strong_count(&old), 1, "the old waker is gone");
    assert_eq!(rig.expire_at(rig.now() + 10), 1);
    timer.check(true);
    assert_eq!(old.get(), 0);
}

#[test]
fn a_mailed_timer_that_was_polled_on_its_worker_is_not_elsewhere_what_it_was() {
    let rig = Rig::new();
    let mut timer = rig.mail(rig.now() + 10);
    assert_eq!(rig.serve(), 1);
    let mailed = std::mem::take(&mut timer.wakes);
    rig.enter(|| timer.check(false));
    // The waker that was sent would not be woken, so a poll with it must not say it will.
    let here = std::mem::replace(&mut timer.wakes, mailed);
    assert_eq!(elsewhere(|| timer.poll()), Polled::Elsewhere);
    assert_eq!(rig.expire_at(rig.now() + 10), 1);
    assert_eq!((here.get(), timer.wakes.get()), (1, 0));
}

#[test]
fn an_arm_by_mail_rings_once_and_a_cancel_never() {
    let rig = Rig::new();
    let rings = || rig.remote().counts().rings.get();
    let armed = rig.arm(rig.now() + 10);
    drop(rig.mail(rig.now() + 10).raw);
    assert_eq!(rings(), 0, "the worker runs");
    let _ = rig.serve();
    let bell = rig.remote().bell();
    assert_eq!(bell.announce_spin(), Announced::Yes);
    assert_eq!(bell.announce_park(), Announced::Yes);
    armed.drop_elsewhere();
    assert_eq!(rings(), 0, "it can wait");
    let mailed = [0, 10, 20].map(|ahead| rig.mail(rig.now() + ahead));
    assert_eq!(rings(), 1, "the first post after the quiet one rings");
    mailed.into_iter().for_each(Timer::drop_elsewhere);
    assert_eq!(rings(), 1);
    let _ = bell.end_idle();
    assert_eq!(rig.serve(), 4);
    rig.close();
    assert_eq!(rig.entries(), 0);
}

/// Has the worker run a future until it waits for nobody.
fn run<F: Future<Output = ()>>(local: &Local<Host>, kind: Kind, future: F) {
    let remote = local.remote().clone();
    // SAFETY: the body is of that table's type; it stays on this thread.
    let raw = unsafe {
        launch(remote, kind, BodyVtable::of::<F>(), |body| {
            write_body(body, future);
        })
    };
    drop(raw);
    while local.run_one() {}
}

#[test]
fn the_timers_of_a_pinned_task_are_nobody_elses() {
    let rig = Rig::new();
    let timers = Rc::new(Cell::new(Vec::new()));
    for (kind, ahead) in [(Kind::Pinned, 10), (Kind::Task, 20)] {
        let (remote, kept) = (rig.remote().clone(), Rc::clone(&timers));
        let when_ns = rig.now() + ahead;
        let future = async move {
            let mut timers = kept.take();
            timers.push(arm(&remote, when_ns).unwrap());
            kept.set(timers);
        };
        rig.enter(|| run(&rig.local, kind, future));
    }
    let (first_ns, second_ns) = (rig.now() + 10, rig.now() + 20);
    assert_eq!(
        Base::BOTH.map(|base| rig.local.wheel().next(base)),
        [first_ns, second_ns].map(|at_ns| Some(Window::at(at_ns)))
    );
    assert_eq!(rig.local.due_ns(), Some(first_ns));
    assert_eq!(rig.remote().next_global_ns(), second_ns);
    assert_eq!(rig.expire_at(first_ns), 1);
    assert_eq!(rig.remote().next_global_ns(), second_ns);
    assert_eq!(rig.expire_at(second_ns), 1);
    assert_eq!(rig.remote().next_global_ns(), u64::MAX);
    let mut fired = timers.take();
    for timer in &mut fired {
        timer.check(true);
    }
    rig.enter(|| drop(fired));
}

/// The visitor may have lost its CPU there.
#[test]
fn timers_of_pinned_tasks_go_on_while_a_visitor_has_the_wheel() {
    let rig = Rig::new();
    let timers = Rc::new(Cell::new(Vec::new()));
    let arm_one = |kind| {
        let (remote, kept) = (rig.remote().clone(), Rc::clone(&timers));
        let when_ns = rig.now() + 10;
        let future = async move {
            let mut timers = kept.take();
            timers.push(arm(&remote, when_ns).unwrap());
            kept.set(timers);
        };
        run(&rig.local, kind, future);
    };
    rig.local.enter_gated(|| {
        arm_one(Kind::Pinned);
        arm_one(Kind::Task);
        rig.clock.advance_to(rig.now() + 10);
        let gate = rig.remote().gate();
        let visited = gate.visit(rig.remote().parker(), |_, _| {
            assert_eq!(rig.local.expire(), 1, "that of the pinned task");
            arm_one(Kind::Pinned);
            assert!(!rig.remote().has_mail(), "it is armed here");
        });
        assert!(visited.is_some());
        assert_eq!(rig.local.expire(), 0, "it tries again later");
        rig.clock.advance_to(rig.now() + 20_000);
        assert_eq!(rig.local.expire(), 2);
        drop(timers.take());
        rig.local.close();
    });
}
