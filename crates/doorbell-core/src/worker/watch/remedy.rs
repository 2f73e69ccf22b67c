//! What a worker does for others that are stuck in a long poll: it expires their timers, and
//! takes the tasks that wait behind the poll. See README.md in this folder.

use super::Watch;
use super::limits::{
    BUSY_EVERY_NS, OVERDUE_BUSY_NS, OVERDUE_NS, POLLS_BETWEEN_THEFTS, RELIEVED_NS,
};
use super::observe::Observation;
use crate::queue::Greed;
use crate::scheduler::Member;
use crate::switches::IdleClaim;
use crate::worker::Worker;
use doorbell_machine::{Counter, Machine};

impl Watch {
    /// Whether a worker with work of its own looks at the others in this pass. What woke it goes first: a look at all
    /// others may take longer than a poll.
    fn is_busy_look_due(&self, now_ns: u64, hurries: bool) -> bool {
        if self.was_idle.replace(false) {
            return false;
        }
        let is_due = hurries || now_ns.saturating_sub(self.busy_look_ns.get()) >= BUSY_EVERY_NS;
        if is_due {
            self.busy_look_ns.set(now_ns);
        }
        is_due
    }
}

impl<M: Machine> Worker<M> {
    /// At a pass: a worker with work of its own looks for stuck workers. There may be no idle worker to do so.
    pub(in crate::worker) fn note_pass(&self) {
        if self.has_others() && !self.shared.clock.is_frozen() {
            self.check_stuck(M::now_ns());
        }
    }

    /// Checks the others: takes one task from a worker that is stuck or has something posted, expires a stuck worker's
    /// timers.
    pub(in crate::worker) fn check_stuck(&self, now_ns: u64) {
        let polls = self.shared.tally.polls.get();
        // Its own tasks have a turn between two stolen ones.
        if polls < self.watch.next_theft.get() {
            return;
        }
        let hurries = self.watch.next_theft.replace(0) > 0;
        if !self.has_others() || !self.watch.is_busy_look_due(now_ns, hurries) {
            return;
        }
        // One worker at a time: the look reads words of all others.
        let idle = self.shared.remote().scheduler().idle();
        if !idle.begin_look(now_ns, BUSY_EVERY_NS) && !hurries {
            return;
        }
        self.shared.tally.searches.add_owned(1);
        self.look_at_list();
        for other in self.listed() {
            let seen = self.observe(other, now_ns);
            let _ = self.expire_for(other, seen);
            if !seen.is_stuck() {
                if seen.is_inside {
                    self.take_posted(other);
                }
                continue;
            }
            let relieves = || seen.stands_ns >= RELIEVED_NS && self.local.relieve_deferred(other);
            if self.rob(other, Greed::Single) || relieves() {
                self.watch.next_theft.set(polls + POLLS_BETWEEN_THEFTS);
                if other.has_work() {
                    self.local.pace().ask_after(POLLS_BETWEEN_THEFTS);
                }
                // The next look finds what waits at the others.
                break;
            }
        }
        // The stolen task runs before this worker's own, and may take long here too.
        self.offer_surplus();
    }

    /// Takes what was posted to another worker, and waits there for the end of a poll. This worker is between two polls.
    /// Not if it would wait for other tasks in the queue here. Not by rank, where a task goes to the worker that runs the
    /// lowest one.
    fn take_posted(&self, other: &Member<M>) {
        let is_left = self.local.turns().is_exact()
            || other.idle_claim() == IdleClaim::Base
            || !self.shared.remote().queue().is_empty();
        if is_left || !other.has_injected() {
            return;
        }
        let Some((chain, count)) = other.take_injected() else {
            return;
        };
        self.local.push_chain(chain);
        self.note_theft(count);
        self.offer_new_surplus();
    }

    /// Expires overdue timers of a worker that is inside a poll, and of the sleepers that it looks after. Returns
    /// whether any fired.
    pub(in crate::worker) fn expire_for(&self, other: &Member<M>, seen: Observation) -> bool {
        if !seen.is_inside || self.timer_at(other).is_none() {
            return false;
        }
        let now_ns = self.shared.clock.now_ns();
        let overdue_ns = if seen.stood_still {
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
    use super::{BUSY_EVERY_NS, Watch};

    #[test]
    fn a_worker_looks_at_the_others_at_intervals_but_not_first() {
        let watch = Watch::new(2);
        let is_due = |now_ns| watch.is_busy_look_due(now_ns, false);
        assert!(!is_due(BUSY_EVERY_NS), "it was idle");
        assert!(is_due(BUSY_EVERY_NS + 1));
        assert!(!is_due(2 * BUSY_EVERY_NS));
        assert!(is_due(2 * BUSY_EVERY_NS + 1));
        assert!(watch.is_busy_look_due(2 * BUSY_EVERY_NS + 2, true));
        assert!(!is_due(2 * BUSY_EVERY_NS + 3));
    }
}
