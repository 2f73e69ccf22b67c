//! The clock of the timers: the machine's, or one that stands still until it is set.

use super::quiescence::Quiescence;
use doorbell_machine::{Machine, Ordering, Word};

/// `frozen_ns` of a clock that runs.
const RUNS: u64 = u64::MAX;

/// The clock of a runtime.
#[derive(Debug)]
pub struct Clock<M: Machine> {
    frozen_ns: M::U64,
    /// Decides when a paused clock goes on; `None` for any other clock.
    pub(super) quiescence: Option<Quiescence<M>>,
}

impl<M: Machine> Default for Clock<M> {
    /// A clock that runs with the machine's.
    fn default() -> Self {
        Clock {
            frozen_ns: M::U64::new(RUNS),
            quiescence: None,
        }
    }
}

impl<M: Machine> Clock<M> {
    /// A clock that stands at the machine's present time.
    pub fn frozen() -> Self {
        Clock {
            frozen_ns: M::U64::new(M::now_ns().min(RUNS - 1)),
            quiescence: None,
        }
    }

    /// Nanoseconds since the machine's fixed point.
    #[inline]
    pub fn now_ns(&self) -> u64 {
        // ORDER: Acquire pairs with the Release of `step`: a thread that sees the time sees what was done
        // before it was set.
        match self.frozen_ns.load(Ordering::Acquire) {
            RUNS => M::now_ns(),
            frozen_ns => frozen_ns,
        }
    }

    /// Whether `when_ns` has come. Cheaper than [`Clock::now_ns`], but may miss a moment that came just now.
    #[inline]
    pub fn has_passed(&self, when_ns: u64) -> bool {
        // ORDER: Acquire as in `now_ns`.
        match self.frozen_ns.load(Ordering::Acquire) {
            RUNS => when_ns <= M::now_ns_unordered(),
            frozen_ns => when_ns <= frozen_ns,
        }
    }

    /// A moment by which `duration_ns` will have passed, also by the OS's clock, which may be ahead of this one.
    #[inline]
    pub fn after_ns(&self, duration_ns: u64) -> u64 {
        // ORDER: Acquire as in `now_ns`.
        match self.frozen_ns.load(Ordering::Acquire) {
            RUNS => M::now_ns_unordered()
                .saturating_add(duration_ns)
                .saturating_add(M::LAG_NS_MAX),
            frozen_ns => frozen_ns.saturating_add(duration_ns),
        }
    }

    /// As [`Clock::after_ns`], by the OS's clock itself: slower, but not later than asked for.
    #[inline]
    pub fn after_exactly_ns(&self, duration_ns: u64) -> u64 {
        if self.is_frozen() {
            return self.after_ns(duration_ns);
        }
        M::os_now_ns().saturating_add(duration_ns)
    }

    /// Whether it stands still.
    pub fn is_frozen(&self) -> bool {
        // ORDER: Relaxed; a clock stays frozen or running all its life.
        self.frozen_ns.load(Ordering::Relaxed) != RUNS
    }

    /// Sets a frozen clock forward to a time, never back. Does nothing to a running clock.
    pub fn advance_to(&self, when_ns: u64) {
        self.step(|seen_ns| seen_ns.max(when_ns));
    }

    /// Sets a frozen clock to what `next_ns` makes of its time. Does nothing to a running clock.
    pub(super) fn step(&self, next_ns: impl Fn(u64) -> u64) {
        // ORDER: Relaxed; a first guess.
        let mut seen = self.frozen_ns.load(Ordering::Relaxed);
        while seen != RUNS {
            let next_ns = next_ns(seen).min(RUNS - 1);
            if next_ns == seen {
                return;
            }
            // ORDER: Release pairs with the Acquire of `now_ns`. Relaxed on failure: only the next guess.
            match self.frozen_ns.compare_exchange(
                seen,
                next_ns,
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }
}
