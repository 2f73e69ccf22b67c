//! When the watchdog looks next, and when it parks. Plain numbers: the caller tells it all times.

/// The time between two looks: a lane whose pulse is the same at both is stuck.
pub(super) const LOOK_NS: u64 = 250_000;

/// The longest time between two looks while nobody can help.
const SLOW_NS: u64 = 4_000_000;

/// After so many looks in a row that found nothing the watchdog parks: they cost about what the next ring would.
const QUIET_LOOKS: u32 = 4;

/// So many times its own CPU time is to pass, in the long run.
const CPU_SHARE: u64 = 40;

/// By so much the time that its looks are worth may go beyond the time that has passed, before looks become rarer: a few
/// looks in a row are not slowed down where the watchdog has slept for long.
const OWED_MAX_NS: u64 = 10_000_000;

/// The watchdog reads its own CPU time once in so many looks.
const LOOKS_PER_CPU: u32 = 16;

/// By how much a timer is late before the watchdog has another lane fire it.
pub(super) const OVERDUE_NS: u64 = 100_000;

/// A timer that is due earlier than the watchdog looks rings it only if it is earlier by more than this.
pub(super) const SLACK_NS: u64 = 200_000;

/// So many parks in a row may be ended by a timer for nothing before the watchdog rests.
const VAIN_MAX: u32 = 8;

/// The first rest, and the longest: each is twice as long as the one before.
const REST_MIN_NS: u64 = 50_000_000;
const REST_MAX_NS: u64 = 10_000_000_000;

/// What a look has found, the weakest first.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Found {
    /// Nothing waits behind a poll.
    Nothing,
    /// Something waits behind a poll, which is not long so far.
    Behind,
    /// A lane is stuck, and no other lane can help.
    Alone,
    /// A lane is stuck, and another lane was asked to help.
    Asked,
}

/// What the watchdog does next.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// It looks again after so long.
    Look(u64),
    /// It parks.
    Park,
}

/// How the watchdog parks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parking {
    /// When it looks at timers; 0 while it rests, which is before all timers: nobody rings it for one.
    pub(super) looks_ns: u64,
    /// When its park ends by itself, if ever.
    pub(super) until_ns: Option<u64>,
}

/// What ended a park.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// Somebody has armed it, or it has not slept.
    Armed,
    /// Its time.
    Time,
}

/// What the clocks of the watchdog show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Read {
    pub(super) now_ns: u64,
    /// The CPU time of its thread.
    pub(super) cpu_ns: u64,
}

/// The pace of the looks.
#[derive(Debug)]
pub(super) struct Pace {
    step_ns: u64,
    /// How many looks in a row found nothing.
    quiet: u32,
    quiet_max: u32,
    /// A timer has ended the last park, and no lane was stuck since.
    is_vain: bool,
    /// How many parks in a row a timer has ended for nothing.
    vain: u32,
    /// Until then no timer ends a park.
    rests_until_ns: u64,
    /// Looks until it reads the clocks, what they showed, how much time is still to pass for the looks so far, and the time
    /// between two looks that this asks for.
    looks_left: u32,
    read: Read,
    owed_ns: u64,
    least_ns: u64,
}

impl Pace {
    /// A fast one. In a model each look that finds nothing is the last: another one shows nothing new.
    pub(super) fn new(is_model: bool) -> Self {
        Pace {
            step_ns: LOOK_NS,
            quiet: 0,
            quiet_max: if is_model { 1 } else { QUIET_LOOKS },
            is_vain: false,
            vain: 0,
            rests_until_ns: 0,
            looks_left: LOOKS_PER_CPU,
            read: Read::default(),
            owed_ns: 0,
            least_ns: 0,
        }
    }

    /// A look has found that; `read` reads the clocks.
    pub(super) fn after(&mut self, found: Found, read: impl FnOnce() -> Read) -> Next {
        self.looks_left -= 1;
        if self.looks_left == 0 {
            self.looks_left = LOOKS_PER_CPU;
            self.pay(read());
        }
        self.quiet = match found {
            Found::Nothing => self.quiet.saturating_add(1),
            _ => 0,
        };
        self.step_ns = match found {
            Found::Alone => (2 * self.step_ns).min(SLOW_NS),
            Found::Nothing | Found::Behind | Found::Asked => LOOK_NS,
        };
        if found >= Found::Alone {
            self.is_vain = false;
            self.vain = 0;
            self.rests_until_ns = 0;
        }
        if self.quiet >= self.quiet_max {
            Next::Park
        } else {
            Next::Look(self.step_ns.max(self.least_ns))
        }
    }

    /// Makes looks rarer if they have taken more than their share of a CPU.
    fn pay(&mut self, now: Read) {
        let before = std::mem::replace(&mut self.read, now);
        let used_ns = now.cpu_ns.saturating_sub(before.cpu_ns);
        let worth_ns = used_ns.saturating_mul(CPU_SHARE);
        let passed_ns = now.now_ns.saturating_sub(before.now_ns);
        self.owed_ns = self
            .owed_ns
            .saturating_add(worth_ns)
            .saturating_sub(passed_ns);
        self.least_ns = if self.owed_ns > OWED_MAX_NS {
            worth_ns / u64::from(LOOKS_PER_CPU)
        } else {
            0
        };
    }

    /// The watchdog parks; the next timer of its lanes is due at `due_ns`, `u64::MAX` if there is none.
    pub(super) fn park(&mut self, now_ns: u64, due_ns: u64) -> Parking {
        if std::mem::take(&mut self.is_vain) {
            self.vain = self.vain.saturating_add(1);
            self.rests_until_ns = now_ns.saturating_add(rest_ns(self.vain));
        }
        if now_ns < self.rests_until_ns {
            return Parking {
                looks_ns: 0,
                until_ns: Some(self.rests_until_ns),
            };
        }
        let looks_ns = due_ns.saturating_add(OVERDUE_NS);
        Parking {
            looks_ns,
            until_ns: (looks_ns != u64::MAX).then_some(looks_ns),
        }
    }

    /// A park has ended.
    pub(super) fn woken(&mut self, parking: Parking, ended: Ended) {
        self.is_vain = ended == Ended::Time && parking.looks_ns != 0;
    }
}

/// How long no timer ends a park, after so many in a row that one has ended for nothing.
fn rest_ns(vain: u32) -> u64 {
    let Some(doublings) = vain.checked_sub(VAIN_MAX + 1) else {
        return 0;
    };
    let factor = 1u64.checked_shl(doublings).unwrap_or(u64::MAX);
    REST_MIN_NS.saturating_mul(factor).min(REST_MAX_NS)
}

#[cfg(test)]
mod tests {
    use super::{
        CPU_SHARE, Ended, Found, LOOK_NS, LOOKS_PER_CPU, Next, OVERDUE_NS, Pace, Parking,
        QUIET_LOOKS, REST_MAX_NS, REST_MIN_NS, Read, SLOW_NS, VAIN_MAX,
    };

    fn pace() -> Pace {
        Pace::new(false)
    }

    fn after(pace: &mut Pace, found: Found) -> Next {
        pace.after(found, Read::default)
    }

    #[test]
    fn it_parks_after_a_few_looks_in_a_row_that_found_nothing() {
        let mut pace = pace();
        for round in 0..2 {
            for _ in 1..QUIET_LOOKS {
                assert_eq!(after(&mut pace, Found::Nothing), Next::Look(LOOK_NS));
            }
            if round == 0 {
                assert_eq!(after(&mut pace, Found::Behind), Next::Look(LOOK_NS));
            }
        }
        assert_eq!(after(&mut pace, Found::Nothing), Next::Park);
        assert_eq!(
            after(&mut pace, Found::Nothing),
            Next::Park,
            "it stayed awake"
        );
        assert_eq!(after(&mut pace, Found::Behind), Next::Look(LOOK_NS));
    }

    #[test]
    fn it_slows_down_while_nobody_can_help_and_not_after() {
        let mut pace = pace();
        let mut slower_ns = LOOK_NS;
        while slower_ns < SLOW_NS {
            slower_ns = (2 * slower_ns).min(SLOW_NS);
            assert_eq!(after(&mut pace, Found::Alone), Next::Look(slower_ns));
        }
        assert_eq!(after(&mut pace, Found::Alone), Next::Look(SLOW_NS));
        assert_eq!(after(&mut pace, Found::Asked), Next::Look(LOOK_NS));
    }

    /// Looks that take so much CPU time each and follow each other at once. For how long, and the time between the last two.
    fn looks(pace: &mut Pace, now: &mut Read, looks: u32, look_ns: u64) -> (u64, u64) {
        let (from_ns, mut last_ns) = (now.now_ns, 0);
        for _ in 0..looks {
            now.cpu_ns += look_ns;
            let Next::Look(after_ns) = pace.after(Found::Behind, || *now) else {
                panic!("it parks")
            };
            now.now_ns += after_ns;
            last_ns = after_ns;
        }
        (now.now_ns - from_ns, last_ns)
    }

    #[test]
    fn it_takes_no_more_than_its_share_of_a_cpu_in_the_long_run() {
        let (mut pace, mut now) = (pace(), Read::default());
        let few = LOOKS_PER_CPU;
        assert_eq!(looks(&mut pace, &mut now, few, 20_000).1, LOOK_NS);
        let many = 1_000;
        let (took_ns, last_ns) = looks(&mut pace, &mut now, many, 20_000);
        assert!(last_ns <= 20_000 * CPU_SHARE && last_ns > LOOK_NS);
        let share_ns = 20_000 * CPU_SHARE * u64::from(many);
        assert!((share_ns - 20_000_000..=share_ns).contains(&took_ns));
        // It has slept for long.
        now.now_ns += 1_000_000_000;
        let _ = looks(&mut pace, &mut now, LOOKS_PER_CPU, 20_000);
        assert_eq!(looks(&mut pace, &mut now, few, 20_000).1, LOOK_NS);
    }

    #[test]
    fn cheap_looks_are_not_slowed_down() {
        let (mut pace, mut now) = (pace(), Read::default());
        let looks = looks(&mut pace, &mut now, 1_000, 1_000);
        assert_eq!(looks, (1_000 * LOOK_NS, LOOK_NS));
    }

    /// Parks that a timer ends for nothing, each at its time. Returns when the last one ended.
    fn in_vain(pace: &mut Pace, mut now_ns: u64, parks: u32) -> u64 {
        for _ in 0..parks {
            let parking = pace.park(now_ns, now_ns + 1);
            let until_ns = parking.until_ns.expect("there is a timer");
            pace.woken(parking, Ended::Time);
            now_ns = until_ns;
        }
        now_ns
    }

    #[test]
    fn it_parks_until_the_next_timer_is_late_and_for_ever_if_there_is_none() {
        let mut pace = pace();
        let parking = pace.park(5, 1_000);
        assert_eq!(parking.looks_ns, 1_000 + OVERDUE_NS);
        assert_eq!(parking.until_ns, Some(parking.looks_ns));
        let parking = pace.park(5, u64::MAX);
        assert_eq!((parking.looks_ns, parking.until_ns), (u64::MAX, None));
    }

    #[test]
    fn timers_that_wake_it_for_nothing_make_it_rest_ever_longer() {
        let mut pace = pace();
        let mut now_ns = in_vain(&mut pace, 0, VAIN_MAX + 1);
        let mut rest_ns = REST_MIN_NS;
        for _ in 0..20 {
            let rest = Parking {
                looks_ns: 0,
                until_ns: Some(now_ns + rest_ns),
            };
            assert_eq!(pace.park(now_ns, now_ns + 1), rest);
            // Whoever arms it meanwhile does not end the rest.
            pace.woken(rest, Ended::Armed);
            assert_eq!(pace.park(now_ns + 1, now_ns + 2), rest);
            pace.woken(rest, Ended::Time);
            now_ns = in_vain(&mut pace, now_ns + rest_ns, 1);
            rest_ns = (2 * rest_ns).min(REST_MAX_NS);
        }
        assert_eq!(rest_ns, REST_MAX_NS);
    }

    #[test]
    fn a_rest_leaves_it_asleep_where_no_timer_is_left() {
        let mut pace = pace();
        let now_ns = in_vain(&mut pace, 0, VAIN_MAX + 1);
        let rest = pace.park(now_ns, u64::MAX);
        assert_eq!(rest.until_ns, Some(now_ns + REST_MIN_NS));
        pace.woken(rest, Ended::Time);
        assert_eq!(pace.park(now_ns + REST_MIN_NS, u64::MAX).until_ns, None);
    }

    #[test]
    fn a_stuck_lane_ends_the_rest() {
        let mut pace = pace();
        let now_ns = in_vain(&mut pace, 0, VAIN_MAX + 3);
        assert_eq!(pace.park(now_ns, now_ns + 1).looks_ns, 0);
        let _ = after(&mut pace, Found::Asked);
        assert_ne!(pace.park(now_ns, now_ns + 1).looks_ns, 0);
        let now_ns = in_vain(&mut pace, now_ns, VAIN_MAX);
        assert_ne!(pace.park(now_ns, now_ns + 1).looks_ns, 0, "it counts anew");
    }

    #[test]
    fn a_timer_that_showed_a_stuck_lane_was_not_in_vain() {
        let mut pace = pace();
        for _ in 0..3 * VAIN_MAX {
            let parking = pace.park(0, 1);
            assert_ne!(parking.looks_ns, 0);
            pace.woken(parking, Ended::Time);
            let _ = after(&mut pace, Found::Asked);
        }
    }
}
