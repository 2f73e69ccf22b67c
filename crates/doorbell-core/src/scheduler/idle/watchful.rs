//! Whether a scheduler is watchful: whether its workers look after timers and descriptors of workers that may be stuck.
//! It is so for a while after a long poll, and at first, when nothing is known of its polls.

use crate::scheduler::Turns;
use doorbell_machine::{Line, Machine, Ordering, Word};

/// A scheduler stays watchful for this long after a long poll.
const WATCHFUL_NS: u64 = 10_000_000_000;

/// How long a scheduler is watchful at first where tasks run by rank. Their polls should be short, and a look at
/// them interrupts lower classes.
const FIRST_BY_RANK_NS: u64 = 1_000_000_000;

/// Value of `until_ns`: watchful, but the end is not recorded yet, since no worker has read the clock.
const NOT_BEGUN: u64 = 1;

/// Resolution of the recorded end: an extension of less than this is not written, since all workers read the line.
const STEP_NS: u64 = 1_000_000_000;

/// A worker is stuck after this long in one poll, or in a few consecutive ones.
pub(crate) const STUCK_NS: u64 = 500_000;

/// How late a timer must be before another worker expires it. Earlier, its own worker is expected to do so.
pub(crate) const OVERDUE_NS: u64 = 100_000;

/// Until when a scheduler is watchful, and when other workers look at its stuck workers.
#[expect(clippy::struct_field_names, reason = "all are times")]
pub(crate) struct Watchful<M: Machine> {
    /// Until when the scheduler is watchful.
    until_ns: M::Line<M::U64>,
    /// When a worker that has work of its own looked last after the others.
    checked_ns: M::Line<M::U64>,
    /// How long the scheduler is watchful at first.
    first_ns: u64,
}

impl<M: Machine> Watchful<M> {
    /// Watchful at first, since nothing is known of the polls to come; not in a model.
    pub(crate) fn new(turns: Turns) -> Self {
        // Does not read the clock: a scheduler may be made where there is none.
        let until_ns = if M::MODEL { 0 } else { NOT_BEGUN };
        Watchful {
            until_ns: M::Line::new(|| M::U64::new(until_ns)),
            checked_ns: M::Line::new(|| M::U64::new(0)),
            first_ns: match turns {
                Turns::ByArrival => WATCHFUL_NS,
                Turns::ByRank => FIRST_BY_RANK_NS,
            },
        }
    }

    /// A worker wants to check the others: whether it may. One check in that time is enough.
    #[must_use]
    pub(crate) fn begin_check(&self, now_ns: u64, every_ns: u64) -> bool {
        // ORDER: Relaxed, here and below; of several one wins, and nothing hangs on which.
        let seen_ns = self.checked_ns.load(Ordering::Relaxed);
        if now_ns.saturating_sub(seen_ns) < every_ns {
            return false;
        }
        let claim =
            // ORDER: Relaxed, as above.
            self.checked_ns
                .compare_exchange(seen_ns, now_ns, Ordering::Relaxed, Ordering::Relaxed);
        claim.is_ok()
    }

    /// Whether the scheduler may be watchful. Does not read the clock.
    #[inline]
    pub(crate) fn may_be_on(&self) -> bool {
        // ORDER: Relaxed; a hint.
        self.until_ns.load(Ordering::Relaxed) != 0
    }

    /// Whether the scheduler is watchful. The first worker that finds the time over records it.
    pub(crate) fn is_on(&self, now_ns: u64) -> bool {
        // ORDER: Relaxed; a hint, here and below.
        let until_ns = self.until_ns.load(Ordering::Relaxed);
        if until_ns == NOT_BEGUN {
            let until_ns = now_ns.saturating_add(self.first_ns);
            let begun = &self.until_ns;
            // ORDER: Relaxed; if several workers record the end, one value stays, or that of a poll that was just long.
            let _ =
                // ORDER: Relaxed, as above.
                begun.compare_exchange(NOT_BEGUN, until_ns, Ordering::Relaxed, Ordering::Relaxed);
            return true;
        }
        if until_ns == 0 || now_ns < until_ns {
            return until_ns != 0;
        }
        // ORDER: Relaxed; this may overwrite `begin` of a poll that was just long; the next long poll begins again.
        self.until_ns.store(0, Ordering::Relaxed);
        false
    }

    /// A poll was long: the scheduler is watchful for [`WATCHFUL_NS`].
    pub(crate) fn begin(&self, now_ns: u64) {
        let until_ns = now_ns.saturating_add(WATCHFUL_NS);
        // ORDER: Relaxed; a hint.
        if until_ns.saturating_sub(self.until_ns.load(Ordering::Relaxed)) >= STEP_NS {
            // ORDER: Relaxed; as above.
            self.until_ns.store(until_ns, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{FIRST_BY_RANK_NS, STEP_NS, Turns, WATCHFUL_NS, Watchful};
    use doorbell_machine::{Host, Line, Machine};

    fn watchful(until_ns: u64) -> Watchful<Host> {
        Watchful {
            until_ns: Line::new(|| <Host as Machine>::U64::new(until_ns)),
            checked_ns: Line::new(|| <Host as Machine>::U64::new(0)),
            first_ns: WATCHFUL_NS,
        }
    }

    #[test]
    fn one_worker_at_a_time_looks_after_the_others() {
        let it = watchful(1);
        assert!(it.begin_check(100, 50));
        assert!(!it.begin_check(149, 50));
        assert!(it.begin_check(150, 50));
        assert!(!it.begin_check(0, 50), "a clock that leapt back");
    }

    #[test]
    fn it_is_over_after_a_while_without_a_long_poll() {
        let it = watchful(1_000);
        assert!(it.may_be_on() && it.is_on(999));
        assert!(!it.is_on(1_000));
        assert!(!it.may_be_on() && !it.is_on(0));
        it.begin(5_000);
        assert!(it.is_on(5_000 + WATCHFUL_NS - 1) && !it.is_on(5_000 + WATCHFUL_NS));
    }

    #[test]
    fn it_is_on_at_first_for_a_while_from_the_first_look_on() {
        for (turns, first_ns) in [
            (Turns::ByArrival, WATCHFUL_NS),
            (Turns::ByRank, FIRST_BY_RANK_NS),
        ] {
            let it = Watchful::<Host>::new(turns);
            assert!(it.may_be_on() && it.is_on(1_000));
            assert!(it.is_on(999 + first_ns) && !it.is_on(1_000 + first_ns));
            assert!(!it.may_be_on());
        }
    }

    #[test]
    fn it_is_raised_in_steps_and_at_the_end_of_time() {
        let it = watchful(0);
        it.begin(0);
        it.begin(STEP_NS - 1);
        assert!(!it.is_on(WATCHFUL_NS));
        it.begin(u64::MAX - 1);
        assert!(it.is_on(u64::MAX - 1));
    }
}
