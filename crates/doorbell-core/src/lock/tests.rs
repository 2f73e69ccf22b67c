use super::{RawLock, TryLock, Wait};
use doorbell_machine::Host;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

type Lock = RawLock<Host>;

fn poll(lock: &Lock, wait: &mut Wait<Host>, urgency: u8) -> Poll<()> {
    lock.poll_lock(wait, urgency, &mut Context::from_waker(Waker::noop()))
}

fn unlock(lock: &Lock) {
    // SAFETY: each test calls it on behalf of the holder.
    unsafe { lock.unlock() };
}

#[test]
fn miri_the_most_urgent_is_next_and_of_equals_the_oldest() {
    let lock = Lock::default();
    assert_eq!(lock.try_lock(), TryLock::Locked);
    let urgencies = [1, 7, 7, 1, 3, 0];
    let mut waits: Vec<_> = urgencies.iter().map(|_| Wait::default()).collect();
    for (wait, urgency) in waits.iter_mut().zip(urgencies) {
        assert!(poll(&lock, wait, urgency).is_pending());
    }
    for next in [1, 2, 4, 0, 3, 5] {
        assert_eq!(lock.try_lock(), TryLock::Busy);
        unlock(&lock);
        for (at, wait) in waits.iter_mut().enumerate() {
            // The others still wait, or have had the lock.
            if at == next {
                assert!(poll(&lock, wait, urgencies[at]).is_ready(), "{next}");
            } else if wait.0.is_some() {
                assert!(poll(&lock, wait, urgencies[at]).is_pending(), "{at}");
            }
        }
    }
    assert!(lock.is_locked());
    unlock(&lock);
    assert!(!lock.is_locked());
}

#[test]
fn miri_one_that_becomes_more_urgent_goes_first() {
    let lock = Lock::default();
    assert_eq!(lock.try_lock(), TryLock::Locked);
    let mut waits = [Wait::default(), Wait::default()];
    for wait in &mut waits {
        assert!(poll(&lock, wait, 1).is_pending());
    }
    assert!(poll(&lock, &mut waits[1], 2).is_pending());
    unlock(&lock);
    assert!(poll(&lock, &mut waits[0], 1).is_pending());
    assert!(poll(&lock, &mut waits[1], 2).is_ready());
    unlock(&lock);
    assert!(poll(&lock, &mut waits[0], 1).is_ready());
    unlock(&lock);
}

#[test]
fn miri_who_waits_no_more_is_passed_over_and_freed() {
    let lock = Lock::default();
    assert_eq!(lock.try_lock(), TryLock::Locked);
    let mut waits = [Wait::default(), Wait::default(), Wait::default()];
    for wait in &mut waits {
        assert!(poll(&lock, wait, 1).is_pending());
    }
    lock.withdraw(&mut waits[0]);
    unlock(&lock);
    // Withdrawn after it was granted, before its future has looked.
    lock.withdraw(&mut waits[1]);
    assert!(poll(&lock, &mut waits[2], 1).is_ready());
    unlock(&lock);
    assert_eq!(lock.try_lock(), TryLock::Locked);
    // The lock is dropped while it is locked and a future is still in its line.
    let mut forgotten = pin!(Wait::default());
    assert!(poll(&lock, &mut forgotten, 1).is_pending());
}
