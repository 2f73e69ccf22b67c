//! [`Interval`]: ticks with a fixed period.

use super::{Instant, Sleep, sleep_until};
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// A tick that is taken at most this late counts as in time. If the period is shorter, the period is the
/// limit.
const LATE_MAX: Duration = Duration::from_millis(5);

/// What an interval does about ticks that were taken late.
#[doc(alias = "MissedTickBehavior")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissedTicks {
    /// Missed ticks follow at once, until the interval has caught up.
    #[default]
    Burst,
    /// After a late tick, the next one comes a whole period after the late one was taken. A tick is late if
    /// it is taken later after its due time than 5 ms (or a period, if that is shorter) plus the
    /// [slack](Interval::slack). So ticks that are taken at once stay a period apart and do not drift.
    Delay,
    /// Missed ticks are left out: the next tick comes at a multiple of the period after the due time of the
    /// last.
    Skip,
}

/// Ticks with a fixed period. See [`interval`].
#[derive(Debug)]
pub struct Interval {
    period: Duration,
    missed: MissedTicks,
    sleep: Sleep,
}

/// An interval that ticks every `period`. The first tick comes at once.
///
/// # Panics
/// If the period is zero.
#[track_caller]
pub fn interval(period: Duration) -> Interval {
    interval_at(Instant::now(), period)
}

/// An interval that ticks every `period`. The first tick comes at `start`.
///
/// # Panics
/// If the period is zero.
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
    /// Sets what to do about missed ticks. The default is [`MissedTicks::Burst`].
    #[doc(alias = "set_missed_tick_behavior")]
    #[must_use]
    pub fn missed_ticks(mut self, missed: MissedTicks) -> Interval {
        self.missed = missed;
        self
    }

    /// Allows ticks to be late by up to `slack`; see [`Sleep::slack`].
    #[must_use]
    pub fn slack(mut self, slack: Duration) -> Interval {
        self.sleep = self.sleep.slack(slack);
        self
    }

    /// The time between two ticks.
    pub fn period(&self) -> Duration {
        self.period
    }

    /// Waits for the next tick. Returns the moment at which it was due.
    pub async fn tick(&mut self) -> Instant {
        poll_fn(|cx| self.poll_tick(cx)).await
    }

    /// Polls for the next tick. Ready with the moment at which it was due.
    #[track_caller]
    pub fn poll_tick(&mut self, cx: &mut Context<'_>) -> Poll<Instant> {
        if Pin::new(&mut self.sleep).poll(cx).is_pending() {
            return Poll::Pending;
        }
        let due = self.sleep.deadline();
        self.sleep.reset(self.after(due));
        Poll::Ready(due)
    }

    /// When the tick after the one at `due` is due.
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

    /// Restarts the interval: the next tick comes a period from now.
    pub fn reset(&mut self) {
        self.reset_after(self.period);
    }

    /// Restarts the interval: the next tick comes at once.
    pub fn reset_immediately(&mut self) {
        self.reset_at(Instant::now());
    }

    /// Restarts the interval: the next tick comes after that time, and the ones after it at the period.
    ///
    /// ```
    /// use doorbell::time::{Instant, interval};
    /// use std::time::Duration;
    ///
    /// let runtime = doorbell::Builder::new().cores(1).start_paused(true).build()?;
    /// runtime.block_on(async {
    ///     let (start, second) = (Instant::now(), Duration::from_secs(1));
    ///     let mut every = interval(10 * second);
    ///     every.tick().await;
    ///     every.reset_after(second);
    ///     assert_eq!(every.tick().await - start, second);
    ///     assert_eq!(every.tick().await - start, 11 * second);
    ///     every.reset_immediately();
    ///     assert_eq!(every.tick().await - start, 11 * second);
    ///     every.reset_at(start + 30 * second);
    ///     assert_eq!(every.tick().await - start, 30 * second);
    /// });
    /// # Ok::<(), doorbell::BuildError>(())
    /// ```
    pub fn reset_after(&mut self, after: Duration) {
        self.reset_at(Instant::now() + after);
    }

    /// Restarts the interval: the next tick comes at that moment, and the ones after it at the period.
    pub fn reset_at(&mut self, at: Instant) {
        self.sleep.reset(at);
    }
}
