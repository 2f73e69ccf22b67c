//! The timed check: what a parked worker does for timers of others that are due later than a watchdog's next
//! look. It sleeps until they are due, looks then, and is no watchdog meanwhile. A worker that arms an earlier
//! timer wakes a watchdog before its next poll. See README.md in this folder.

use super::{WATCHDOG_MAX_NS, Worker};
use doorbell_machine::{Counter, Machine};

/// When a worker that parks looks at the others again.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextCheck {
    /// At that time, if at all, and as no watchdog.
    At(Option<u64>),
    /// After that many nanoseconds, as a watchdog, unless there are enough watchdogs.
    Soon(u64),
}

impl<M: Machine> Worker<M> {
    /// Nothing has to be looked after soon. Gives up being the watchdog, and sees to what is due
    /// after `far_ns`, unless another worker does.
    pub(super) fn rely_until(&self, now_ns: u64, far_ns: Option<u64>) -> NextCheck {
        let Some(far_ns) = far_ns else {
            self.end_watchdog();
            return NextCheck::At(None);
        };
        let looks_ns = now_ns.saturating_add(far_ns);
        let armed = self.shared.remote().scheduler().armed();
        if !self.relies.get() && !armed.is_unattended(looks_ns) {
            self.end_watchdog();
            return NextCheck::At(None);
        }
        self.resign();
        self.relies.set(true);
        armed.rely_until(looks_ns);
        // Behind the fence of `rely_until`: sees what was armed or pushed before others could see the timed check.
        match self.wish_ns(now_ns) {
            // Whoever becomes the watchdog, the caller first says that nobody relies.
            Some(after_ns) if after_ns <= WATCHDOG_MAX_NS => NextCheck::Soon(after_ns),
            after_ns => {
                let again_ns = after_ns.map_or(looks_ns, |ns| now_ns.saturating_add(ns));
                NextCheck::At(Some(again_ns.min(looks_ns)))
            }
        }
    }

    /// The worker has something to run: it stops being a watchdog, gives up its timed check, and wakes another worker
    /// for what was left to it. (A watchdog that woke only to look stays one.)
    pub(super) fn end_watchdog(&self) {
        let relied = self.relies.replace(false);
        let remote = self.shared.remote();
        if !relied && !remote.is_watchdog() {
            return;
        }
        if relied {
            remote.scheduler().armed().end_to_rely();
        }
        self.resign();
        M::fence_announce();
        self.leave_spin();
    }

    /// Wakes a watchdog, if there is a reason for one and no timed check comes early enough. Behind a fence.
    pub(super) fn leave_spin(&self) {
        let (remote, now_ns) = (self.shared.remote(), M::now_ns());
        let (scheduler, wish_ns) = (remote.scheduler(), self.wish_ns(now_ns));
        let is_wanted = wish_ns.is_some_and(|after_ns| {
            after_ns <= WATCHDOG_MAX_NS
                || scheduler
                    .armed()
                    .is_unattended(now_ns.saturating_add(after_ns))
        });
        if is_wanted {
            scheduler.arm_watchdog(remote.worker());
        }
    }

    /// Stops being a watchdog, if it is one.
    fn resign(&self) {
        let remote = self.shared.remote();
        if remote.is_watchdog() {
            // Counted before another worker can be one in its place.
            self.shared.tally.watchdogs_ended.add_owned(1);
            remote.set_watchdog(false);
            remote.scheduler().idle().end_watchdog();
        }
    }
}
