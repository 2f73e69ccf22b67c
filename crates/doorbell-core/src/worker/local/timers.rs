//! A worker's timers: when the worker must look at its wheel, and the base that an armed timer belongs to.

use super::Local;
use super::timer::Entry;
use crate::link::Node;
use crate::mailbox::Posted;
use crate::scheduler::RemoteRef;
use crate::wheel::{Base, Clock, SharedGate, TakenIn, Wheel, Window};
use doorbell_machine::{Bug, Cell as _, Machine};
use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::Arc;

/// A worker that finds a visitor in its wheel looks again after this time.
pub(in crate::worker) const VISITED_RETRY_NS: u64 = 20_000;

/// A worker's timers. All times are those of its clock; `u64::MAX` stands for never.
#[derive(Debug)]
pub(super) struct OwnTimers<M: Machine> {
    wheel: Wheel<M, RemoteRef<M>>,
    clock: Arc<Clock<M>>,
    /// From when on a look at the wheel may find a timer that is due.
    due_ns: Cell<u64>,
    /// When the worker must wake for a timer, not before `due_ns`.
    wake_ns: Cell<u64>,
    /// The same of its local base alone.
    wake_local_ns: Cell<u64>,
    /// The base for timers that the current task arms.
    base: Cell<Base>,
}

impl<M: Machine> OwnTimers<M> {
    pub(super) fn new(clock: Arc<Clock<M>>, gate: SharedGate<M, RemoteRef<M>>) -> Self {
        OwnTimers {
            wheel: Wheel::new(clock.now_ns(), gate),
            clock,
            due_ns: Cell::new(u64::MAX),
            wake_ns: Cell::new(u64::MAX),
            wake_local_ns: Cell::new(u64::MAX),
            base: Cell::new(Base::Global),
        }
    }
}

impl<M: Machine> Local<M> {
    /// The worker's timer wheel.
    #[inline]
    pub(crate) fn wheel(&self) -> &Wheel<M, RemoteRef<M>> {
        &self.timers.wheel
    }

    /// The clock of the worker's timers.
    #[inline]
    pub fn clock(&self) -> &Clock<M> {
        &self.timers.clock
    }

    /// The base for a timer that is armed now.
    #[inline]
    pub(crate) fn base(&self) -> Base {
        self.timers.base.get()
    }

    pub(in crate::worker) fn set_base(&self, base: Base) {
        self.timers.base.set(base);
    }

    /// Takes in a timer that came by mail. Arms it, or frees it if its handle is gone.
    ///
    /// # Safety
    /// The node's delivery said that it is a timer's, just now on this worker's thread.
    pub(in crate::worker) unsafe fn take_timer(&self, node: NonNull<Node<M>>) {
        let entry: NonNull<Entry<M>> = node.cast();
        // SAFETY: posted by its handle; alive until the worker or the handle frees it.
        let owner = unsafe { &entry.as_ref().owner };
        // SAFETY: `MAILED`, or its handle is gone: no other thread reads it.
        if !owner.with(|owner| self.is(unsafe { &*owner })) {
            // SAFETY: as above.
            owner.with_mut(|owner| unsafe { *owner = self.remote().clone() });
        }
        let tag = Entry::<M>::tag(self.remote.pulse());
        // SAFETY: as above; it is this worker's now.
        match unsafe { self.timers.wheel.take_in(entry, tag) } {
            Some(TakenIn::Hangs { base, window }) => self.note_timer(window, base),
            // SAFETY: its handle is gone, and it hangs nowhere.
            Some(TakenIn::Cancelled) => unsafe { self.timers.wheel.recycle(entry) },
            // A visitor has the wheel for a moment. The second post keeps the worker from going to sleep.
            None => {
                // SAFETY: delivered, so it is in no queue, and this worker's.
                let posted = unsafe { self.remote.post(node) };
                // Only this thread closes the mailbox, and no visitor comes after that.
                assert!(
                    posted == Posted::Yes,
                    "a timer came to a worker that has ended"
                );
            }
        }
    }

    /// Notes that a timer was armed.
    #[inline]
    pub(crate) fn note_timer(&self, window: Window, base: Base) {
        let lower = |noted: &Cell<u64>, ns: u64| {
            if ns < noted.get() {
                noted.set(ns);
            }
        };
        lower(&self.timers.due_ns, window.from_ns);
        lower(&self.timers.wake_ns, window.latest_ns);
        if base == Base::Local {
            lower(&self.timers.wake_local_ns, window.latest_ns);
        }
        // Read anew each time: a visitor may have published a later time.
        if base == Base::Global && window.latest_ns < self.remote().next_global_ns() {
            self.remote().publish_next_global(window.latest_ns);
        }
    }

    /// From when on a look at the wheel may find a timer that is due, if it has timers. A worker that runs tasks looks
    /// then.
    #[inline]
    pub fn due_ns(&self) -> Option<u64> {
        let due_ns = self.timers.due_ns.get();
        (due_ns != u64::MAX).then_some(due_ns)
    }

    /// When a worker that idles must look at its wheel; `u64::MAX` if never.
    #[inline]
    pub(crate) fn wake_ns(&self) -> u64 {
        if M::breaks(Bug::TimerWakesAtDeadline) {
            return self.timers.due_ns.get();
        }
        self.timers.wake_ns.get()
    }

    /// The same, for a timer of its local base.
    #[inline]
    pub(in crate::worker) fn wake_local_ns(&self) -> u64 {
        self.timers.wake_local_ns.get()
    }

    /// Reads again from the wheel when to look, so that timers cancelled since do not count.
    pub(in crate::worker) fn note_next(&self) {
        // No visitor comes while the clock is paused, and this is called only then.
        if let [Some(local), Some(global)] = Base::BOTH.map(|base| self.timers.wheel.next(base)) {
            self.set_next([local, global]);
        }
    }

    fn set_next(&self, [local, global]: [Window; 2]) {
        let both = local.and(global);
        self.timers.due_ns.set(both.from_ns);
        self.timers.wake_ns.set(both.latest_ns);
        self.timers.wake_local_ns.set(local.latest_ns);
    }

    /// Whether a timer needs the worker by now, also if it has nothing else to do.
    #[inline]
    pub(crate) fn needs_a_look(&self) -> bool {
        let wake_ns = self.wake_ns();
        wake_ns != u64::MAX && wake_ns <= self.timers.clock.now_ns()
    }

    /// Fires the timers that are due; returns how many.
    #[inline]
    pub fn expire(&self) -> u64 {
        let due_ns = self.timers.due_ns.get();
        if due_ns == u64::MAX {
            return 0;
        }
        let now_ns = self.timers.clock.now_ns();
        if now_ns < due_ns {
            0
        } else {
            self.expire_at(now_ns)
        }
    }

    #[cold]
    fn expire_at(&self, now_ns: u64) -> u64 {
        let fired = self.bring(|| self.timers.wheel.expire(now_ns));
        match Base::BOTH.map(|base| self.timers.wheel.next(base)) {
            [Some(local), Some(global)] => {
                self.set_next([local, global]);
                if self.remote().next_global_ns() != global.latest_ns {
                    self.remote().publish_next_global(global.latest_ns);
                }
            }
            [local, _] => {
                // A visitor has the global base for a moment. This worker looks again itself, also if it leaves that
                // base to others.
                let again = Window::at(now_ns.saturating_add(VISITED_RETRY_NS));
                let own = local.map_or(again, |local| local.and(again));
                self.set_next([own, Window::NEVER]);
            }
        }
        fired
    }
}
