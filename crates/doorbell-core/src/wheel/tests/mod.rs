//! Tests of the wheel on the host, one worker side on the test's thread and a clock that stands
//! still: nothing depends on real time.

// Wakers that count, and threads that drop handles.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

mod handles;
mod model;
mod orders;
mod wakers;
mod windows;

use super::{Clock, Window};
use crate::mailbox::Gone;
use crate::scheduler::RemoteRef;
use crate::worker::Local;
use crate::worker::timer::{Fired, Polled, RawTimer};
use doorbell_machine::Host;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Wake, Waker};

/// A waker that counts.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wakes {
    fn get(&self) -> usize {
        self.0.load(Relaxed)
    }
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// A handle, and how often its waker was woken.
struct Timer {
    raw: RawTimer,
    wakes: Arc<Wakes>,
}

/// One function makes the wakers, never inlined: two could give them different tables, and then equal wakers differ.
#[inline(never)]
fn waker_of(wakes: &Arc<Wakes>) -> Waker {
    Waker::from(Arc::clone(wakes))
}

impl Timer {
    fn waker(&self) -> Waker {
        waker_of(&self.wakes)
    }

    fn poll(&mut self) -> Polled {
        let waker = self.waker();
        self.raw.poll(&mut Context::from_waker(&waker))
    }

    /// Polls it, which must find it as the wakes say.
    #[track_caller]
    fn check(&mut self, due: bool) {
        let expected = if due {
            Polled::Ready(Fired::Due)
        } else {
            Polled::Pending
        };
        assert_eq!(self.poll(), expected);
        assert_eq!(self.wakes.get(), usize::from(due));
    }

    /// Drops the handle on another thread, which is no worker.
    fn drop_elsewhere(self) {
        elsewhere(move || drop(self.raw));
    }
}

fn elsewhere<R: Send>(f: impl FnOnce() -> R + Send) -> R {
    std::thread::scope(|scope| scope.spawn(f).join().unwrap())
}

/// A worker without a loop.
struct Rig {
    local: Local<Host>,
    clock: Arc<Clock<Host>>,
}

impl Rig {
    fn new() -> Rig {
        let clock = Arc::new(Clock::frozen());
        let remote = RemoteRef::alone(&Arc::default());
        let local = Local::with_clock(remote, Arc::clone(&clock));
        Rig { local, clock }
    }

    /// A worker whose time is one nanosecond before a new slot of the second level begins.
    fn at_edge() -> Rig {
        let rig = Rig::new();
        rig.clock.advance_to(rig.now() | 4_095);
        // Armed and fired, so that the wheel knows the time.
        let mut timer = rig.arm(0);
        assert_eq!(rig.expire(), 1);
        timer.check(true);
        rig.enter(|| drop(timer));
        rig
    }

    fn now(&self) -> u64 {
        self.clock.now_ns()
    }

    fn remote(&self) -> &RemoteRef<Host> {
        self.local.remote()
    }

    fn enter<R>(&self, f: impl FnOnce() -> R) -> R {
        self.local.enter(f)
    }

    /// Arms a timer on the worker.
    fn arm(&self, window: impl Into<Window>) -> Timer {
        self.enter(|| arm(self.remote(), window)).unwrap()
    }

    fn arm_each(&self, times: impl IntoIterator<Item = u64>) -> Vec<Timer> {
        times.into_iter().map(|when_ns| self.arm(when_ns)).collect()
    }

    /// Arms a timer from another thread; the worker has yet to serve.
    fn mail(&self, window: impl Into<Window> + Send) -> Timer {
        let remote = self.remote();
        elsewhere(|| arm(remote, window)).unwrap()
    }

    fn expire(&self) -> u64 {
        self.enter(|| self.local.expire())
    }

    fn expire_at(&self, when_ns: u64) -> u64 {
        self.clock.advance_to(when_ns);
        self.expire()
    }

    /// Takes the mailbox and the scheduler's timers; returns how many nodes there were.
    fn serve(&self) -> u64 {
        self.enter(|| {
            // SAFETY: this thread is the worker, and the ready queue is its own.
            let served = unsafe { self.remote().serve(&self.local) };
            served.delivered + self.local.take_common()
        })
    }

    fn close(&self) {
        self.enter(|| self.local.close());
    }

    fn pending(&self) -> usize {
        self.local.wheel().len()
    }

    /// How many entries are allocated: each shares the remote half, as does the worker.
    fn entries(&self) -> usize {
        (self.remote().shares() - self.local.stock().len()) as usize - 1
    }
}

fn arm(remote: &RemoteRef<Host>, window: impl Into<Window>) -> Result<Timer, Gone> {
    let wakes = Arc::new(Wakes::default());
    let waker = waker_of(&wakes);
    RawTimer::arm(remote, window, &waker).map(|raw| Timer { raw, wakes })
}
