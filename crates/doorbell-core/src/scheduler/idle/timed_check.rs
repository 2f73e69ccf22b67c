//! Timed checks: a parked worker sleeps until timers of others are overdue, and then looks at them once. Each worker
//! has at most one. It plans it itself when it parks, or another worker claims it and asks for it. See ../README.md.

use super::watchdogs::LOOKS_EVERY_NS;
use doorbell_machine::{Bug, Line, Machine, Ordering, Word};

/// Value of both words: no timed check.
const NONE_NS: u64 = u64::MAX;

/// When the workers of a scheduler make their timed checks.
pub(crate) struct TimedChecks<M: Machine> {
    /// The earliest one, or none. It may be none, or later than the earliest, until the workers that have a check end
    /// theirs: then some worker is asked once more than needed.
    first_ns: M::Line<M::U64>,
    /// That of each worker.
    planned_ns: Box<[M::Line<M::U64>]>,
}

impl<M: Machine> TimedChecks<M> {
    /// Of a scheduler of so many workers.
    pub(crate) fn new(workers: usize) -> Self {
        let none = || M::Line::new(|| M::U64::new(NONE_NS));
        TimedChecks {
            first_ns: none(),
            planned_ns: (0..workers).map(|_| none()).collect(),
        }
    }

    /// Whether the first timed check, if any, comes too late for a timer at this time: later than a watchdog's look
    /// may come. The caller has published the timer, and a fence followed.
    #[inline]
    pub(crate) fn is_unattended(&self, when_ns: u64) -> bool {
        // ORDER: Relaxed; with the change in `end` and the fence there: store buffering. Either a worker that gives up
        // its check sees the timer, or this caller sees that nobody has one.
        let first_ns = self.first_ns.load(Ordering::Relaxed);
        when_ns.saturating_add(LOOKS_EVERY_NS) < first_ns
    }

    /// When the worker makes its timed check, if it has one.
    #[inline]
    pub(crate) fn planned_ns(&self, worker: usize) -> Option<u64> {
        // ORDER: Relaxed; behind the fence with which the worker ended its idling: store buffering, with the change in
        // `plan` and the fence of its caller.
        let at_ns = self.planned_ns[worker].load(Ordering::Relaxed);
        (at_ns != NONE_NS).then_some(at_ns)
    }

    /// The worker has a timed check at this time, if not earlier. The caller is that worker, or has claimed it. If it
    /// has claimed it, it makes a fence behind this, and looks whether the worker is inside a poll.
    pub(crate) fn plan(&self, worker: usize, at_ns: u64) {
        // In this order: a worker that ends the check finds it in both words.
        change::<M>(&self.first_ns, |first_ns| first_ns.min(at_ns));
        change::<M>(&self.planned_ns[worker], |own_ns| own_ns.min(at_ns));
    }

    /// Ends the timed check of this worker, and makes a fence. Returns the time for which it was, if there was one:
    /// either the worker gets it, or a thread that asked for it and takes it back. That one looks after the timer.
    #[inline]
    #[must_use]
    pub(crate) fn end(&self, worker: usize) -> Option<u64> {
        // Usually there is none, and a worker asks in each pass that finds work.
        self.planned_ns(worker)?;
        // ORDER: Acquire pairs with the Release in `change`: this finds `first_ns` as it was changed for the check;
        // unshown because each read-modify-write of the model reads the newest value.
        let at_ns = self.planned_ns[worker].swap(NONE_NS, Ordering::Acquire);
        if at_ns == NONE_NS {
            return None;
        }
        // An earlier one is another worker's.
        let without = |first_ns| if first_ns < at_ns { first_ns } else { NONE_NS };
        change::<M>(&self.first_ns, without);
        if !M::breaks(Bug::IdleNoCheckFence) {
            M::fence_announce();
        }
        Some(at_ns)
    }
}

/// One read-modify-write, also if it changes nothing: fences follow.
fn change<M: Machine>(word: &M::U64, next: impl Fn(u64) -> u64) {
    // ORDER: Relaxed; the exchange decides.
    let mut seen_ns = word.load(Ordering::Relaxed);
    loop {
        // ORDER: Release pairs with the Acquire of `end`; unshown because of what is said there. Relaxed on failure:
        // only the next guess.
        let changed =
            word.compare_exchange(seen_ns, next(seen_ns), Ordering::Release, Ordering::Relaxed);
        match changed {
            Ok(_) => return,
            Err(now_ns) => seen_ns = now_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{LOOKS_EVERY_NS, TimedChecks};
    use doorbell_machine::Host;

    #[test]
    fn a_timer_long_before_the_first_timed_check_is_unattended() {
        let it = TimedChecks::<Host>::new(1);
        assert!(it.is_unattended(0) && !it.is_unattended(u64::MAX));
        it.plan(0, 50_000_000);
        assert!(it.is_unattended(49_999_999 - LOOKS_EVERY_NS));
        assert!(!it.is_unattended(50_000_000 - LOOKS_EVERY_NS));
        assert_eq!(it.end(0), Some(50_000_000));
        assert!(it.is_unattended(50_000_000));
        assert_eq!(it.end(0), None);
    }

    #[test]
    fn a_worker_has_one_timed_check_the_earliest() {
        let it = TimedChecks::<Host>::new(1);
        for (at_ns, planned_ns) in [(7, 7), (9, 7), (5, 5)] {
            it.plan(0, at_ns);
            assert_eq!(it.planned_ns(0), Some(planned_ns));
        }
        assert_eq!(it.end(0), Some(5));
        assert_eq!(it.planned_ns(0), None);
    }

    #[test]
    fn a_later_timed_check_leaves_an_earlier_one_known() {
        let at_ns = [50_000_000, 40_000_000];
        for order in [[0, 1], [1, 0]] {
            let it = TimedChecks::<Host>::new(2);
            for worker in order {
                it.plan(worker, at_ns[worker]);
            }
            assert!(!it.is_unattended(40_000_000), "{order:?}");
            assert_eq!(it.end(0), Some(50_000_000));
            assert!(!it.is_unattended(40_000_000), "the other one looks then");
            assert_eq!(it.end(1), Some(40_000_000));
            assert!(it.is_unattended(40_000_000));
        }
    }
}
