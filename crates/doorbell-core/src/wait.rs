//! A thread that is no lane and waits: for a future ([`block_on`]) or for a call.
//!
//! It has a bell like a lane, but no mailbox: whoever wakes it sets NOTIFY by a
//! read-modify-write, so a wake before, during or after its falling asleep is one and the same.

use crate::bell::{Announced, Bell, Notified};
use doorbell_machine::{Line, Machine, Seat, Watched};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

/// The bell and seat of a waiting thread.
pub struct Waiter<M: Machine> {
    bell: M::Line<Bell<M>>,
    seat: M::Seat,
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
        Waiter {
            bell: M::Line::new(Bell::default),
            seat: M::Seat::new(),
        }
    }
}

impl<M: Machine> Waiter<M> {
    /// Ends the current wait, or the next one if there is none.
    pub fn notify(&self) {
        if self.bell.notify(crate::bell::Kick::Take) == Notified::MustRing {
            self.bell.ring(&self.seat);
        }
    }

    /// Waits until notified: watches until `watch_ns` have passed, then parks. Only one thread
    /// waits at a time.
    pub fn wait(&self, watch_ns: u64) {
        match self.bell.announce_watch() {
            Announced::Yes => self.watch_then_park(watch_ns),
            Announced::Signalled => {}
        }
        let _ = self.bell.end_idle();
    }

    fn watch_then_park(&self, watch_ns: u64) {
        if watch_ns > 0 {
            match M::watch(&self.bell, watch_ns, Bell::signalled) {
                Watched::Changed => return,
                Watched::Deadline => {}
            }
        }
        match self.bell.announce_park() {
            Announced::Yes => {
                let _ = self.bell.park(&self.seat, None);
            }
            Announced::Signalled => {}
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

/// Runs a future on the calling thread until it is ready; between polls the thread watches for
/// `watch_ns`, then parks.
pub fn block_on<M: Machine, F: Future>(future: F, watch_ns: u64) -> F::Output {
    let waiter = Arc::new(Waiter::<M>::default());
    let waker = Waker::from(Arc::clone(&waiter));
    let mut cx = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
            return output;
        }
        waiter.wait(watch_ns);
    }
}
