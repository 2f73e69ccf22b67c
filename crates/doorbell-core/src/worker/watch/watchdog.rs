//! When a parked worker looks at the others again: as a watchdog, soon and repeatedly, or once, when a timer is overdue.
//!
//! What a look sees: `observe.rs`; what it does: `remedy.rs`.

use super::limits::{LATEST_NS, OVERDUE_NS, SOON_NS, STAYS_NS};
use crate::scheduler::idle::{Declined, Watchdog};
use crate::worker::Worker;
use doorbell_machine::{Counter, Machine};

/// How long after `now_ns` to look at a timer that is due at `due_ns`: when it is overdue, but no sooner than a
/// watchdog.
fn overdue_after_ns(due_ns: u64, now_ns: u64) -> u64 {
    let overdue_ns = due_ns.saturating_add(OVERDUE_NS);
    overdue_ns.saturating_sub(now_ns).max(SOON_NS)
}

impl<M: Machine> Worker<M> {
    /// When a worker that parks looks at the others again; `None` if it need not. It becomes a watchdog if a watchdog was
    /// asked for or is [wished for](Worker::wish_ns), unless enough workers are watchdogs. It stays one for
    /// [`STAYS_NS`]. For a timer that is due later it only looks then, once.
    pub(in crate::worker) fn next_look(&self) -> Option<u64> {
        if !self.has_others() {
            // A worker that was taken off leaves this to another.
            self.end_watchdog();
            return None;
        }
        self.watch.owes_look.set(false);
        self.watch.looks_later.set(false);
        let remote = self.shared.remote();
        let idle = remote.scheduler().idle();
        let now_ns = M::now_ns();
        let seen_ns = self.wish_ns(now_ns);
        let wants = idle.wants_watchdog();
        let mut wish_ns = if wants { Some(SOON_NS) } else { seen_ns };
        let is_soon = |wish_ns: &Option<u64>| wish_ns.is_some_and(|it| it <= LATEST_NS);
        let is_over = wish_ns.is_some() || now_ns >= self.watch.stays_until_ns.get();
        if !is_soon(&wish_ns) && is_over {
            if self.resign() {
                // Either this worker sees what was pushed, or the one that pushed it sees that a watchdog is missing.
                M::fence_announce();
                wish_ns = self.wish_ns(now_ns);
            }
            if !is_soon(&wish_ns) {
                self.watch.looks_later.set(wish_ns.is_some());
                return wish_ns.map(|after_ns| now_ns.saturating_add(after_ns));
            }
        }
        let waits = seen_ns.is_none_or(|seen_ns| seen_ns == SOON_NS);
        if is_soon(&wish_ns) && waits {
            // In a model such a sleep ends at once; more sleeps in which nothing comes would show nothing.
            let stays_ns = if M::MODEL { 1 } else { STAYS_NS };
            self.watch
                .stays_until_ns
                .set(now_ns.saturating_add(stays_ns));
        }
        if !remote.is_watchdog() {
            if idle.begin_watchdog() == Watchdog::Taken {
                return None;
            }
            self.watch.searchers.forget();
            remote.set_watchdog(true);
            self.shared.tally.watchdogs.add_owned(1);
        }
        let longer_ns = (2 * self.watch.interval_ns.get()).min(LATEST_NS);
        let after_ns = wish_ns.unwrap_or(longer_ns);
        self.watch.interval_ns.set(after_ns);
        Some(now_ns.saturating_add(after_ns))
    }

    /// After how long a watchdog should look again, because workers inside a poll have a task waiting, or, if that poll is
    /// long as far as is known, timers; `None` if there is no such worker.
    pub(in crate::worker) fn wish_ns(&self, now_ns: u64) -> Option<u64> {
        self.look_at_list();
        let inside = self.listed().filter(|other| other.is_inside());
        let wish_ns = inside.filter_map(|other| {
            if other.has_work() {
                return Some(SOON_NS);
            }
            if !self.is_in_long_poll(other, now_ns) {
                return None;
            }
            let due_ns = self.timer_at(other)?;
            Some(overdue_after_ns(due_ns, now_ns))
        });
        wish_ns.min()
    }

    /// The worker has something to run: it stops being a watchdog, declines what it was claimed for, and wakes another
    /// worker for what was left to it. (A watchdog that woke only to look stays one.)
    pub(in crate::worker) fn end_watchdog(&self) {
        let owed = self.watch.owes_look.replace(false);
        let looked_later = self.watch.looks_later.replace(false);
        let idle = self.shared.remote().scheduler().idle();
        let has_declined = owed && idle.decline_watchdog() == Declined::Yes;
        if self.resign() || has_declined {
            M::fence_announce();
        } else if !(looked_later || self.looking.is_counted() && self.sees_expected()) {
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

    /// Wakes a watchdog, if there is a reason for one. After a fence.
    pub(in crate::worker) fn wake_watchdog_if_wanted(&self) {
        if self.wish_ns(M::now_ns()).is_some() {
            let remote = self.shared.remote();
            remote.scheduler().arm_watchdog(remote.worker());
        }
    }

    /// Stops being a watchdog. Returns whether it was one.
    pub(in crate::worker) fn resign(&self) -> bool {
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

#[cfg(test)]
mod tests {
    use super::{OVERDUE_NS, SOON_NS, overdue_after_ns};

    #[test]
    fn a_timer_is_looked_at_when_it_is_overdue_but_no_sooner_than_by_a_watchdog() {
        let early_ns = SOON_NS - OVERDUE_NS;
        for due_ns in [0, 1_000, 1_000 + early_ns] {
            assert_eq!(overdue_after_ns(due_ns, 1_000), SOON_NS);
        }
        assert_eq!(overdue_after_ns(1_001 + early_ns, 1_000), SOON_NS + 1);
    }
}
