//! When a parked worker looks at the others again: as a watchdog, soon and repeatedly, or once, when a timer is overdue.
//!
//! Who asks for a watchdog, what a look finds (`search.rs`) and does (`stuck.rs`): see README.md in this folder.

use super::Worker;
use crate::bell::Look;
use crate::scheduler::idle::{Declined, LOOKS_EVERY_NS, Searching, Watchdog};
use doorbell_machine::{Bug, Counter, Machine, Mark};

/// The shortest interval of a watchdog's looks, and the interval while a task waits behind a poll. After a look that
/// finds no reason the interval doubles, up to [`LOOKS_EVERY_NS`].
pub(super) const WATCHDOG_MIN_NS: u64 = 250_000;

/// A watchdog stays one for this long after a task waited behind a poll, so that the worker that pushes the next one need
/// not wake it.
pub(super) const WATCHDOG_STAYS_NS: u64 = 10_000_000;

impl<M: Machine> Worker<M> {
    /// When a worker that parks looks at the others again; `None` if it need not. It becomes a watchdog if a watchdog was
    /// asked for or is [wished for](Worker::wish_ns), unless enough workers are watchdogs. It stays one for
    /// [`WATCHDOG_STAYS_NS`]. For a timer that is due later it only looks then, once.
    pub(super) fn watchdog_until_ns(&self) -> Option<u64> {
        if !self.has_others() {
            // A worker that was taken off leaves this to another.
            self.end_watchdog();
            return None;
        }
        self.owes_look.set(false);
        self.looks_later.set(false);
        let remote = self.shared.remote();
        let idle = remote.scheduler().idle();
        let now_ns = M::now_ns();
        let seen_ns = self.wish_ns(now_ns);
        let wants = idle.wants_watchdog();
        let mut wish_ns = if wants {
            Some(WATCHDOG_MIN_NS)
        } else {
            seen_ns
        };
        let is_soon = |wish_ns: &Option<u64>| wish_ns.is_some_and(|it| it <= LOOKS_EVERY_NS);
        let is_over = wish_ns.is_some() || now_ns >= self.watchdog_end_ns.get();
        if !is_soon(&wish_ns) && is_over {
            if self.resign() {
                // Either this worker sees what was pushed, or the one that pushed it sees that a watchdog is missing.
                M::fence_announce();
                wish_ns = self.wish_ns(now_ns);
            }
            if !is_soon(&wish_ns) {
                self.looks_later.set(wish_ns.is_some());
                return wish_ns.map(|after_ns| now_ns.saturating_add(after_ns));
            }
        }
        let waits = seen_ns.is_none_or(|seen_ns| seen_ns == WATCHDOG_MIN_NS);
        if is_soon(&wish_ns) && waits {
            // In a model such a sleep ends at once; more sleeps in which nothing comes would show nothing.
            let stays_ns = if M::MODEL { 1 } else { WATCHDOG_STAYS_NS };
            self.watchdog_end_ns.set(now_ns.saturating_add(stays_ns));
        }
        if !remote.is_watchdog() {
            if idle.begin_watchdog() == Watchdog::Taken {
                return None;
            }
            self.searchers.forget();
            remote.set_watchdog(true);
            self.shared.tally.watchdogs.add_owned(1);
        }
        let longer_ns = (2 * self.watchdog_ns.get()).min(LOOKS_EVERY_NS);
        let after_ns = wish_ns.unwrap_or(longer_ns);
        self.watchdog_ns.set(after_ns);
        Some(now_ns.saturating_add(after_ns))
    }

    /// After how long a watchdog should look again, because workers inside a poll have a task waiting, or, if that poll is
    /// long as far as is known, timers or descriptors; `None` if there is no such worker.
    pub(super) fn wish_ns(&self, now_ns: u64) -> Option<u64> {
        self.look_at_list();
        let inside = self.listed().filter(|other| other.is_inside());
        let wish_ns = inside.filter_map(|other| {
            if other.has_work() {
                return Some(WATCHDOG_MIN_NS);
            }
            if !self.is_in_long_poll(other, now_ns) {
                return None;
            }
            let blind = self.is_blind(other).then_some(LOOKS_EVERY_NS);
            [blind, self.overdue_in_ns(other, now_ns)]
                .into_iter()
                .flatten()
                .min()
        });
        wish_ns.min()
    }

    /// Ends the search of each worker that has been counted as searching since this watchdog's last look, at least
    /// [`WATCHDOG_MIN_NS`] ago: that worker seems to get no CPU. If it was the last to search, wakers that relied on
    /// it woke no worker, so the watchdog scans the others after this. If it takes something, it stops being a
    /// watchdog, and wakes another worker for the rest.
    pub(super) fn end_lapsed_searches(&self) {
        let now_ns = M::now_ns();
        if now_ns.saturating_sub(self.searchers_ns.get()) < WATCHDOG_MIN_NS {
            return;
        }
        self.searchers_ns.set(now_ns);
        let remote = self.shared.remote();
        let idle = remote.scheduler().idle();
        if idle.lapse_since(&self.searchers, remote.worker()) == Searching::None {
            M::fence_announce();
        }
        self.wake_left_out();
    }

    /// Wakes each worker that sleeps, is not in the idle set and was not told, at this look and at the last one. Either
    /// the waker that took it lost its CPU before the post, or its claim lapsed. When it has woken, it can be claimed
    /// again.
    fn wake_left_out(&self) {
        let scheduler = self.shared.remote().scheduler();
        for other in scheduler.remotes() {
            let is_left_out = !scheduler.idle().holds(other.worker())
                && !scheduler.idle().is_searching(other.worker())
                && other.bell().look() == Look::Parked
                && !other.is_off();
            let sleep = is_left_out.then(|| other.sleeps());
            if self.searchers.note_left_out(other.worker(), sleep)
                && !M::breaks(Bug::IdleTakeNeverRevoked)
            {
                M::mark(Mark::IdleTakeRevoked);
                other.request_pass();
            }
        }
    }

    /// The worker has something to run: it stops being a watchdog, declines what it was claimed for, and wakes another
    /// worker for what was left to it. (A watchdog that woke only to look stays one.)
    pub(super) fn end_watchdog(&self) {
        let owed = self.owes_look.replace(false);
        let looked_later = self.looks_later.replace(false);
        let idle = self.shared.remote().scheduler().idle();
        let has_declined = owed && idle.decline_watchdog() == Declined::Yes;
        if self.resign() || has_declined {
            M::fence_announce();
        } else if !(looked_later || self.searching.get() && self.sees_expected()) {
            // No other worker relies on a look that it made for itself. One that was taken for a task was not claimed.
            return;
        }
        self.wake_watchdog_if_wanted();
    }

    /// Whether a worker is inside a poll that it expects to be long: it may have claimed this one for that.
    fn sees_expected(&self) -> bool {
        self.look_at_list();
        self.listed()
            .any(|other| other.is_inside() && other.expects_long())
    }

    /// Wakes a watchdog, if there is a reason for one. Behind a fence.
    pub(super) fn wake_watchdog_if_wanted(&self) {
        if self.wish_ns(M::now_ns()).is_some() {
            let remote = self.shared.remote();
            remote.scheduler().arm_watchdog(remote.worker());
        }
    }

    /// Stops being a watchdog. Returns whether it was one.
    pub(super) fn resign(&self) -> bool {
        let remote = self.shared.remote();
        let was_one = remote.is_watchdog();
        if was_one {
            // Counted before another worker can be one in its place.
            self.shared.tally.watchdogs_ended.add_owned(1);
            remote.set_watchdog(false);
            remote.scheduler().idle().end_watchdog();
        }
        was_one
    }
}
