//! [`Interval`]: something that happens again and again.

use super::{Instant, Sleep, sleep_until};
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// The most by which a tick may be taken late and still count as in time, unless the period is shorter.
const LATE_MAX: Duration = Duration::from_millis(5);

/// What an interval does about ticks that its owner was too late for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissedTicks {
    /// They follow at once, until the interval has caught up.
    #[default]
    Burst,
    /// The next one comes a whole period after the late one was taken. A tick counts as late if it is taken
    /// more than 5 ms, or a period if that is shorter, and the [slack](Interval::slack) after it was due: so
    /// ticks that are taken at once stay a period apart and do not drift.
    Delay,
    /// They are left out; the next one comes at a multiple of the period.
    Skip,
}

/// Ticks at a fixed distance. See [`interval`].
#[derive(Debug)]
pub struct Interval {
    period: Duration,
    missed: MissedTicks,
    sleep: Sleep,
}

/// Ticks every `period`, for the first time at once.
///
/// # Panics
/// If the period is zero: there would be no end of ticks.
#[track_caller]
pub fn interval(period: Duration) -> Interval {
    interval_at(Instant::now(), period)
}

/// Ticks every `period`, for the first time at `start`.
///
/// # Panics
/// If the period is zero: there would be no end of ticks.
#[track_caller]
pub fn interval_at(start: Instant, period: Duration) -> Interval {
    assert!(
        !period.is_zero(),
        "an interval needs a period longer than zero"
    );
    Interval {
        period,
        missed: MissedTicks::default(),
        sleep: sleep_until(start),
    }
}

impl Interval {
    /// What to do about missed ticks; [`MissedTicks::Burst`] unless told.
    #[must_use]
    pub fn missed_ticks(mut self, missed: MissedTicks) -> Interval {
        self.missed = missed;
        self
    }

    /// Allows ticks to be late by up to so much; see [`Sleep::slack`].
    #[must_use]
    pub fn slack(mut self, slack: Duration) -> Interval {
        self.sleep = self.sleep.slack(slack);
        self
    }

    /// The period.
    pub fn period(&self) -> Duration {
        self.period
    }

    /// Waits for the next tick; returns when it was due.
    pub async fn tick(&mut self) -> Instant {
        poll_fn(|cx| self.poll_tick(cx)).await
    }

    /// Polls for the next tick; ready with the moment it was due.
    pub fn poll_tick(&mut self, cx: &mut Context<'_>) -> Poll<Instant> {
        if Pin::new(&mut self.sleep).poll(cx).is_pending() {
            return Poll::Pending;
        }
        let due = self.sleep.deadline();
        self.sleep.reset(self.after(due));
        Poll::Ready(due)
    }

    /// The tick behind the one that was due then.
    fn after(&self, due: Instant) -> Instant {
        let next = due + self.period;
        match self.missed {
            MissedTicks::Burst => next,
            MissedTicks::Delay => {
                let now = Instant::now();
                let in_time = due + LATE_MAX.min(self.period) + self.sleep.slack_allowed();
                if now <= in_time {
                    next
                } else {
                    now + self.period
                }
            }
            MissedTicks::Skip => {
                let late_ns = Instant::now().duration_since(due).as_nanos();
                let periods = late_ns / self.period.as_nanos();
                let skipped_ns = u64::try_from(periods * self.period.as_nanos());
                next + Duration::from_nanos(skipped_ns.unwrap_or(u64::MAX))
            }
        }
    }

    /// Begins anew: the next tick comes a period from now.
    pub fn reset(&mut self) {
        self.sleep.reset(Instant::now() + self.period);
    }
}
