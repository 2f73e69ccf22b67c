//! [`Budget`]: how much of a core's time urgent connections take from class Fair.

use crate::DoorbellExecutor;
use doorbell::time::{Instant, Sleep, sleep_until};
use doorbell::{ClassKind, CoreId, Handle, LaneState};
use hyper::rt::Executor;
use pin_project_lite::pin_project;
use std::cell::Cell;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

/// How much of each period the connections of a lane may run while class Fair has something to do on
/// that core.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    pub(super) share: f64,
    pub(super) period: Duration,
}

impl Default for Budget {
    fn default() -> Self {
        Budget {
            share: 0.5,
            period: Duration::from_millis(2),
        }
    }
}

/// What the connections of a lane have used up.
#[derive(Clone, Copy, Debug)]
struct Spent {
    began: Instant,
    ran: Duration,
}

/// What a lane keeps for its connections.
struct Meter {
    /// If it is urgent: whose core it shares with which Fair lane.
    beside: Option<(Handle, CoreId)>,
    /// Of the period that goes on, or was the last.
    spent: Cell<Option<Spent>>,
}

doorbell::lane_local! {
    static METER: Meter = Meter::new();
}

impl Meter {
    fn new() -> Self {
        let is_urgent = doorbell::current_class().is_some_and(|it| it.kind() == ClassKind::Rt);
        let core = doorbell::current_core().filter(|_| is_urgent);
        Meter {
            beside: core.map(|core| (Handle::current(), core)),
            spent: Cell::new(None),
        }
    }

    /// Whether class Fair has something to do on the core of the caller, who is of class Rt.
    fn fair_wants(&self) -> bool {
        let beside = self.beside.as_ref();
        beside.is_some_and(|(handle, core)| handle.lane_state(*core) == Some(LaneState::Running))
    }
}

/// A lane's connections rest no longer than this, or than a period: else one request that computes, where
/// others are cheap, would keep them from running for as long as it likes.
const REST_MAX: Duration = Duration::from_millis(100);

impl Budget {
    /// What may run in each period. More than nothing, else no debt would ever be paid.
    fn part(self) -> Duration {
        let part = self.period.mul_f64(self.share);
        part.max(Duration::from_nanos(1))
    }

    /// When connections may run again, if what may run in this period is used up.
    ///
    /// Whoever ran for longer has used up following periods too: a poll is not interrupted, so one that takes
    /// longer than a period would else have no limit, nor would many that rested until the same time.
    fn rests_until(self, now: Instant) -> Option<Instant> {
        if self.period.is_zero() {
            return None;
        }
        let part = self.part();
        // On a thread that is no lane nothing is urgent.
        let spent = METER.try_with(|Meter { spent, .. }| {
            let it = spent
                .get()
                .map_or_else(|| Spent::nothing(now), |it| it.at(now, self.period, part));
            spent.set(Some(it));
            it
        });
        let spent = spent.ok()?;
        let periods = times(spent.ran, part);
        (periods > 0).then(|| spent.began + self.period * periods)
    }
}

/// How many times the part is in the whole.
fn times(whole: Duration, part: Duration) -> u32 {
    u32::try_from(whole.as_nanos() / part.as_nanos()).unwrap_or(u32::MAX)
}

impl Spent {
    fn nothing(now: Instant) -> Spent {
        Spent {
            began: now,
            ran: Duration::ZERO,
        }
    }

    /// What is left of it in the period of `now`.
    fn at(self, now: Instant, period: Duration, part: Duration) -> Spent {
        let most = times(REST_MAX, period).max(1);
        let over = times(now.duration_since(self.began), period);
        let ran = self.ran.min(part.saturating_mul(most));
        let ran = ran.saturating_sub(part.saturating_mul(over));
        // One that begins without a debt begins when it is used.
        if over > 0 && ran.is_zero() {
            return Spent::nothing(now);
        }
        Spent {
            began: self.began + period * over,
            ran,
        }
    }
}

/// Connections have run for so long.
fn spend(ran: Duration) {
    let _ = METER.try_with(|Meter { spent, .. }| {
        if let Some(mut it) = spent.get() {
            it.ran += ran;
            spent.set(Some(it));
        }
    });
}

pin_project! {
    /// A future that is polled within the budget.
    pub(super) struct Within<F> {
        budget: Option<Budget>,
        // Rare, and in each connection: so in a place of its own.
        rest: Option<Box<Sleep>>,
        #[pin]
        inner: F,
    }
}

impl<F> Within<F> {
    pub(super) fn new(budget: Option<Budget>, inner: F) -> Self {
        Within {
            budget,
            rest: None,
            inner,
        }
    }
}

impl<F: Future> Future for Within<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let Some(budget) = *this.budget else {
            return this.inner.poll(cx);
        };
        let mut has_rested = false;
        if let Some(rest) = this.rest {
            ready!(Pin::new(rest).poll(cx));
            *this.rest = None;
            // Else one of a flood might rest again and again.
            has_rested = true;
        }
        // Who keeps nobody waiting is not counted.
        if METER.try_with(Meter::fair_wants) != Ok(true) {
            return this.inner.poll(cx);
        }
        let began = Instant::now();
        let until = budget.rests_until(began);
        if let Some(until) = until.filter(|_| !has_rested) {
            // Whoever else wakes the task finds it waiting for that time.
            let rest = this.rest.insert(Box::new(sleep_until(until)));
            ready!(Pin::new(rest).poll(cx));
            *this.rest = None;
        }
        let polled = this.inner.poll(cx);
        spend(began.elapsed());
        polled
    }
}

/// Spawns what hyper has to run beside a connection, within the same budget.
#[derive(Clone, Copy, Debug)]
pub(super) struct BudgetedExecutor(pub(super) Option<Budget>);

impl<F> Executor<F> for BudgetedExecutor
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, future: F) {
        DoorbellExecutor.execute(Within::new(self.0, future));
    }
}

#[cfg(test)]
mod tests {
    use super::{Budget, METER, Meter, REST_MAX, spend};
    use doorbell::Builder;
    use doorbell::time::Instant;
    use std::time::Duration;

    #[test]
    fn what_is_used_up_comes_back_with_the_next_period() {
        let runtime = Builder::new().cores(1).build().unwrap();
        let looked = runtime.spawn(async {
            let budget = Budget::default();
            let half = budget.period.mul_f64(budget.share);
            let began = Instant::now();
            assert_eq!(budget.rests_until(began), None);
            spend(half.saturating_sub(Duration::from_nanos(1)));
            assert_eq!(budget.rests_until(began), None);
            spend(Duration::from_nanos(1));
            let until = budget.rests_until(began).unwrap();
            assert_eq!(until, began + budget.period);
            assert_eq!(budget.rests_until(until), None, "a period begins");
        });
        runtime.block_on(looked).unwrap();
    }

    #[test]
    fn what_runs_for_longer_uses_up_the_periods_that_follow() {
        let runtime = Builder::new().cores(1).build().unwrap();
        let looked = runtime.spawn(async {
            let budget = Budget::default();
            let half = budget.period.mul_f64(budget.share);
            let began = Instant::now();
            assert_eq!(budget.rests_until(began), None);
            spend(half * 7 + half / 2);
            let until = Some(began + budget.period * 7);
            // It ran for longer than a period, so it looks when the period in which it began is over.
            for periods in [0, 3, 6] {
                let now = began + budget.period * periods + half / 3;
                assert_eq!(budget.rests_until(now), until, "after {periods} periods");
            }
            let paid = began + budget.period * 7;
            assert_eq!(budget.rests_until(paid), None);
            spend(half / 2);
            let next = Some(paid + budget.period);
            assert_eq!(budget.rests_until(paid), next, "the odd half counts too");
            assert_eq!(budget.rests_until(paid + budget.period * 9), None);
        });
        runtime.block_on(looked).unwrap();
    }

    #[test]
    fn nobody_rests_for_long_after_a_poll_that_took_long() {
        let runtime = Builder::new().cores(1).build().unwrap();
        let looked = runtime.spawn(async {
            let long = Duration::from_secs(1);
            for (period, most) in [
                (Duration::from_millis(2), REST_MAX),
                (long, long),
                (REST_MAX, REST_MAX),
            ] {
                let share = f64::MIN_POSITIVE;
                let budget = Budget { share, period };
                METER.with(|Meter { spent, .. }| spent.set(None));
                let began = Instant::now();
                assert_eq!(budget.rests_until(began), None);
                spend(Duration::from_secs(100));
                assert_eq!(budget.rests_until(began), Some(began + most));
            }
        });
        runtime.block_on(looked).unwrap();
    }

    #[test]
    fn a_thread_that_is_no_lane_has_no_limit() {
        spend(Duration::from_secs(1));
        assert_eq!(Budget::default().rests_until(Instant::now()), None);
    }
}
