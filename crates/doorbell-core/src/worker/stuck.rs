//! What a worker does for others that are stuck in a long poll: it expires their timers, looks at their
//! descriptors, and takes the tasks that wait behind the poll. See README.md in this folder.

use super::Worker;
use super::pace::LONG_NS;
use super::watchdog::WATCHDOG_MIN_NS;
use crate::queue::Greed;
use crate::scheduler::Member;
use crate::scheduler::idle::OVERDUE_NS;
use doorbell_machine::{Counter, Machine};
use std::cell::Cell;

/// How late a timer of a worker that makes progress must be before another worker expires it: that worker reaches it after
/// a few polls.
pub(super) const OVERDUE_BUSY_NS: u64 = 500_000;

/// A worker with work of its own looks at the others at most this often.
const CHECK_NS: u64 = 100_000;

/// Polls between two thefts from one stuck worker: one of the stolen task, one of its own.
const POLLS_BETWEEN_THEFTS: u64 = 2;

/// A worker with work of its own takes also deferred tasks from one that has been inside one poll for this long. From one
/// that is soon back it would take what that one runs next.
const RELIEVED_NS: u64 = 2_000_000;

/// What a worker saw of another one at its last look.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Observed {
    /// The number of its poll.
    pub(super) pulse: u64,
    /// It was inside a poll or a call.
    pub(super) is_inside: bool,
    /// The first look that saw it so.
    pub(super) since_ns: u64,
}

/// When a worker with work of its own checks the others. It does so in its passes.
#[derive(Debug)]
pub(super) struct Checks {
    /// When it last looked at the others.
    looked_ns: Cell<u64>,
    /// It was idle, and has made no pass since.
    was_idle: Cell<bool>,
    /// More tasks wait where it has just taken one.
    hurries: Cell<bool>,
}

impl Checks {
    pub(super) fn new() -> Self {
        Checks {
            looked_ns: Cell::new(0),
            was_idle: Cell::new(true),
            hurries: Cell::new(false),
        }
    }

    /// The worker was idle.
    pub(super) fn note_idle(&self) {
        self.was_idle.set(true);
    }

    /// Whether to look at the others in this pass. What woke the worker goes first: a look at all others may take longer
    /// than a poll.
    pub(super) fn are_due(&self, now_ns: u64, hurries: bool) -> bool {
        if self.was_idle.replace(false) {
            return false;
        }
        let is_due = hurries || now_ns.saturating_sub(self.looked_ns.get()) >= CHECK_NS;
        if is_due {
            self.looked_ns.set(now_ns);
        }
        is_due
    }
}

/// How long after `now_ns` to look at a timer that is due at `due_ns`: when it is overdue, but no sooner than a
/// watchdog.
pub(super) fn overdue_after_ns(due_ns: u64, now_ns: u64) -> u64 {
    let overdue_ns = due_ns.saturating_add(OVERDUE_NS);
    overdue_ns.saturating_sub(now_ns).max(WATCHDOG_MIN_NS)
}

const _: () = assert!(
    LONG_NS < WATCHDOG_MIN_NS,
    "a watchdog's next look sees that a poll is long"
);

impl<M: Machine> Worker<M> {
    /// Before the first poll after an idle time, and before calls: lists this worker in the work set, for the sleepers that
    /// leave their timers to it.
    pub(super) fn list_for_sleepers(&self) {
        self.local.set_unlisted(false);
        if self.has_others() && self.tree().is_some() {
            self.local.list_behind_fence();
        }
    }

    /// At a pass: a worker with work of its own looks for stuck workers. There may be no idle worker to do so.
    pub(super) fn note_pass(&self) {
        if self.has_others() && !self.shared.clock.is_frozen() {
            self.check_stuck(M::now_ns());
        }
    }

    /// Checks the others: takes one task from a worker that is stuck, expires its timers, polls its descriptors.
    pub(super) fn check_stuck(&self, now_ns: u64) {
        let hurries = self.checks.hurries.replace(false);
        if !self.has_others() || !self.checks.are_due(now_ns, hurries) {
            return;
        }
        // One worker at a time: the look reads words of all others.
        let idle = self.shared.remote().scheduler().idle();
        if !idle.begin_look(now_ns, CHECK_NS) && !hurries {
            return;
        }
        self.shared.tally.searches.add_owned(1);
        self.look_at_list();
        for other in self.listed() {
            let stood_still = self.note_pulse(other, now_ns);
            let _ = self.expire_for(other, stood_still);
            let _ = self.look_for(other, stood_still);
            if !stood_still || !other.is_inside() {
                continue;
            }
            let relieves =
                || self.has_stood(other, RELIEVED_NS, now_ns) && self.local.relieve_deferred(other);
            if self.rob(other, Greed::Single) || relieves() {
                if other.has_work() {
                    self.checks.hurries.set(true);
                    self.local.pace().ask_after(POLLS_BETWEEN_THEFTS);
                }
                // The next look finds what waits at the others.
                break;
            }
        }
        // The stolen task runs before this worker's own, and may take long here too.
        self.offer_surplus();
    }

    /// Whether another worker has been inside the same poll for this long, as far as this one has seen.
    fn has_stood(&self, other: &Member<M>, ns: u64, now_ns: u64) -> bool {
        let seen = self.observed[other.worker()].get();
        let stands_ns = now_ns.saturating_sub(seen.since_ns);
        seen.is_inside && seen.pulse == other.pulse() && stands_ns >= ns
    }

    /// Whether another worker's poll under way is long, as far as is known: it has lasted for long, or its task's last
    /// poll was long.
    pub(super) fn is_in_long_poll(&self, other: &Member<M>, now_ns: u64) -> bool {
        other.expects_long() || self.has_stood(other, LONG_NS, now_ns)
    }

    /// Whether timers wait for another worker that this one may expire if that one is stuck.
    fn has_timers(&self, other: &Member<M>) -> bool {
        self.next_for(other) != u64::MAX && !self.shared.clock.is_frozen()
    }

    /// After how long to look at another worker because of its timers; `None` if it has none.
    pub(super) fn overdue_in_ns(&self, other: &Member<M>, now_ns: u64) -> Option<u64> {
        self.has_timers(other)
            .then(|| overdue_after_ns(self.next_for(other), now_ns))
    }

    /// Expires overdue timers of a worker that is inside a poll, and of the sleepers that it looks after. Returns
    /// whether any fired.
    pub(super) fn expire_for(&self, other: &Member<M>, stood_still: bool) -> bool {
        if !self.has_timers(other) || !other.is_inside() {
            return false;
        }
        let now_ns = self.shared.clock.now_ns();
        let overdue_ns = if stood_still {
            OVERDUE_NS
        } else {
            OVERDUE_BUSY_NS
        };
        let is_overdue = |due_ns: u64| now_ns.saturating_sub(due_ns) >= overdue_ns;
        let pulled = self.set_aside_if(other, is_overdue);
        if !is_overdue(other.next_global_ns()) {
            return pulled;
        }
        let Some(expired) = other.gate().expire(other, now_ns) else {
            return pulled;
        };
        if let Some(tree) = self.tree() {
            Self::report(tree, other);
        }
        if expired.fired > 0 {
            self.shared.tally.timers_fired.add_owned(expired.fired);
            self.shared.tally.timers_for_stuck.add_owned(expired.fired);
        }
        pulled || expired.fired > 0
    }
}

#[cfg(test)]
mod tests {
    use super::{CHECK_NS, Checks, OVERDUE_NS, WATCHDOG_MIN_NS, overdue_after_ns};

    #[test]
    fn a_timer_is_looked_at_when_it_is_overdue_but_no_sooner_than_by_a_watchdog() {
        let soon_ns = WATCHDOG_MIN_NS - OVERDUE_NS;
        for due_ns in [0, 1_000, 1_000 + soon_ns] {
            assert_eq!(overdue_after_ns(due_ns, 1_000), WATCHDOG_MIN_NS);
        }
        assert_eq!(
            overdue_after_ns(1_001 + soon_ns, 1_000),
            WATCHDOG_MIN_NS + 1
        );
    }

    #[test]
    fn a_worker_looks_at_the_others_at_intervals_but_not_first() {
        let checks = Checks::new();
        assert!(!checks.are_due(CHECK_NS, false), "it was idle");
        assert!(checks.are_due(CHECK_NS + 1, false));
        assert!(!checks.are_due(2 * CHECK_NS, false));
        assert!(checks.are_due(2 * CHECK_NS + 1, false));
        assert!(checks.are_due(2 * CHECK_NS + 2, true));
        assert!(!checks.are_due(2 * CHECK_NS + 3, false));
    }
}
