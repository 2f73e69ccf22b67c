//! The arithmetic of the TSC clock: how a new pair of TSC and kernel time becomes an anchor. It uses no
//! atomics and reads no clock, so that tests can feed it any course of time.

/// Rates are fixed-point: nanoseconds per tick, shifted by this.
const RATE_SHIFT: u32 = 32;
/// The shortest stretch over which the rate is measured.
const STRETCH_MIN_NS: u64 = 2_000_000;
/// After this time the next stretch begins, so the rate is that of the last one or two seconds.
const STRETCH_MAX_NS: u64 = 1_000_000_000;
/// An anchor older than this is renewed.
const ANCHOR_AGE_NS: u64 = 1_000_000;
/// The rate used is this much below the rate measured.
const CAUTION_PPM: u64 = 1_500;
/// The most time between the two readings of a pair.
pub(super) const PAIR_GAP_NS: u64 = 400;
/// The most by which an anchor may be off, apart from its rate: the gaps of its pair and of the next pair.
const OFF_NS: u64 = 2_000;

/// A TSC reading and the kernel's time, taken together, the TSC last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) tsc: u64,
    pub(super) ns: u64,
}

/// What extrapolation starts from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Anchor {
    pub(super) at: Pair,
    /// Nanoseconds per tick, fixed-point.
    pub(super) rate: u64,
    /// The anchor is valid for this many ticks; zero if it is not valid at all.
    pub(super) age_max: u64,
    /// No time that was returned before is later than this, and none returned from now on may be earlier.
    pub(super) floor_ns: u64,
    /// The pair at which the present stretch began, and the one at which the next will begin.
    pub(super) stretch: [Pair; 2],
}

/// The nanoseconds of `ticks`.
#[inline(always)]
pub(super) fn ns_of(ticks: u64, rate: u64) -> u64 {
    ((u128::from(ticks) * u128::from(rate)) >> RATE_SHIFT) as u64
}

/// Whether the time since the last anchor passed as its rate predicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Course {
    /// It did, or there was no rate yet.
    Steady,
    /// It did not: the computer slept, the TSC was set, or the kernel's clock was slewed hard. The
    /// measurement starts again.
    Broken,
}

impl Anchor {
    /// The anchor that follows this one, from a new pair.
    pub(super) fn renewed(&self, fresh: Pair) -> (Anchor, Course) {
        // The latest time that a reader can have returned: readers stop at `age_max`.
        let age = fresh.tsc.saturating_sub(self.at.tsc);
        let given_out_ns = self
            .at
            .ns
            .saturating_add(ns_of(age.min(self.age_max), self.rate));
        let mut next = Anchor {
            at: fresh,
            floor_ns: if self.age_max > 0 {
                self.floor_ns.max(given_out_ns)
            } else {
                self.floor_ns
            },
            ..*self
        };
        if self.stretch[0].ns == 0 || self.is_broken(fresh) {
            next.stretch = [fresh, fresh];
            next.rate = 0;
            next.age_max = 0;
            let course = if self.rate == 0 {
                Course::Steady
            } else {
                Course::Broken
            };
            return (next, course);
        }
        if fresh.ns - next.stretch[1].ns >= STRETCH_MAX_NS {
            next.stretch = [next.stretch[1], fresh];
        }
        let (ns, ticks) = (
            fresh.ns - next.stretch[0].ns,
            fresh.tsc - next.stretch[0].tsc,
        );
        if ns >= STRETCH_MIN_NS && ticks > 0 {
            next.rate = cautious_rate(ns, ticks);
            let age_max = (u128::from(ANCHOR_AGE_NS) << RATE_SHIFT) / u128::from(next.rate.max(1));
            next.age_max = age_max as u64;
        }
        (next, Course::Steady)
    }

    /// Whether a pair does not fit this anchor: it lies before the anchor, or further from the prediction
    /// than the gaps and twice the caution explain.
    fn is_broken(&self, fresh: Pair) -> bool {
        if fresh.tsc < self.at.tsc || fresh.ns < self.at.ns {
            return true;
        }
        if self.rate == 0 {
            return false;
        }
        let foretold_ns = self
            .at
            .ns
            .saturating_add(ns_of(fresh.tsc - self.at.tsc, self.rate));
        let passed_ns = fresh.ns - self.at.ns;
        let allowed_ns =
            OFF_NS + (u128::from(passed_ns) * 2 * u128::from(CAUTION_PPM) / 1_000_000) as u64;
        // A pair's kernel time is older than its ticks, and soon after an anchor the caution is too small to
        // make up for that.
        let ahead_ns = foretold_ns.saturating_sub(fresh.ns);
        ahead_ns > PAIR_GAP_NS || fresh.ns.saturating_sub(foretold_ns) > allowed_ns
    }
}

/// The nanoseconds per tick over a stretch, less the caution.
fn cautious_rate(ns: u64, ticks: u64) -> u64 {
    let rate = (u128::from(ns) << RATE_SHIFT) / u128::from(ticks);
    (rate * u128::from(1_000_000 - CAUTION_PPM) / 1_000_000) as u64
}

#[cfg(test)]
mod tests {
    use super::{ANCHOR_AGE_NS, Anchor, Course, PAIR_GAP_NS, Pair, ns_of};

    /// The pair at `ns`, with three ticks per nanosecond from arbitrary starts.
    fn at(ns: u64) -> Pair {
        Pair {
            tsc: 77 + 3 * ns,
            ns: 1_000_000 + ns,
        }
    }

    fn now(anchor: &Anchor, tsc: u64) -> Option<u64> {
        let age = tsc.checked_sub(anchor.at.tsc)?;
        let ns = anchor.at.ns + ns_of(age, anchor.rate);
        (age < anchor.age_max).then_some(ns.max(anchor.floor_ns))
    }

    /// The anchor after some milliseconds of steady time.
    fn steady(until_ms: u64) -> Anchor {
        let mut anchor = Anchor::default();
        for ms in 0..=until_ms {
            let (next, course) = anchor.renewed(at(ms * 1_000_000));
            assert_eq!(course, Course::Steady);
            anchor = next;
        }
        anchor
    }

    #[test]
    fn a_steady_course_is_extrapolated_late_and_never_early() {
        let anchor = steady(5_000);
        for passed_ns in (0..ANCHOR_AGE_NS).step_by(777) {
            let true_pair = at(5_000_000_000 + passed_ns);
            let ns = now(&anchor, true_pair.tsc).expect("within the anchor's age");
            assert!(
                ns <= true_pair.ns && true_pair.ns - ns <= 2_000,
                "{passed_ns}"
            );
        }
        assert_eq!(
            now(&anchor, at(5_002_000_000).tsc),
            None,
            "an old anchor does not hold"
        );
    }

    #[test]
    fn the_first_stretch_gives_no_anchor() {
        assert_eq!(steady(1).age_max, 0);
        assert!(steady(2).age_max > 0);
    }

    #[test]
    fn a_tsc_that_ran_on_while_the_computer_slept_is_noticed() {
        // Eight hours of ticks within one millisecond of the kernel's time.
        let slept = Pair {
            tsc: at(100_000_000).tsc + 3 * 8 * 3_600_000_000_000,
            ns: at(101_000_000).ns,
        };
        let (next, course) = steady(100).renewed(slept);
        assert_eq!((course, next.age_max), (Course::Broken, 0));
        assert!(
            next.floor_ns <= slept.ns,
            "nobody was given a time of the sleep"
        );
    }

    #[test]
    fn a_pair_with_a_gap_soon_after_its_anchor_breaks_nothing() {
        let anchor = steady(100);
        let soon = Pair {
            tsc: at(100_010_000).tsc,
            ns: at(100_010_000).ns - PAIR_GAP_NS,
        };
        let (next, course) = anchor.renewed(soon);
        assert_eq!((course, next.rate > 0), (Course::Steady, true));
        let ahead = Pair {
            ns: soon.ns - PAIR_GAP_NS,
            ..soon
        };
        assert_eq!(anchor.renewed(ahead).1, Course::Broken);
    }

    #[test]
    fn a_tsc_that_was_set_back_is_noticed() {
        let back = Pair {
            tsc: 80,
            ns: at(101_000_000).ns,
        };
        assert_eq!(steady(100).renewed(back).1, Course::Broken);
    }

    #[test]
    fn a_clock_slewed_hard_never_steps_back() {
        // The kernel's clock runs 5 per cent fast for a second, then right: the measured rate is too high for
        // a while.
        let mut anchor = Anchor::default();
        let (mut ns, mut tsc, mut last) = (1_000_000u64, 0u64, 0u64);
        for ms in 0..2_000u64 {
            for _ in 0..10 {
                tsc += 300_000;
                ns += if ms < 1_000 { 105_000 } else { 100_000 };
                let given = now(&anchor, tsc).unwrap_or_else(|| {
                    anchor = anchor.renewed(Pair { tsc, ns }).0;
                    ns.max(anchor.floor_ns)
                });
                assert!(given >= last, "{given} after {last} at {ms} ms");
                // Ahead for one anchor at most, by 5 per cent of a millisecond.
                assert!(given <= ns + 60_000, "{given} at {ns}");
                last = given;
            }
        }
    }

    #[test]
    fn an_anchor_renewed_at_once_does_not_step_back() {
        let anchor = steady(100);
        let true_pair = at(100_500_000);
        let given = now(&anchor, true_pair.tsc).unwrap();
        // The next pair has a gap: its kernel time is older than its ticks.
        let gap = Pair {
            tsc: true_pair.tsc + 3,
            ns: given - 300,
        };
        let (next, _) = anchor.renewed(gap);
        assert!(next.floor_ns >= given);
    }
}
