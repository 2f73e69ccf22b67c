//! When the timers tick.

use std::time::Duration;

use super::super::timers::Random;

/// How many timers there are.
pub(super) const TIMERS: usize = 1_000;
/// The range of their periods, in seconds.
const PERIOD_S: [f64; 2] = [0.01, 1.0];
/// Makes the periods the same in every run and for every contestant.
const SEED: u64 = 0x0D00_4BE3;

/// One timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Schedule {
    /// The time of its first tick, from the start.
    pub(super) offset: Duration,
    /// The time between two ticks.
    pub(super) period: Duration,
    /// How many ticks come before the end.
    pub(super) ticks: u32,
}

/// All timers, for a pass of this span.
pub(super) fn schedules(span: Duration) -> Vec<Schedule> {
    let mut random = Random::seeded(SEED);
    let [low, high] = PERIOD_S;
    let one = |_| {
        let period = Duration::from_secs_f64(random.log_between(low, high));
        let offset = period.mul_f64(random.part());
        Schedule {
            offset,
            period,
            ticks: ticks(span, offset, period),
        }
    };
    (0..TIMERS).map(one).collect()
}

/// How many of the moments `offset`, `offset + period`, ... lie before `span`.
fn ticks(span: Duration, offset: Duration, period: Duration) -> u32 {
    let rest = span.saturating_sub(offset).as_nanos();
    rest.div_ceil(period.as_nanos()) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_tick_comes_before_the_end() {
        let ms = Duration::from_millis;
        assert_eq!(ticks(ms(100), ms(0), ms(10)), 10);
        assert_eq!(ticks(ms(100), ms(9), ms(10)), 10);
        assert_eq!(ticks(ms(101), ms(0), ms(10)), 11);
        assert_eq!(ticks(ms(100), ms(100), ms(10)), 0);
        assert_eq!(ticks(ms(100), ms(200), ms(300)), 0);
    }

    #[test]
    fn schedules_are_the_same_every_time_and_within_their_bounds() {
        let all = schedules(Duration::from_secs(1));
        assert_eq!(all, schedules(Duration::from_secs(1)));
        assert_eq!(all.len(), TIMERS);
        for one in &all {
            assert!(
                (0.009..1.001).contains(&one.period.as_secs_f64()),
                "{one:?}"
            );
            assert!(one.offset <= one.period && one.ticks > 0, "{one:?}");
        }
        let sum: u32 = all.iter().map(|one| one.ticks).sum();
        // The mean rate of such a timer is 21.5 per second.
        assert!((18_000..26_000).contains(&sum), "{sum}");
    }
}
