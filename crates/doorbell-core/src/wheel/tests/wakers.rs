//! Wakers that come back to the wheel, and wakers that panic.

use super::{Rig, Timer, arm};
use crate::worker::Local;
use crate::worker::timer::{RawTimer, Reset};
use doorbell_machine::Host;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};

/// Calls a closure once: when woken, or else when dropped.
struct Once<F: FnOnce() + Send + 'static>(Mutex<Option<F>>);

impl<F: FnOnce() + Send + 'static> Once<F> {
    fn waker(f: F) -> Waker {
        Waker::from(Arc::new(Once(Mutex::new(Some(f)))))
    }

    fn call(&self) {
        let f = self.0.lock().unwrap().take();
        if let Some(f) = f {
            f();
        }
    }
}

impl<F: FnOnce() + Send + 'static> Wake for Once<F> {
    fn wake(self: Arc<Self>) {
        self.call();
    }
}

impl<F: FnOnce() + Send + 'static> Drop for Once<F> {
    fn drop(&mut self) {
        self.call();
    }
}

fn arm_with(rig: &Rig, when_ns: u64, f: impl FnOnce() + Send + 'static) -> RawTimer {
    let waker = Once::waker(f);
    rig.enter(|| RawTimer::arm(rig.remote(), when_ns, &waker))
        .unwrap()
}

/// Handles that a waker may have.
type Shared = Arc<Mutex<Vec<Timer>>>;

/// Drops, re-arms and arms timers of the wheel, on its worker.
fn meddle(rig: &Rig, timers: &Shared) -> impl FnOnce() + Send + 'static {
    let (remote, timers, now_ns) = (rig.remote().clone(), Arc::clone(timers), rig.now());
    move || {
        let taken = std::mem::take(&mut *timers.lock().unwrap());
        for (i, mut timer) in taken.into_iter().enumerate() {
            if i % 2 == 0 {
                drop(timer);
            } else {
                let fired = timer.wakes.get() > 0;
                let reset = timer.raw.reset(now_ns);
                let closed = Local::<Host>::with_current(|local| local.unwrap().is_closed());
                assert_eq!(reset == Reset::Elsewhere, fired || closed);
                timers.lock().unwrap().push(timer);
            }
        }
        // In the past, now, and later.
        for when_ns in [0, now_ns, now_ns + 1, now_ns + 1_000] {
            if let Ok(timer) = arm(&remote, when_ns) {
                timers.lock().unwrap().push(timer);
            }
        }
    }
}

#[test]
fn miri_t17_a_waker_arms_resets_and_cancels_timers_of_its_wheel() {
    for place in 0..=6 {
        let rig = Rig::at_edge();
        let timers = Shared::default();
        let mut meddler = None;
        for i in 0..6 {
            // All due at once, the meddler among them; some far away.
            if i == place {
                meddler = Some(arm_with(&rig, rig.now(), meddle(&rig, &timers)));
            }
            let when_ns = rig.now() + if i < 4 { 0 } else { 10_000 };
            timers.lock().unwrap().push(rig.arm(when_ns));
        }
        let meddler = meddler.unwrap_or_else(|| arm_with(&rig, rig.now(), meddle(&rig, &timers)));
        let fired = rig.expire();
        assert!(
            (1..=5).contains(&fired),
            "{fired}: what it armed waits for the next look"
        );
        // What it armed or reset for now is due at the next look, at the same time.
        assert_eq!(rig.local.due_ns(), Some(rig.now()));
        assert!(rig.expire() >= 2);
        assert_eq!(rig.expire(), 0);
        rig.expire_at(rig.now() + 20_000);
        assert_eq!(rig.pending(), 0);
        rig.enter(|| {
            for timer in timers.lock().unwrap().iter_mut() {
                timer.check_fired();
            }
            timers.lock().unwrap().clear();
            drop(meddler);
        });
        rig.close();
        // The closure that was called is gone with its share of the remote half.
        assert_eq!(rig.entries(), 0);
    }
}

impl Timer {
    /// Fired once, or twice where it was reset in between.
    fn check_fired(&mut self) {
        assert!(matches!(
            self.poll(),
            crate::worker::timer::Polled::Ready(_)
        ));
        assert_eq!(self.wakes.get(), 1);
    }
}

#[test]
fn miri_t17_the_drop_of_a_waker_comes_back() {
    // Where the waker is dropped: with its handle on the worker or elsewhere, or with the worker.
    for how in 0..5 {
        let rig = Rig::at_edge();
        let timers = Shared::default();
        for i in 0..6 {
            timers.lock().unwrap().push(rig.arm(rig.now() + i));
        }
        let timer = arm_with(&rig, rig.now() + 3, meddle(&rig, &timers));
        match how {
            0 => rig.enter(|| drop(timer)),
            1..=3 => {
                super::elsewhere(|| drop(timer));
                match how {
                    1 => assert_eq!(rig.serve(), 1),
                    2 => assert!(rig.expire_at(rig.now() + 3) >= 3),
                    _ => {}
                }
            }
            _ => {
                rig.enter(|| {
                    let mut timer = timer;
                    let mut cx = std::task::Context::from_waker(Waker::noop());
                    assert_eq!(timer.poll(&mut cx), crate::worker::timer::Polled::Pending);
                });
            }
        }
        if how != 3 {
            assert!(timers.lock().unwrap().len() > 4, "it came back");
        }
        rig.close();
        assert_eq!(rig.pending(), 0);
        timers.lock().unwrap().clear();
        assert_eq!(rig.entries(), 0);
    }
}

#[test]
fn a_waker_that_expires_the_wheel_it_is_woken_by() {
    let rig = Rig::at_edge();
    let seen = Arc::new(AtomicUsize::new(0));
    let (remote, told) = (rig.remote().clone(), Arc::clone(&seen));
    let outer = arm_with(&rig, 0, move || {
        let mut inner = arm(&remote, 0).unwrap();
        let fired = Local::<Host>::with_current(|local| local.unwrap().expire());
        told.store(fired as usize, Relaxed);
        inner.check(true);
    });
    let others = [rig.arm(0), rig.arm(0)];
    let fired = rig.expire();
    assert_eq!(fired + seen.load(Relaxed) as u64, 4);
    assert_eq!((rig.expire(), rig.pending()), (0, 0));
    for mut timer in others {
        timer.check(true);
    }
    drop(outer);
}

/// Panics when it is dropped.
struct PanicsInDrop;

impl Drop for PanicsInDrop {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "a waker's drop panics (meant)");
    }
}

impl Wake for PanicsInDrop {
    fn wake(self: Arc<Self>) {}
}

#[test]
fn miri_a_waker_that_panics_does_no_harm_to_the_others() {
    let rig = Rig::at_edge();
    let mut others = Vec::new();
    let mut bad = Vec::new();
    for _ in 0..3 {
        others.push(rig.arm(rig.now()));
        bad.push(arm_with(&rig, rig.now(), || {
            panic!("a wake panics (meant)")
        }));
        bad.push(arm_with(&rig, rig.now(), || {
            std::panic::panic_any(PanicsInDrop)
        }));
    }
    assert_eq!(rig.expire(), 9);
    for timer in &mut others {
        timer.check(true);
    }
    rig.enter(|| drop((others, bad)));
    rig.close();
    assert_eq!(rig.entries(), 0);
}

#[test]
fn miri_a_waker_whose_drop_panics_does_no_harm_to_the_worker() {
    let rig = Rig::at_edge();
    // The timer's share of the waker is the last one.
    let arm_bad = || {
        let waker = Waker::from(Arc::new(PanicsInDrop));
        rig.enter(|| RawTimer::arm(rig.remote(), rig.now() + 10, &waker))
            .unwrap()
    };
    let mut bad: Vec<RawTimer> = (0..6).map(|_| arm_bad()).collect();
    // On the worker; elsewhere and served; elsewhere and due; woken; with the worker.
    rig.enter(|| drop(bad.pop()));
    let other = bad.pop();
    super::elsewhere(|| drop(other));
    assert_eq!(rig.serve(), 1);
    let other = bad.pop();
    super::elsewhere(|| drop(other));
    assert_eq!(rig.expire_at(rig.now() + 10), 3);
    assert_eq!(rig.serve(), 1);
    rig.enter(|| drop(bad));
    let (other, orphan) = (arm_bad(), arm_bad());
    super::elsewhere(|| drop(other));
    rig.close();
    drop(orphan);
    assert_eq!(rig.entries(), 0);
}
