//! What a worker does for others that are stuck in a long poll: it expires their timers, looks at their
//! descriptors, and takes the tasks that wait behind the poll. See README.md in this folder.

use super::Worker;
use super::watchdog::WATCHDOG_MIN_NS;
use crate::queue::Greed;
use crate::scheduler::Member;
use crate::scheduler::idle::{OVERDUE_NS, STUCK_NS};
use doorbell_machine::{Counter, Machine};
use std::cell::Cell;

/// A poll that takes this long on average is not yet long.
const POLL_NS: u64 = 20_000;

/// A worker with work of its own looks at the others at most this often.
const CHECK_NS: u64 = 100_000;

/// Polls between two thefts from one stuck worker: one of the stolen task, one of its own.
const POLLS_BETWEEN_THEFTS: u64 = 2;

/// A worker with work of its own takes also deferred tasks from one that has been inside one poll for this long. From one
/// that is soon back it would take what that one runs next.
const RELIEVED_NS: u64 = 2_000_000;

/// When a worker with work of its own checks the others. It does so in its passes.
#[derive(Debug)]
pub(super) struct Checks {
    /// When its last pass was, and the number of polls by then; the time is 0 if the worker was idle since.
    passed_ns: Cell<u64>,
    polls: Cell<u64>,
    /// When it last looked at the others.
    looked_ns: Cell<u64>,
    /// It was idle, and has made no pass since.
    was_idle: Cell<bool>,
    /// More tasks wait where it has just taken one.
    hurries: Cell<bool>,
    /// For each worker, the first check that saw its present pulse.
    seen_ns: Box<[Cell<u64>]>,
}

impl Checks {
    /// The checks of a worker of a scheduler with so many.
    pub(super) fn new(workers: usize) -> Self {
        Checks {
            seen_ns: (0..workers).map(|_| Cell::new(0)).collect(),
            passed_ns: Cell::new(0),
            polls: Cell::new(0),
            looked_ns: Cell::new(0),
            was_idle: Cell::new(true),
            hurries: Cell::new(false),
        }
    }

    /// The worker was idle: the elapsed time was not spent in polls.
    pub(super) fn note_idle(&self) {
        self.was_idle.set(true);
        self.passed_ns.set(0);
    }

    /// Notes a pass at `now_ns`, after `polls` polls in all. Returns whether polls were long since the last pass.
    fn note_pass(&self, now_ns: u64, polls: u64) -> bool {
        let (since_ns, before) = (
            self.passed_ns.replace(now_ns.max(1)),
            self.polls.replace(polls),
        );
        let took_ns = now_ns.saturating_sub(since_ns);
        let usual_ns = polls.saturating_sub(before).saturating_mul(POLL_NS);
        since_ns != 0 && took_ns > usual_ns.saturating_add(STUCK_NS)
    }

    /// For how long a worker has been inside its present poll, as far as the checks have seen.
    fn stands_ns(&self, worker: usize, stood_still: bool, now_ns: u64) -> u64 {
        let seen_ns = &self.seen_ns[worker];
        if !stood_still {
            seen_ns.set(now_ns);
        }
        now_ns.saturating_sub(seen_ns.get())
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

impl<M: Machine> Worker<M> {
    /// The worker is about to run something. It was idle before, or has armed a timer that needs a wake before its
    /// others. If timers (its own or its sleepers') or descriptors wait, a watchdog must look after them, in case the
    /// poll takes long.
    pub(super) fn ask_for_watchdog(&self) {
        self.local.set_unattended(false);
        // No worker expires another's timers while the clock stands still.
        if !self.has_others() || self.shared.clock.is_frozen() {
            return;
        }
        let remote = self.shared.remote();
        // A worker that leaves its timers to this one from now on finds it listed; others are seen here. Also if the
        // scheduler is not watchful: it may become so during the poll.
        let is_in_tree = self.tree().is_some();
        if is_in_tree {
            self.list_behind_fence();
        }
        if !remote.scheduler().watchful().may_be_on() {
            return;
        }
        // A descriptor can be ready at any time.
        let next_ns = if self.has_sources() {
            0
        } else {
            self.next_for(remote)
        };
        if next_ns == u64::MAX {
            return;
        }
        if !is_in_tree {
            self.list_behind_fence();
        }
        remote.scheduler().arm_watchdog_by(remote.worker(), next_ns);
    }

    /// Lists this worker. A thread that looks for stuck workers then finds it, or this worker sees what that one left.
    pub(super) fn list_behind_fence(&self) {
        self.local.list_anew();
        M::fence_recheck();
    }

    /// At a pass: makes the scheduler watchful if polls were long since the last one. While it is so, a
    /// worker with work of its own looks for stuck workers: there may be no idle worker to do so.
    pub(super) fn note_pass(&self) {
        if !self.has_others() || self.shared.clock.is_frozen() {
            return;
        }
        let (watchful, now_ns) = (self.shared.remote().scheduler().watchful(), M::now_ns());
        if self.checks.note_pass(now_ns, self.shared.tally.polls.get()) {
            watchful.begin(now_ns);
            if self.tree().is_some() {
                // It asks for a watchdog before its next poll: while the scheduler was not watchful it asked for none.
                self.local.set_unattended(true);
            }
        }
        if watchful.is_on(now_ns) {
            self.check_stuck(now_ns);
        }
    }

    /// Checks the others: takes one task from a worker that is stuck, expires its timers, polls its descriptors.
    pub(super) fn check_stuck(&self, now_ns: u64) {
        let hurries = self.checks.hurries.replace(false);
        if !self.has_others() || !self.checks.are_due(now_ns, hurries) {
            return;
        }
        // One worker at a time: the look reads words of all others.
        let watchful = self.shared.remote().scheduler().watchful();
        if !watchful.begin_check(now_ns, CHECK_NS) && !hurries {
            return;
        }
        self.shared.tally.searches.add_owned(1);
        self.look_at_list();
        for other in self.listed() {
            let stood_still = self.note_pulse(other);
            let _ = self.expire_for(other, stood_still);
            let _ = self.look_for(other, stood_still);
            let stands_ns = self.checks.stands_ns(other.worker(), stood_still, now_ns);
            if !stood_still || !other.is_inside() {
                continue;
            }
            let relieves = || stands_ns >= RELIEVED_NS && self.local.relieve_deferred(other);
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

    /// Whether timers wait for another worker that this one may expire if that one is stuck.
    fn has_timers(&self, other: &Member<M>) -> bool {
        self.next_for(other) != u64::MAX
            && other.scheduler().watchful().may_be_on()
            && !self.shared.clock.is_frozen()
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
        // A worker that makes progress reaches its timers after a few polls, so it gets more time.
        let overdue_ns = if stood_still { OVERDUE_NS } else { STUCK_NS };
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
    use super::{
        CHECK_NS, Checks, OVERDUE_NS, POLL_NS, STUCK_NS, WATCHDOG_MIN_NS, overdue_after_ns,
    };

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
    fn polls_are_long_if_together_they_took_longer_than_so_many_may() {
        let checks = Checks::new(2);
        assert!(
            !checks.note_pass(1_000_000, 5),
            "nothing is known of the time before"
        );
        assert!(!checks.note_pass(1_000_000 + STUCK_NS + POLL_NS, 6));
        assert!(checks.note_pass(1_000_001 + 2 * (STUCK_NS + POLL_NS), 7));
        checks.note_idle();
        assert!(!checks.note_pass(u64::MAX, 8), "it was idle");
        assert!(!checks.note_pass(0, 9), "the clock leapt back");
    }

    #[test]
    fn a_worker_looks_at_the_others_at_intervals_but_not_first() {
        let checks = Checks::new(2);
        assert!(!checks.are_due(CHECK_NS, false), "it was idle");
        assert!(checks.are_due(CHECK_NS + 1, false));
        assert!(!checks.are_due(2 * CHECK_NS, false));
        assert!(checks.are_due(2 * CHECK_NS + 1, false));
        assert!(checks.are_due(2 * CHECK_NS + 2, true));
        assert!(!checks.are_due(2 * CHECK_NS + 3, false));
    }
}
