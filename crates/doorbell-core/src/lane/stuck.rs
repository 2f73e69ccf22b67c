//! What a lane does for others that are stuck in a long poll: it expires their timers and takes
//! what waits behind the poll. See README.md in this folder.

use super::{Lane, SENTINEL_MAX_NS, SENTINEL_MIN_NS};
use crate::mailbox::Front;
use crate::queue::Greed;
use crate::wheel;
use doorbell_machine::{Counter, Machine};

/// By how much a timer is late before another lane expires it: its own is then about to do so, or
/// stuck.
const OVERDUE_NS: u64 = 100_000;

impl<M: Machine> Lane<M> {
    /// The lane was idle and has something to run. If it has timers as well, somebody is to look
    /// after them, in case that takes long.
    pub(super) fn ask_for_care(&self) {
        if !self.has_idled.replace(false) || !self.has_others() {
            return;
        }
        let front = self.shared.front();
        if front.next_global_ns() == u64::MAX || !front.crew().alert().may_be_on() {
            return;
        }
        self.local.list_anew();
        M::fence_recheck();
        front.crew().watch_over(front.lane());
    }

    /// A lane that has work of its own looks after those that are stuck, now and then: it would
    /// have to wait for nobody to be one that is idle.
    pub(super) fn care_for_stuck(&self) {
        let alert = self.shared.front().crew().alert();
        if !self.has_others() || !alert.may_be_on() {
            return;
        }
        let now_ns = M::now_ns();
        if now_ns.saturating_sub(self.cared_ns.get()) < SENTINEL_MIN_NS {
            return;
        }
        self.cared_ns.set(now_ns);
        if !alert.is_on(now_ns) {
            return;
        }
        self.shared.tally.searches.add_owned(1);
        self.look_at_list();
        for other in self.listed() {
            let stood_still = self.note_pulse(other);
            let _ = self.expire_for(other);
            if stood_still && other.is_inside() && self.rob(other, Greed::Single) {
                // The next look finds the others'.
                return;
            }
        }
    }

    /// Whether a lane that may be stuck has timers that others can expire.
    fn has_timers(&self, other: &Front<M>) -> bool {
        other.next_global_ns() != u64::MAX
            && other.crew().alert().may_be_on()
            && !self.shared.clock.is_frozen()
    }

    /// When to look at such a lane next, for the sake of its timers.
    pub(super) fn overdue_in_ns(&self, other: &Front<M>, now_ns: u64) -> Option<u64> {
        self.has_timers(other).then(|| {
            let overdue_ns = other.next_global_ns().saturating_add(OVERDUE_NS);
            // At least as often as for a task: it may come to earlier ones.
            overdue_ns
                .saturating_sub(now_ns)
                .clamp(SENTINEL_MIN_NS, SENTINEL_MAX_NS)
        })
    }

    /// Expires what is overdue at a lane that is inside a poll. Whether that brought tasks.
    pub(super) fn expire_for(&self, other: &Front<M>) -> bool {
        if !self.has_timers(other) || !other.is_inside() {
            return false;
        }
        let now_ns = self.shared.clock.now_ns();
        if now_ns.saturating_sub(other.next_global_ns()) < OVERDUE_NS {
            return false;
        }
        let fired = wheel::visit(other, now_ns);
        if fired > 0 {
            self.shared.tally.timers_fired.add_owned(fired);
            self.shared.tally.timers_for_stuck.add_owned(fired);
        }
        fired > 0
    }
}
