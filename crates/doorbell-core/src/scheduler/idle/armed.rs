//! Whether polls of a scheduler took long lately. If none did, the scheduler is not armed: no worker looks after
//! the timers and descriptors of workers that may be stuck. Also the time of the next timed check.

use super::watchdogs::LOOKS_EVERY_NS;
use crate::scheduler::Turns;
use doorbell_machine::{Bug, Line, Machine, Ordering, Word};

/// A scheduler stays armed for this long after a long poll.
const ARMED_NS: u64 = 10_000_000_000;

/// How long a scheduler is armed at first where tasks run by rank. Their polls should be short, and a look at
/// them interrupts lower classes.
const FIRST_BY_RANK_NS: u64 = 1_000_000_000;

/// Value of `until_ns`: armed, but the end is not recorded yet, since no worker has read the clock.
const NOT_BEGUN: u64 = 1;

/// Resolution of the recorded end: an extension of less than this is not written, since all workers read the line.
const ARMED_STEP_NS: u64 = 1_000_000_000;

/// A worker is stuck after this long in one poll, or in a few consecutive ones.
pub(crate) const STUCK_NS: u64 = 500_000;

/// What workers with timers read before a poll, and what rarely changes.
#[expect(clippy::struct_field_names, reason = "all are times")]
struct ArmedTimes<M: Machine> {
    /// Until when the scheduler is armed.
    until_ns: M::U64,
    /// When a sleeping worker makes a timed check; `u64::MAX` if none is planned.
    looks_ns: M::U64,
    /// The earliest time for which a timed check was asked and not taken yet; else `u64::MAX`.
    asked_ns: M::U64,
}

/// Until when a scheduler is armed, and when other workers look at its stuck workers.
pub(crate) struct Armed<M: Machine> {
    times: M::Line<ArmedTimes<M>>,
    /// When a worker that has work of its own looked last after the others.
    checked_ns: M::Line<M::U64>,
    /// How long the scheduler is armed at first.
    first_ns: u64,
}

impl<M: Machine> Armed<M> {
    /// Armed at first, since nothing is known of the polls to come; not armed in a model.
    pub(crate) fn new(turns: Turns) -> Self {
        // Does not read the clock: a scheduler may be made where there is none.
        let until_ns = if M::MODEL { 0 } else { NOT_BEGUN };
        Armed {
            times: M::Line::new(|| ArmedTimes {
                until_ns: M::U64::new(until_ns),
                looks_ns: M::U64::new(u64::MAX),
                asked_ns: M::U64::new(u64::MAX),
            }),
            checked_ns: M::Line::new(|| M::U64::new(0)),
            first_ns: match turns {
                Turns::ByArrival => ARMED_NS,
                Turns::ByRank => FIRST_BY_RANK_NS,
            },
        }
    }

    /// A worker is about to sleep until this time, and then makes a timed check. After this call it looks at the
    /// others once more.
    pub(crate) fn plan_check(&self, looks_ns: u64) {
        self.set_looks(looks_ns);
    }

    /// No timed check is planned any longer. After this the caller looks for what others left to it.
    pub(crate) fn end_check(&self) {
        self.set_looks(u64::MAX);
    }

    fn set_looks(&self, looks_ns: u64) {
        // ORDER: Relaxed, and a read-modify-write for the fence behind it; with `is_unattended` behind a
        // fence: store buffering. Either this worker sees a timer that was armed, or the arming worker sees this.
        self.times.looks_ns.swap(looks_ns, Ordering::Relaxed);
        if !M::breaks(Bug::IdleNoCheckFence) {
            M::fence_announce();
        }
    }

    /// Whether the planned timed check, if any, comes too late for a timer at this time: later than a watchdog's look
    /// may come. The caller has published the timer, and a fence followed.
    #[inline]
    pub(crate) fn is_unattended(&self, when_ns: u64) -> bool {
        // ORDER: Relaxed; see `set_looks`.
        let looks_ns = self.times.looks_ns.load(Ordering::Relaxed);
        when_ns.saturating_add(LOOKS_EVERY_NS) < looks_ns
    }

    /// Asks for a timed check at this time. A worker that parks takes the request, unless it stays a watchdog. Returns
    /// whether the caller must wake a worker for that. It need not if a check was asked for that comes at most
    /// [`LOOKS_EVERY_NS`] later, and no worker has taken that request yet. The caller has published the timer, and a
    /// fence followed.
    #[must_use]
    pub(crate) fn ask_for_check(&self, when_ns: u64) -> bool {
        let asked = &self.times.asked_ns;
        // ORDER: Relaxed; the exchange decides.
        let mut seen_ns = asked.load(Ordering::Relaxed);
        loop {
            // ORDER: Relaxed, and a read-modify-write also if it changes nothing; with `take_asked` in front of a fence:
            // store buffering. Either a worker that takes the request and does not make the check sees the timer, or
            // this caller finds the request taken.
            let exchanged = asked.compare_exchange(
                seen_ns,
                seen_ns.min(when_ns),
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            match exchanged {
                Ok(before_ns) => return when_ns.saturating_add(LOOKS_EVERY_NS) < before_ns,
                Err(now_ns) => seen_ns = now_ns,
            }
        }
    }

    /// Takes the time of the timed check that was asked for, if there is one, and makes a fence. The caller makes that
    /// check, or sees to it that another worker does.
    pub(crate) fn take_asked(&self) -> Option<u64> {
        let asked = &self.times.asked_ns;
        // ORDER: Relaxed; a worker that was woken for a check reads it behind the bell that woke it.
        if asked.load(Ordering::Relaxed) == u64::MAX {
            return None;
        }
        // ORDER: Relaxed; see `ask_for_check`.
        let asked_ns = asked.swap(u64::MAX, Ordering::Relaxed);
        M::fence_announce();
        (asked_ns != u64::MAX).then_some(asked_ns)
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

    /// Whether the scheduler may be armed. Does not read the clock.
    #[inline]
    pub(crate) fn may_be_on(&self) -> bool {
        // ORDER: Relaxed; a hint.
        self.times.until_ns.load(Ordering::Relaxed) != 0
    }

    /// Whether the scheduler is armed. The first worker that finds the time over records it.
    pub(crate) fn is_on(&self, now_ns: u64) -> bool {
        // ORDER: Relaxed; a hint, here and below.
        let until_ns = self.times.until_ns.load(Ordering::Relaxed);
        if until_ns == NOT_BEGUN {
            let until_ns = now_ns.saturating_add(self.first_ns);
            let begun = &self.times.until_ns;
            // ORDER: Relaxed; if several workers record the end, one value stays, or that of a poll that was just long.
            let _ =
                // ORDER: Relaxed, as above.
                begun.compare_exchange(NOT_BEGUN, until_ns, Ordering::Relaxed, Ordering::Relaxed);
            return true;
        }
        if until_ns == 0 || now_ns < until_ns {
            return until_ns != 0;
        }
        // ORDER: Relaxed; this may overwrite `arm` of a poll that was just long; the next long poll arms again.
        self.times.until_ns.store(0, Ordering::Relaxed);
        false
    }

    /// A poll was long: arms the scheduler for [`ARMED_NS`].
    pub(crate) fn arm(&self, now_ns: u64) {
        let until_ns = now_ns.saturating_add(ARMED_NS);
        // ORDER: Relaxed; a hint.
        if until_ns.saturating_sub(self.times.until_ns.load(Ordering::Relaxed)) >= ARMED_STEP_NS {
            // ORDER: Relaxed; as above.
            self.times.until_ns.store(until_ns, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        ARMED_NS, ARMED_STEP_NS, Armed, ArmedTimes, FIRST_BY_RANK_NS, LOOKS_EVERY_NS, Turns,
    };
    use doorbell_machine::{Host, Line, Machine};

    fn armed(until_ns: u64) -> Armed<Host> {
        Armed {
            times: Line::new(|| ArmedTimes {
                until_ns: <Host as Machine>::U64::new(until_ns),
                looks_ns: <Host as Machine>::U64::new(u64::MAX),
                asked_ns: <Host as Machine>::U64::new(u64::MAX),
            }),
            checked_ns: Line::new(|| <Host as Machine>::U64::new(0)),
            first_ns: ARMED_NS,
        }
    }

    #[test]
    fn one_worker_at_a_time_looks_after_the_others() {
        let it = armed(1);
        assert!(it.begin_check(100, 50));
        assert!(!it.begin_check(149, 50));
        assert!(it.begin_check(150, 50));
        assert!(!it.begin_check(0, 50), "a clock that leapt back");
    }

    #[test]
    fn a_timer_long_before_the_next_look_is_unattended() {
        let it = armed(1);
        assert!(it.is_unattended(0) && !it.is_unattended(u64::MAX));
        it.plan_check(50_000_000);
        assert!(it.is_unattended(49_999_999 - LOOKS_EVERY_NS));
        assert!(!it.is_unattended(50_000_000 - LOOKS_EVERY_NS));
        it.end_check();
        assert!(it.is_unattended(50_000_000));
    }

    #[test]
    fn a_check_is_asked_for_again_only_if_the_present_request_is_for_much_later() {
        let it = armed(1);
        let when_ns = 50_000_000;
        assert!(it.ask_for_check(when_ns));
        assert!(!it.ask_for_check(u64::MAX - 1) && !it.ask_for_check(when_ns));
        let earlier_ns = when_ns - LOOKS_EVERY_NS;
        assert!(!it.ask_for_check(earlier_ns), "the first is early enough");
        let earliest_ns = earlier_ns - LOOKS_EVERY_NS - 1;
        assert!(it.ask_for_check(earliest_ns));
        assert_eq!(
            [it.take_asked(), it.take_asked()],
            [Some(earliest_ns), None]
        );
    }

    #[test]
    fn it_is_over_after_a_while_without_a_long_poll() {
        let it = armed(1_000);
        assert!(it.may_be_on() && it.is_on(999));
        assert!(!it.is_on(1_000));
        assert!(!it.may_be_on() && !it.is_on(0));
        it.arm(5_000);
        assert!(it.is_on(5_000 + ARMED_NS - 1) && !it.is_on(5_000 + ARMED_NS));
    }

    #[test]
    fn it_is_on_at_first_for_a_while_from_the_first_look_on() {
        for (turns, first_ns) in [
            (Turns::ByArrival, ARMED_NS),
            (Turns::ByRank, FIRST_BY_RANK_NS),
        ] {
            let it = Armed::<Host>::new(turns);
            assert!(it.may_be_on() && it.is_on(1_000));
            assert!(it.is_on(999 + first_ns) && !it.is_on(1_000 + first_ns));
            assert!(!it.may_be_on());
        }
    }

    #[test]
    fn it_is_raised_in_steps_and_at_the_end_of_time() {
        let it = armed(0);
        it.arm(0);
        it.arm(ARMED_STEP_NS - 1);
        assert!(!it.is_on(ARMED_NS));
        it.arm(u64::MAX - 1);
        assert!(it.is_on(u64::MAX - 1));
    }
}
