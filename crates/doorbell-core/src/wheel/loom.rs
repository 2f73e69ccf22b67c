//! The wheel in the model checker: a handle on one thread, its worker on another.
//!
//! The worker is the main thread of each model; it serves, looks and ends as the loop would. An
//! entry shares the remote half, so the remote half's count says how many entries are allocated. A counter
//! of wakes is no word of the model: it is compared where the model orders things by itself.

// The models' own threads, and counters that the checker is not to see.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use crate::scheduler::{RemoteRef, Scheduler};
use crate::testing::Wakes;
use crate::testing::model::{check_large, mutant};
use crate::worker::Local;
use crate::worker::timer::{Fired, Polled, RawTimer};
use ::loom::sync::atomic::AtomicBool;
use doorbell_machine::loom::Loom;
use doorbell_machine::{Bug, Ordering};
use std::sync::Arc;
use std::task::{Context, Waker};

/// When the timers of the models are due: always.
const DUE_NS: u64 = 0;

struct Worker {
    local: Local<Loom>,
    remote: RemoteRef<Loom>,
}

impl Worker {
    fn new() -> Self {
        let remote = RemoteRef::alone(&Arc::default());
        let local = Local::new(remote.clone());
        Worker { local, remote }
    }

    fn arm(&self) -> (RawTimer, Arc<Wakes>) {
        self.local.enter(|| arm(&self.remote))
    }

    fn serve(&self) -> u64 {
        self.local.enter(|| {
            // SAFETY: this is the worker's thread, and the ready queue its own.
            let served = unsafe { self.remote.serve(&self.local) };
            served.delivered + self.local.take_common()
        })
    }

    fn expire(&self) -> u64 {
        self.local.enter(|| self.local.expire())
    }

    fn close(&self) {
        self.local.enter(|| self.local.close());
        assert_eq!(self.local.wheel().len(), 0);
    }

    /// How many entries are allocated, while no other thread has a share of the remote half.
    fn entries(&self) -> usize {
        (self.remote.shares() - self.local.stock().len()) as usize - 2
    }
}

fn arm(remote: &RemoteRef<Loom>) -> (RawTimer, Arc<Wakes>) {
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    let timer = RawTimer::arm(remote, DUE_NS, &waker).expect("the worker runs");
    (timer, wakes)
}

/// Polls it, and would wake nobody.
fn look(timer: &mut RawTimer) -> Polled {
    timer.poll(&mut Context::from_waker(Waker::noop()))
}

fn check(model: impl Fn() + Send + Sync + 'static) {
    // Small enough for every order, without a bound on preemptions.
    let mut builder = ::loom::model::Builder::new();
    builder.preemption_bound = None;
    builder.check(model);
}

/// The handle is dropped elsewhere while the worker finds its timer due.
fn cancel_against_expire() {
    check(|| {
        let worker = Worker::new();
        let (timer, wakes) = worker.arm();
        let gone = Arc::new(AtomicBool::new(false));
        let dropper = ::loom::thread::spawn({
            let gone = Arc::clone(&gone);
            move || {
                drop(timer);
                // ORDER: Release pairs with the load below.
                gone.store(true, Ordering::Release);
            }
        });
        // ORDER: Acquire pairs with the store above.
        let was_gone = gone.load(Ordering::Acquire);
        let fired = worker.expire();
        assert_eq!(wakes.get(), fired);
        assert!(fired <= u64::from(!was_gone), "woken after the drop");
        dropper.join().unwrap();
        // One side frees it: the handle what had fired, the worker what had not.
        assert_eq!(
            worker.entries(),
            1 - fired as usize,
            "freed by another side"
        );
        assert_eq!(worker.serve(), 1 - fired);
        assert_eq!(worker.expire(), 0);
        worker.close();
        assert_eq!((worker.entries(), wakes.get()), (0, fired));
    });
}

#[test]
fn a_cancel_and_an_expiry_free_once_and_wake_at_most_once() {
    cancel_against_expire();
}

/// The handle was dropped elsewhere before the worker looks; its message may be under way.
fn cancel_before_expire() {
    let worker = Worker::new();
    let (timer, wakes) = worker.arm();
    let dropper = ::loom::thread::spawn(move || drop(timer));
    dropper.join().unwrap();
    assert_eq!(worker.expire(), 0, "fired after its drop");
    assert_eq!((worker.serve(), wakes.get()), (1, 0));
    worker.close();
    assert_eq!(worker.entries(), 0);
}

#[test]
fn a_cancelled_timer_does_not_fire() {
    check(cancel_before_expire);
}

#[test]
#[should_panic(expected = "freed by another side")]
fn a_worker_that_fires_blindly_is_noticed_in_the_race() {
    doorbell_machine::loom::break_thread(Bug::WheelFireBlind);
    cancel_against_expire();
}

#[test]
fn mutant_fire_blind() {
    mutant!(WheelFireBlind, cancel_before_expire);
}

#[test]
fn a_handle_that_is_polled_elsewhere_sees_what_came_before_the_wake() {
    check(|| {
        let worker = Worker::new();
        let (mut timer, wakes) = worker.arm();
        let before = Arc::new(AtomicBool::new(false));
        let other = ::loom::thread::spawn({
            let before = Arc::clone(&before);
            move || {
                let mut cx = Context::from_waker(Waker::noop());
                let polled = timer.poll(&mut cx);
                if polled == Polled::Ready(Fired::Due) {
                    // ORDER: Relaxed; the state word of the timer is to order the two.
                    assert!(before.load(Ordering::Relaxed), "fired, and not seen");
                }
                // When it has fired, the entry is the handle's to free, here.
                drop(timer);
                polled
            }
        });
        // ORDER: Relaxed, as above.
        before.store(true, Ordering::Relaxed);
        let fired = worker.expire();
        match other.join().unwrap() {
            Polled::Ready(Fired::Due) => assert_eq!(fired, 1),
            Polled::Elsewhere => {}
            polled => panic!("{polled:?}"),
        }
        assert_eq!(wakes.get(), fired);
        let _ = worker.serve();
        worker.close();
        assert_eq!(worker.entries(), 0);
    });
}

/// The task that waits is woken, also if the worker fires the timer or ends at the same moment.
fn roused_against(then: impl Fn(&Worker) + Send + Sync + 'static) {
    check(move || {
        let worker = Worker::new();
        let (timer, wakes) = worker.arm();
        let handle = ::loom::thread::spawn(move || timer.rouse());
        then(&worker);
        handle.join().unwrap();
        worker.serve();
        worker.close();
        assert_eq!(wakes.get(), 1, "woken once");
        assert_eq!(Arc::strong_count(&wakes), 1, "a waker was leaked");
    });
}

#[test]
fn t19_a_roused_timer_wakes_once_beside_an_expiry() {
    roused_against(|worker| {
        worker.serve();
        worker.expire();
    });
}

#[test]
fn t19_a_roused_timer_wakes_once_beside_the_end_of_its_worker() {
    roused_against(Worker::close);
}

#[test]
fn a_mailed_arm_against_its_drop_and_its_delivery() {
    check(|| {
        let worker = Worker::new();
        let other = ::loom::thread::spawn({
            let remote = worker.remote.clone();
            move || {
                let (mut timer, wakes) = arm(&remote);
                let _ = look(&mut timer);
                drop(timer);
                wakes
            }
        });
        // Armed, cancelled, or not yet there; then due.
        let mut delivered = worker.serve();
        let mut fired = worker.expire();
        let wakes = other.join().unwrap();
        assert_eq!(wakes.get(), fired);
        delivered += worker.serve();
        fired += worker.expire();
        assert_eq!(wakes.get(), fired);
        // Once for the arming, and once more if it was cancelled while armed.
        assert!((1..=2).contains(&delivered));
        assert!(fired <= 1);
        worker.close();
        assert_eq!((worker.entries(), wakes.get()), (0, fired));
        assert_eq!(Arc::strong_count(&wakes), 1, "a waker is left");
    });
}

/// A timer that is mailed to a scheduler is taken by one worker and polled on the other: whose it is now is known to
/// who sees that it is armed.
fn taken_against_a_poll_elsewhere() {
    let remotes = Scheduler::<Loom>::new(2, &Arc::default(), |_, _| 0);
    let remote = remotes[0].clone();
    let polls = ::loom::thread::spawn(move || {
        let (mut timer, wakes) = arm(&remote);
        let local = Local::new(remote);
        let _ = local.enter(|| look(&mut timer));
        drop(timer);
        local.enter(|| local.close());
        wakes
    });
    let local = Local::new(remotes[1].clone());
    let mut taken = local.enter(|| local.take_common());
    let wakes = polls.join().unwrap();
    local.enter(|| {
        taken += local.take_common();
        // SAFETY: this is the worker's thread, and the ready queue its own.
        taken += unsafe { remotes[1].serve(&local) }.delivered;
        assert_eq!(local.expire(), 0, "fired after its drop");
        local.close();
    });
    assert!(taken <= 2);
    assert_eq!((wakes.get(), Arc::strong_count(&wakes)), (0, 1));
}

#[test]
fn a_mailed_timer_that_one_worker_takes_is_polled_on_the_other() {
    check_large(taken_against_a_poll_elsewhere);
}

#[test]
fn a_mailed_timer_that_is_kept_fires_once() {
    check(|| {
        let worker = Worker::new();
        let other = ::loom::thread::spawn({
            let remote = worker.remote.clone();
            move || arm(&remote)
        });
        let mut fired = worker.serve() * worker.expire();
        let (mut timer, wakes) = other.join().unwrap();
        let _ = worker.serve();
        fired += worker.expire();
        assert_eq!((fired, wakes.get()), (1, 1));
        let mut cx = Context::from_waker(Waker::noop());
        assert_eq!(timer.poll(&mut cx), Polled::Ready(Fired::Due));
        drop(timer);
        assert_eq!(worker.entries(), 0);
        worker.close();
    });
}

#[test]
fn a_drop_elsewhere_against_the_end_of_the_worker() {
    check(|| {
        let worker = Worker::new();
        let (timer, wakes) = worker.arm();
        let dropper = ::loom::thread::spawn(move || drop(timer));
        worker.close();
        dropper.join().unwrap();
        // Whoever came second has freed it.
        assert_eq!(worker.entries(), 0);
        assert!(wakes.get() <= 1);
        assert_eq!(Arc::strong_count(&wakes), 1, "a waker is left");
    });
}

#[test]
fn a_drop_elsewhere_against_an_expiry_and_the_end_of_the_worker() {
    check(|| {
        let worker = Worker::new();
        let (mut timer, wakes) = worker.arm();
        let dropper = ::loom::thread::spawn(move || {
            let _ = look(&mut timer);
            drop(timer);
        });
        let fired = worker.expire();
        worker.close();
        dropper.join().unwrap();
        assert_eq!((worker.entries(), wakes.get()), (0, fired));
        assert_eq!(Arc::strong_count(&wakes), 1, "a waker is left");
    });
}

#[test]
fn a_mailed_arm_against_the_end_of_the_worker() {
    check(|| {
        let worker = Worker::new();
        let other = ::loom::thread::spawn({
            let remote = worker.remote.clone();
            move || {
                let wakes = Arc::new(Wakes::default());
                let waker = Waker::from(Arc::clone(&wakes));
                let armed = RawTimer::arm(&remote, DUE_NS, &waker).is_ok_and(|timer| {
                    drop(timer);
                    true
                });
                (armed, wakes)
            }
        });
        worker.close();
        let (armed, wakes) = other.join().unwrap();
        assert!(wakes.get() <= u64::from(armed));
        assert_eq!(worker.entries(), 0);
    });
}

/// Another thread takes part in an entry that is used again: the second timer of the same
/// memory is not the first one's.
#[test]
fn an_entry_that_is_used_again_is_another_timer() {
    check(|| {
        let worker = Worker::new();
        let (first, first_wakes) = worker.arm();
        let dropper = ::loom::thread::spawn(move || drop(first));
        let _ = worker.serve();
        let (second, second_wakes) = worker.arm();
        let fired = worker.expire();
        dropper.join().unwrap();
        assert_eq!(second_wakes.get(), 1);
        assert_eq!(first_wakes.get(), fired - 1);
        let _ = worker.serve();
        worker.local.enter(|| drop(second));
        assert!(worker.entries() <= 2);
        worker.close();
        assert_eq!(worker.entries(), 0);
    });
}
