//! Models of the lock: two or three threads in every interleaving.

// What a model counts with std's atomics and locks is not part of it and orders nothing in it.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use super::{RawLock, TryLock, Wait};
use crate::scheduler::{RemoteRef, Scheduler, SchedulerSpec};
use crate::testing::model::{check, check_large, check_largest, join_all, mutant};
use crate::testing::spawn;
use crate::wait::block_on;
use crate::worker::Local;
use ::loom::cell::UnsafeCell;
use ::loom::thread;
use doorbell_machine::Loom;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// A lock and the value that it guards.
struct Guarded {
    lock: RawLock<Loom>,
    count: UnsafeCell<u32>,
}

// SAFETY: only the holder of the lock uses the cell; that is what the models check.
unsafe impl Send for Guarded {}
// SAFETY: as for Send.
unsafe impl Sync for Guarded {}

impl Guarded {
    fn new() -> Arc<Self> {
        Arc::new(Guarded {
            lock: RawLock::default(),
            count: UnsafeCell::new(0),
        })
    }

    /// The caller has the lock.
    fn add_and_unlock(&self) {
        // SAFETY: the caller has the lock.
        self.count.with_mut(|count| unsafe { *count += 1 });
        // SAFETY: the caller has the lock.
        unsafe { self.lock.unlock() };
    }

    fn lock_and_add(&self, urgency: u8) {
        let mut wait = Wait::default();
        let locked = poll_fn(|cx| self.lock.poll_lock(&mut wait, urgency, cx));
        block_on::<Loom, _>(locked, 0);
        self.add_and_unlock();
    }

    fn assert_free(&self, count: u32) {
        assert_eq!(self.lock.try_lock(), TryLock::Locked, "it is free");
        // SAFETY: locked above.
        assert_eq!(self.count.with(|count| unsafe { *count }), count);
        // SAFETY: locked above.
        unsafe { self.lock.unlock() };
    }
}

/// Two threads lock at once.
fn two() {
    let guarded = Guarded::new();
    let theirs = Arc::clone(&guarded);
    let other = thread::spawn(move || theirs.lock_and_add(1));
    guarded.lock_and_add(2);
    other.join().unwrap();
    guarded.assert_free(2);
}

/// Two threads wait while a third lets go.
fn two_wait() {
    let guarded = Guarded::new();
    assert_eq!(guarded.lock.try_lock(), TryLock::Locked);
    let others = [1, 2].map(|urgency| {
        let theirs = Arc::clone(&guarded);
        thread::spawn(move || theirs.lock_and_add(urgency))
    });
    guarded.add_and_unlock();
    join_all(others);
    guarded.assert_free(3);
}

/// A future is withdrawn while the holder lets go. If it was granted the lock, another thread still gets it.
fn withdrawn() {
    let guarded = Guarded::new();
    assert_eq!(guarded.lock.try_lock(), TryLock::Locked);
    let theirs = Arc::clone(&guarded);
    let other = thread::spawn(move || {
        let mut wait = Wait::default();
        let mut cx = Context::from_waker(Waker::noop());
        if theirs.lock.poll_lock(&mut wait, 1, &mut cx).is_ready() {
            return theirs.add_and_unlock();
        }
        theirs.lock.withdraw(&mut wait);
    });
    guarded.add_and_unlock();
    guarded.lock_and_add(1);
    other.join().unwrap();
    // The other thread may have locked too.
    // SAFETY: the other thread has ended.
    let count = guarded.count.with(|count| unsafe { *count });
    assert!((2..=3).contains(&count), "{count}");
    guarded.assert_free(count);
}

/// A future changes its waker while it is granted the lock.
fn looks_again() {
    let guarded = Guarded::new();
    assert_eq!(guarded.lock.try_lock(), TryLock::Locked);
    let theirs = Arc::clone(&guarded);
    let other = thread::spawn(move || {
        let mut wait = Wait::default();
        let mut first = true;
        let locked = poll_fn(|cx| {
            if std::mem::take(&mut first) {
                let mut blind = Context::from_waker(Waker::noop());
                if theirs.lock.poll_lock(&mut wait, 1, &mut blind).is_ready() {
                    return Poll::Ready(());
                }
            }
            theirs.lock.poll_lock(&mut wait, 1, cx)
        });
        let mut locked = Box::pin(locked);
        block_on::<Loom, _>(Pin::new(&mut locked), 0);
        drop(locked);
        theirs.add_and_unlock();
    });
    guarded.add_and_unlock();
    other.join().unwrap();
    guarded.assert_free(2);
}

/// A future is polled for the second time while the holder lets go.
fn granted_between_two_looks() {
    let guarded = Guarded::new();
    assert_eq!(guarded.lock.try_lock(), TryLock::Locked);
    let mut wait = Wait::default();
    let mut cx = Context::from_waker(Waker::noop());
    let first = guarded.lock.poll_lock(&mut wait, 1, &mut cx);
    assert!(first.is_pending());
    let theirs = Arc::clone(&guarded);
    let other = thread::spawn(move || theirs.add_and_unlock());
    match guarded.lock.poll_lock(&mut wait, 1, &mut cx) {
        Poll::Ready(()) => guarded.add_and_unlock(),
        Poll::Pending => guarded.lock.withdraw(&mut wait),
    }
    other.join().unwrap();
    // SAFETY: the other thread has ended.
    let count = guarded.count.with(|count| unsafe { *count });
    guarded.assert_free(count);
}

/// A task that locks in its first poll and unlocks in its second.
struct Holds(Arc<Guarded>, bool);

impl Future for Holds {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.1, true) {
            self.0.add_and_unlock();
            return Poll::Ready(());
        }
        assert_eq!(self.0.lock.try_lock(), TryLock::Locked);
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// A worker above waits for a lock while its holder, a task of a scheduler below, lets go.
fn inherits() {
    let one = |above| {
        Scheduler::described(1, &Arc::default(), SchedulerSpec::below(above), |_, _| 0).remove(0)
    };
    let above: RemoteRef<Loom> = one(Vec::new());
    let below: RemoteRef<Loom> = one(vec![above.clone()]);
    let guarded = Guarded::new();
    let local = Local::new(below.clone());
    let task = Holds(Arc::clone(&guarded), false);
    drop(local.enter(|| spawn(&below, task)));
    local.enter(|| assert!(local.run_one()));
    let other = thread::spawn(move || {
        local.enter(|| while local.run_one() {});
        local
    });
    let upper = Local::new(above);
    upper.enter(|| {
        let mut wait = Wait::default();
        let mut cx = Context::from_waker(Waker::noop());
        let mut locked = guarded.lock.poll_lock(&mut wait, 9, &mut cx);
        while upper.run_one() {}
        if locked.is_pending() {
            locked = guarded.lock.poll_lock(&mut wait, 9, &mut cx);
        }
        match locked {
            Poll::Ready(()) => guarded.add_and_unlock(),
            Poll::Pending => guarded.lock.withdraw(&mut wait),
        }
        upper.close();
    });
    let local = other.join().unwrap();
    local.enter(|| {
        while local.run_one() {}
        local.close();
    });
    drop(local);
    // SAFETY: the other thread has ended.
    let count = guarded.count.with(|count| unsafe { *count });
    guarded.assert_free(count);
    drop(guarded);
    assert_eq!(below.shares(), 1, "a task was not freed");
}

#[test]
fn a_holder_lets_go_while_it_inherits() {
    check_large(inherits);
}

#[test]
fn two_that_lock_at_once() {
    check(two);
}

#[test]
fn two_wait_while_one_lets_go() {
    check_largest(two_wait);
}

#[test]
fn a_lock_that_is_granted_to_who_is_gone_goes_on() {
    check(withdrawn);
}

#[test]
fn a_waker_is_changed_while_the_lock_is_granted() {
    check(looks_again);
}

#[test]
fn a_grant_brings_what_the_lock_guards() {
    check(granted_between_two_looks);
}

#[test]
fn mutant_leave_blind() {
    mutant!(LockLeaveBlind, two_wait);
}
