//! A visited wheel in the model checker: a worker by hand, and another that visits its timers.

use crate::scheduler::RemoteRef;
use crate::testing::Wakes;
use crate::testing::model::{check_large, mutant};
use crate::worker::Local;
use crate::worker::timer::{RawTimer, Reset};
use ::loom::thread::{self, JoinHandle};
use doorbell_machine::loom::Loom;
use std::sync::Arc;
use std::task::Waker;

/// When the timers of the models are due: always.
const DUE_NS: u64 = 0;

/// A visit; returns how many timers it fired.
fn expire(remote: &RemoteRef<Loom>) -> u64 {
    let expired = remote.gate().expire(&**remote, DUE_NS);
    expired.map_or(0, |expired| expired.fired)
}

/// A worker whose wheel may be visited, with one timer that is due, while another visits it.
fn visited(meanwhile: impl FnOnce(&Local<Loom>, RawTimer) + 'static) -> u64 {
    let remote = RemoteRef::<Loom>::alone(&Arc::default());
    let local = Local::new(remote.clone());
    let wakes = Arc::new(Wakes::default());
    local.enter_gated(|| {
        let waker = Waker::from(Arc::clone(&wakes));
        let timer = RawTimer::arm(&remote, DUE_NS, &waker).expect("the worker runs");
        drop(waker);
        let visitor: JoinHandle<u64> = thread::spawn(move || expire(&remote));
        meanwhile(&local, timer);
        visitor.join().unwrap();
        // What was sent by mail meanwhile.
        // SAFETY: this is the worker's thread, and the ready queue its own.
        let _ = unsafe { local.remote().serve(&local) };
        local.take_common();
        local.expire();
        local.close();
    });
    // One that is left here is the model's: what the wheel had of the waker is gone.
    assert_eq!(Arc::strong_count(&wakes), 1, "a waker was leaked");
    wakes.get()
}

/// Both find the timer due: it fires once.
fn expired_by_both() {
    let wakes = visited(|local, timer| {
        local.expire();
        // Dropped on the worker, after all that follows.
        drop(timer);
    });
    assert!(wakes <= 1, "fired twice");
}

/// Kept until the end, a timer fires, whoever comes first.
fn fires_for_sure() {
    let (remote, wakes) = (
        RemoteRef::<Loom>::alone(&Arc::default()),
        Arc::new(Wakes::default()),
    );
    let local = Local::new(remote.clone());
    local.enter_gated(|| {
        let timer = RawTimer::arm(&remote, DUE_NS, &Waker::from(Arc::clone(&wakes)));
        let visitor = thread::spawn(move || expire(&remote));
        local.expire();
        let visited = visitor.join().unwrap();
        // Not by the worker's own note of when to look: time stands still here.
        local.wheel().expire(DUE_NS);
        assert_eq!(wakes.get(), 1, "not once; {visited} by the visitor");
        drop(timer);
        local.close();
    });
}

/// The handle goes, or is armed anew, while somebody visits.
fn dropped_meanwhile() {
    let wakes = visited(|_, timer| drop(timer));
    assert!(wakes <= 1);
}

fn reset_meanwhile() {
    let wakes = visited(|_, mut timer| {
        // In place, or its worker's visitor has it, or it has fired.
        let reset = timer.reset(u64::MAX);
        assert!(matches!(reset, Reset::Done | Reset::Elsewhere));
        drop(timer);
    });
    assert!(wakes <= 1);
}

/// The worker ends while somebody visits: it sleeps until the visitor has left, and the timer has fired or
/// is the worker's.
fn ends_meanwhile() {
    let wakes = visited(|local, timer| {
        local.remote().gate().end(local.remote().parker());
        drop(timer);
    });
    assert!(wakes <= 1);
}

/// Somebody visits a worker that is about to begin.
fn begins_meanwhile() {
    let remote = RemoteRef::<Loom>::alone(&Arc::default());
    let local = Local::new(remote.clone());
    let visitor = thread::spawn(move || expire(&remote));
    local.enter_gated(|| {
        assert_eq!(visitor.join().unwrap(), 0);
        local.close();
    });
}

/// The worker falls asleep and wakes while somebody visits: the timer fires once, and no later than when both have
/// been.
fn lent_meanwhile() {
    let wakes = visited(|local, timer| {
        let gate = local.remote().gate();
        gate.lend();
        let word = ::loom::sync::atomic::AtomicU32::new(0);
        gate.take_back(|| {
            word.swap(1, ::loom::sync::atomic::Ordering::Relaxed);
        });
        local.expire();
        drop(timer);
    });
    assert!(wakes <= 1, "fired twice");
}

/// Another timer is armed while somebody visits: by mail, if it must be.
fn armed_meanwhile() {
    let wakes = visited(|local, timer| {
        let another = Arc::new(Wakes::default());
        let waker = Waker::from(Arc::clone(&another));
        let second = RawTimer::arm(local.remote(), u64::MAX, &waker).expect("the worker runs");
        drop((timer, second));
        assert_eq!(another.get(), 0, "fired long before its time");
    });
    assert!(wakes <= 1);
}

#[test]
fn a_worker_that_ends_sleeps_until_its_visitor_has_left() {
    check_large(ends_meanwhile);
}

#[test]
fn a_worker_that_begins_is_not_visited_before() {
    check_large(begins_meanwhile);
}

#[test]
fn a_timer_that_both_find_due_fires_once() {
    check_large(expired_by_both);
    check_large(fires_for_sure);
}

#[test]
fn a_timer_of_a_worker_that_sleeps_and_wakes_fires_once() {
    check_large(lent_meanwhile);
}

#[test]
fn a_timer_that_goes_or_changes_while_somebody_visits() {
    check_large(dropped_meanwhile);
    check_large(reset_meanwhile);
}

#[test]
fn a_timer_that_is_armed_while_somebody_visits() {
    check_large(armed_meanwhile);
}

#[test]
fn mutant_no_fence() {
    mutant!(WheelGateNoFence, expired_by_both);
}
