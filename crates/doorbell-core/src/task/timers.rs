//! A lane's timers as its tasks and its loop see them: when to look, and what base they belong to.

use super::local::Local;
use crate::wheel::{Base, Clock, Wheel};
use doorbell_machine::{Bug, Machine};

/// When a lane whose wheel was lent looks at it again.
const LENT_RETRY_NS: u64 = 20_000;

impl<M: Machine> Local<M> {
    /// Its timers.
    #[inline]
    pub(crate) fn wheel(&self) -> &Wheel<M> {
        &self.wheel
    }

    /// The clock that its timers go by.
    #[inline]
    pub fn clock(&self) -> &Clock<M> {
        &self.clock
    }

    /// Which base a timer that is armed now belongs to.
    #[inline]
    pub(crate) fn base(&self) -> Base {
        self.base.get()
    }

    pub(super) fn set_base(&self, base: Base) {
        self.base.set(base);
    }

    /// Arms here what threads that are no lanes have posted for any lane. Returns how many nodes it took.
    #[inline]
    pub fn take_timers(&self) -> u64 {
        let timers = self.front().crew().timers();
        if timers.is_empty() {
            return 0;
        }
        // SAFETY: this is the thread of the lane, whose ready queue that is.
        unsafe { timers.take_shared().deliver(self.ready()) }
    }

    /// Notes that a timer was armed for this time.
    #[inline]
    pub(crate) fn note_timer(&self, when_ns: u64, base: Base) {
        if when_ns < self.due_ns.get() {
            self.due_ns.set(when_ns);
        }
        // Asked anew each time: a visitor may have published a later one.
        if base == Base::Global && when_ns < self.front().next_global_ns() {
            // Nobody looks after timers of a clock that stands still.
            if self.front().crew().looks_after_stuck() && !self.clock.is_frozen() {
                self.have_watched(when_ns);
            } else {
                self.front().publish_next_global(when_ns);
            }
        }
    }

    /// Makes a timer known to those who look after lanes that are stuck, and wakes one who would
    /// look too late.
    fn have_watched(&self, when_ns: u64) {
        let (front, crew) = (self.front(), self.front().crew());
        if let Some(dog) = crew.watchdog() {
            if M::BUG.is(Bug::WatchdogTimerUntold) {
                front.publish_next_global(when_ns);
            } else {
                front.announce_next_global(when_ns);
                M::fence_recheck();
            }
            // Also while it idles: nobody asks the watchdog when it begins to run.
            return dog.arm_for(when_ns);
        }
        self.list();
        front.announce_next_global(when_ns);
        M::fence_recheck();
        // One that idles asks for it when it has something to run.
        if front.is_inside() {
            crew.watch_over_by(front.lane(), when_ns);
        }
    }

    /// When the wheel has to be looked at, if ever.
    #[inline]
    pub fn due_ns(&self) -> Option<u64> {
        let due_ns = self.due_ns.get();
        (due_ns != u64::MAX).then_some(due_ns)
    }

    /// As [`Local::due_ns`], by a look at the wheel: without the times of timers that were cancelled
    /// on this lane since.
    pub(crate) fn look_due_ns(&self) -> Option<u64> {
        // No visitor comes while the clock stands, and that is when this is asked.
        if let Some([local_ns, global_ns]) = self.wheel.next_ns() {
            // A look comes before its timers are due where they are many: it is a time of its own.
            self.due_ns.set(local_ns.min(global_ns));
        }
        self.due_ns()
    }

    /// Whether a timer is due now.
    #[inline]
    pub fn is_due(&self) -> bool {
        self.due_ns()
            .is_some_and(|due_ns| due_ns <= self.clock.now_ns())
    }

    /// Fires the timers that are due; returns how many.
    #[inline]
    pub fn expire(&self) -> u64 {
        let due_ns = self.due_ns.get();
        if due_ns == u64::MAX {
            return 0;
        }
        let now_ns = self.clock.now_ns();
        if now_ns < due_ns {
            0
        } else {
            self.expire_at(now_ns)
        }
    }

    #[cold]
    fn expire_at(&self, now_ns: u64) -> u64 {
        // Before the wakers run: what they arm is noted on top of it.
        self.due_ns.set(u64::MAX);
        let fired = self.bring(|| self.wheel.expire(now_ns));
        match self.wheel.next_ns() {
            Some([local_ns, global_ns]) => {
                self.due_ns.set(local_ns.min(global_ns));
                if self.front().next_global_ns() != global_ns {
                    self.front().publish_next_global(global_ns);
                }
            }
            // A visitor is about it, for a moment.
            None => self.due_ns.set(now_ns.saturating_add(LENT_RETRY_NS)),
        }
        fired
    }
}
