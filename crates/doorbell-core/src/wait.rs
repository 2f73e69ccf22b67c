//! The waiter: how a thread that is no worker waits for a future ([`block_on`]) or for a call.
//!
//! A waiter has a bell like a worker, but no mailbox. Every wake sets NOTIFY by a read-modify-write, so it
//! makes no difference whether the wake comes before, while or after the thread falls asleep.

use crate::bell::{Announced, Bell, Kick, Notified};
use crate::class::Class;
use crate::wheel::{Clock, Ended};
use doorbell_machine::{Line, Machine, Parker, Spun};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

/// The bell and parker of a waiting thread.
pub struct Waiter<M: Machine> {
    bell: M::Line<Bell<M>>,
    parker: M::Parker,
    /// The paused clock that the thread holds while it does not wait, if there is one.
    clock: Option<Arc<Clock<M>>>,
}

impl<M: Machine> std::fmt::Debug for Waiter<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Waiter")
            .field("bell", &*self.bell)
            .finish_non_exhaustive()
    }
}

impl<M: Machine> Default for Waiter<M> {
    fn default() -> Self {
        // A waking thread has a share of it through a waker, whose count is std's.
        M::counted_by_std(|| Waiter {
            bell: M::Line::new(Bell::default),
            parker: M::Parker::new(),
            clock: None,
        })
    }
}

impl<M: Machine> Waiter<M> {
    /// A waiter that counts as busy for `clock` while it does not wait.
    fn holding(clock: &Arc<Clock<M>>) -> Self {
        let clock = clock.is_frozen().then(|| Arc::clone(clock));
        Waiter {
            clock,
            ..Self::default()
        }
    }

    /// Ends the current wait, or the next one if there is none.
    pub fn notify(&self) {
        // Counts the thread as busy on its behalf, before it is told.
        self.clock.iter().for_each(|clock| clock.begin());
        // The thread counts as a Fair worker: it must not rely on the ring of a Batch worker.
        let notified = self.bell.notify(Kick::Take, Class::Fair.standing::<M>());
        if notified == Notified::MustRing || notified == Notified::MustHelp {
            self.bell.ring(&self.parker);
        }
        if notified != Notified::MustRing {
            self.clock.iter().for_each(|clock| clock.end_busy());
        }
    }

    /// Waits until notified: spins for up to `spin_ns`, then parks. Only one thread may wait at a time.
    pub fn wait(&self, spin_ns: u64) {
        match self.bell.announce_spin() {
            Announced::Yes => self.spin_then_park(spin_ns),
            Announced::Signalled => {}
        }
        let _ = self.bell.end_idle();
    }

    /// As [`Waiter::wait`], at most until `until_ns`. The thread does not spin, and must hold no clock.
    pub(crate) fn wait_until(&self, until_ns: Option<u64>) {
        let announced = self.bell.announce_spin() == Announced::Yes
            && self.bell.announce_park() == Announced::Yes;
        if announced {
            let _ = self.bell.park(&self.parker, until_ns);
        }
        let _ = self.bell.end_idle();
    }

    fn spin_then_park(&self, spin_ns: u64) {
        if spin_ns > 0 {
            match M::spin(&self.bell, spin_ns, Bell::signalled) {
                Spun::Changed => return,
                Spun::Deadline => {}
            }
        }
        match self.bell.announce_park() {
            Announced::Yes => self.park(),
            Announced::Signalled => {}
        }
    }

    fn park(&self) {
        let Some(clock) = &self.clock else {
            let _ = self.bell.park(&self.parker, None);
            return;
        };
        match clock.end_waiter() {
            // The notifier counts it as busy before it wakes it.
            Ended::Yes => {
                let _ = self.bell.park(&self.parker, None);
            }
            // It counts as busy again, and twice if a notifier has counted it meanwhile.
            Ended::Resumed => {
                if self.bell.end_idle().notified {
                    clock.end_busy();
                }
            }
        }
    }
}

impl<M: Machine> Wake for Waiter<M> {
    fn wake(self: Arc<Self>) {
        self.notify();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.notify();
    }
}

/// Runs a future on the calling thread until it is ready. Between polls the thread spins for up to
/// `spin_ns`, then parks.
pub fn block_on<M: Machine, F: Future>(future: F, spin_ns: u64) -> F::Output {
    block_on_with(Waiter::<M>::default(), future, spin_ns)
}

/// As [`block_on`], on a thread that is [inside](Clock::inside) the runtime of `clock`: while the thread
/// waits, a paused clock may go on.
pub fn block_on_inside<M: Machine, F: Future>(
    clock: &Arc<Clock<M>>,
    future: F,
    spin_ns: u64,
) -> F::Output {
    block_on_with(Waiter::holding(clock), future, spin_ns)
}

fn block_on_with<M: Machine, F: Future>(waiter: Waiter<M>, future: F, spin_ns: u64) -> F::Output {
    let waiter = Arc::new(waiter);
    let waker = Waker::from(Arc::clone(&waiter));
    let mut cx = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = M::user(|| future.as_mut().poll(&mut cx)) {
            return output;
        }
        waiter.wait(spin_ns);
    }
}

#[cfg(test)]
mod tests {
    // Tests on real threads, outside of any model.
    #![allow(clippy::disallowed_types, clippy::disallowed_methods)]

    use super::{Waiter, block_on};
    use doorbell_machine::Host;
    use std::future::poll_fn;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::sync::{Arc, Mutex};
    use std::task::{Poll, Waker};

    /// Polls until `wake`, which is given the number of the poll and its waker, says it is done;
    /// returns how many polls that took.
    fn polls(spin_ns: u64, wake: impl Fn(usize, &Waker) -> bool) -> usize {
        let mut polls = 0;
        let future = poll_fn(|cx| {
            polls += 1;
            if wake(polls, cx.waker()) {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        });
        block_on::<Host, _>(future, spin_ns);
        polls
    }

    #[test]
    fn miri_w3_a_wake_during_the_poll_is_kept() {
        for spin_ns in [0, 1_000] {
            // Once or often: one more poll, without a sleep.
            let count = polls(spin_ns, |poll, waker| {
                (0..poll).for_each(|_| waker.wake_by_ref());
                let by_value = waker.clone();
                by_value.wake();
                poll == 5
            });
            assert_eq!(count, 5);
        }
        assert_eq!(polls(0, |_, _| true), 1);
    }

    #[test]
    fn miri_a_wake_from_elsewhere_before_or_while_it_sleeps() {
        let rounds = if cfg!(miri) { 3 } else { 2_000 };
        for round in 0..rounds {
            let woken = Arc::new(AtomicUsize::new(0));
            let count = polls(u64::from(round % 2 == 0) * 500, |poll, waker| {
                if poll == 1 {
                    let (waker, woken) = (waker.clone(), Arc::clone(&woken));
                    std::thread::spawn(move || {
                        woken.store(1, Relaxed);
                        waker.wake();
                    });
                }
                woken.load(Relaxed) == 1
            });
            // W3: the wake brings the flag with it, so the second poll sees it.
            assert!((1..=2).contains(&count), "{count} polls for one wake");
        }
    }

    #[test]
    fn w4_each_notification_ends_one_wait_and_two_are_one() {
        let waiter = Waiter::<Host>::default();
        for spin_ns in [0, 1_000] {
            waiter.notify();
            waiter.wait(spin_ns);
            waiter.notify();
            waiter.notify();
            waiter.wait(spin_ns);
            // Nothing is left of them: the next wait ends by the next notification.
            let told = AtomicUsize::new(0);
            std::thread::scope(|scope| {
                let waiting = scope.spawn(|| {
                    waiter.wait(spin_ns);
                    told.load(Relaxed)
                });
                told.store(1, Relaxed);
                waiter.notify();
                assert_eq!(waiting.join().unwrap(), 1);
            });
        }
    }

    #[test]
    fn a_waker_outlives_its_block_on() {
        let kept = Mutex::new(None);
        polls(0, |_, waker| {
            *kept.lock().unwrap() = Some(waker.clone());
            true
        });
        let waker = kept.into_inner().unwrap().unwrap();
        waker.wake_by_ref();
        waker.wake();
    }

    #[test]
    fn a_block_on_inside_a_block_on() {
        let inner = |waker: &Waker| {
            waker.wake_by_ref();
            block_on::<Host, _>(async { 5 }, 0)
        };
        // The inner one does not eat the outer one's wake.
        let count = polls(0, |poll, waker| inner(waker) == 5 && poll == 3);
        assert_eq!(count, 3);
    }
}
