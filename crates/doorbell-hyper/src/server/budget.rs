//! [`Budget`]: how much of a core's time urgent connections take from class Fair.

use doorbell::time::{Instant, Sleep, sleep_until};
use doorbell::{ClassKind, CoreId, Handle, LaneState, Policy};
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
    /// Whether the OS lets it go before all other threads. Else that shares the CPU out, also in the midst of a poll,
    /// so that how long one took by the clock says little.
    goes_first: bool,
    /// Of the period that goes on, or was the last, with what is left of those before it.
    spent: Cell<Option<Spent>>,
}

doorbell::lane_local! {
    static METER: Meter = Meter::new();
}

impl Meter {
    fn new() -> Self {
        let is_urgent = doorbell::current_class().is_some_and(|it| it.kind() == ClassKind::Rt);
        let core = doorbell::current_core().filter(|_| is_urgent);
        let beside = core.map(|core| (Handle::current(), core));
        let goes_first = |(handle, core): &(Handle, CoreId)| {
            let policies = handle.policies();
            let mut of_it = policies
                .iter()
                .filter(|lane| lane.core() == *core && lane.class() == ClassKind::Rt);
            of_it.any(|lane| matches!(lane.got(), Some(Policy::Fifo { .. })))
        };
        Meter {
            goes_first: beside.as_ref().is_some_and(goes_first),
            beside,
            spent: Cell::new(None),
        }
    }

    /// Connections have run for so long.
    fn spend(&self, ran: Duration) {
        if let Some(mut it) = self.spent.get() {
            it.ran += ran;
            self.spent.set(Some(it));
        }
    }

    /// Whether class Fair has something to do on the core of the caller, who is of class Rt.
    fn fair_wants(&self) -> bool {
        let beside = self.beside.as_ref();
        beside.is_some_and(|(handle, core)| handle.lane_state(*core) == Some(LaneState::Running))
    }
}

/// So much of what was run too much is made up for, and one period: else one request that computes, where
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
    fn rests_until(self, meter: &Meter, now: Instant) -> Option<Instant> {
        if self.period.is_zero() {
            // No limit.
            return None;
        }
        let part = self.part();
        let before = meter.spent.get().unwrap_or_else(|| Spent::nothing(now));
        let spent = before.at(now, self.period, part, meter.goes_first);
        meter.spent.set(Some(spent));
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

    /// What is left of it in the period of `now`. Where it does not carry, what is beyond a period's part is forgiven.
    fn at(self, now: Instant, period: Duration, part: Duration, carries: bool) -> Spent {
        let over = times(now.duration_since(self.began), period);
        let ran = if carries {
            self.ran
        } else {
            self.ran.min(part)
        };
        let ran = ran.saturating_sub(part.saturating_mul(over));
        let beyond = part.mul_f64(REST_MAX.as_secs_f64() / period.as_secs_f64());
        let ran = ran.min(part.saturating_add(beyond));
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

/// The wait of one connection.
struct Rest {
    until: Instant,
    sleep: Sleep,
    /// How long it sleeps before it looks whether anybody still has to be let run.
    step: Duration,
}

impl Rest {
    fn begin(until: Instant, now: Instant, period: Duration) -> Self {
        Rest {
            until,
            sleep: sleep_until(until.min(now + period)),
            step: period,
        }
    }

    /// Ready at its end, or when class Fair has nothing to do any more: it looks for that less and less often, since
    /// all of a flood do.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            ready!(Pin::new(&mut self.sleep).poll(cx));
            let now = Instant::now();
            if now >= self.until || METER.try_with(Meter::fair_wants) != Ok(true) {
                return Poll::Ready(());
            }
            self.step *= 2;
            let next = self.until.min(now + self.step);
            self.sleep = sleep_until(next);
        }
    }
}

pin_project! {
    /// A future that is polled within the budget.
    pub(super) struct Within<F> {
        budget: Option<Budget>,
        // Rare, and in each connection: so in a place of its own.
        rest: Option<Box<Rest>>,
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
            ready!(rest.poll(cx));
            *this.rest = None;
            // Else one of a flood might rest again and again.
            has_rested = true;
        }
        // Who keeps nobody waiting is not counted.
        if METER.try_with(Meter::fair_wants) != Ok(true) {
            return this.inner.poll(cx);
        }
        let began = Instant::now();
        let until = METER.try_with(|meter| budget.rests_until(meter, began));
        let until = until.ok().flatten();
        if let Some(until) = until.filter(|_| !has_rested) {
            // Whoever else wakes the task finds it waiting for that time.
            let rest = Rest::begin(until, began, budget.period);
            let rest = this.rest.insert(Box::new(rest));
            ready!(rest.poll(cx));
            *this.rest = None;
        }
        let polled = this.inner.poll(cx);
        let took = began.elapsed();
        let _ = METER.try_with(|meter| meter.spend(took));
        polled
    }
}

/// How the tasks of a server are spawned: connections, and what hyper has to run beside them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tasks {
    /// What urgent ones may take.
    pub(super) budget: Option<Budget>,
    /// Whether they are served while everything computes.
    pub(super) rescuable: bool,
}

impl Tasks {
    pub(super) fn spawn<F>(self, future: F)
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let future = Within::new(self.budget, future);
        drop(if self.rescuable {
            doorbell::task().rescuable().spawn(future)
        } else {
            doorbell::spawn(future)
        });
    }
}

impl<F> Executor<F> for Tasks
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, future: F) {
        self.spawn(future);
    }
}

#[cfg(test)]
mod tests {
    use super::{Budget, METER, Meter, REST_MAX, Rest, Within};
    use doorbell::Builder;
    use doorbell::time::Instant;
    use futures::FutureExt as _;
    use std::cell::Cell;
    use std::future::poll_fn;
    use std::time::Duration;

    /// Of an urgent lane.
    fn meter(goes_first: bool) -> Meter {
        Meter {
            beside: None,
            goes_first,
            spent: Cell::new(None),
        }
    }

    #[test]
    fn what_is_used_up_comes_back_with_the_next_period() {
        for meter in [false, true].map(meter) {
            let budget = Budget::default();
            let half = budget.period.mul_f64(budget.share);
            let began = Instant::now();
            assert_eq!(budget.rests_until(&meter, began), None);
            meter.spend(half.saturating_sub(Duration::from_nanos(1)));
            assert_eq!(budget.rests_until(&meter, began), None);
            meter.spend(Duration::from_nanos(1));
            let until = budget.rests_until(&meter, began).unwrap();
            assert_eq!(until, began + budget.period);
            let next = budget.rests_until(&meter, until);
            assert_eq!(next, None, "a period begins");
        }
    }

    #[test]
    fn what_runs_for_longer_uses_up_the_periods_that_follow() {
        let (budget, meter) = (Budget::default(), meter(true));
        let half = budget.period.mul_f64(budget.share);
        let began = Instant::now();
        let rests_until = |now| budget.rests_until(&meter, now);
        assert_eq!(rests_until(began), None);
        meter.spend(half * 7 + half / 2);
        let until = Some(began + budget.period * 7);
        for periods in [0, 3, 6] {
            let now = began + budget.period * periods + half / 3;
            assert_eq!(rests_until(now), until, "after {periods} periods");
        }
        let paid = began + budget.period * 7;
        assert_eq!(rests_until(paid), None);
        meter.spend(half / 2);
        let next = Some(paid + budget.period);
        assert_eq!(rests_until(paid), next, "the odd half counts too");
        assert_eq!(rests_until(paid + budget.period * 9), None);
    }

    #[test]
    fn it_uses_up_none_where_the_os_shares_the_cpu_out() {
        let (budget, meter) = (Budget::default(), meter(false));
        let began = Instant::now();
        assert_eq!(budget.rests_until(&meter, began), None);
        meter.spend(budget.period * 7);
        let until = began + budget.period;
        assert_eq!(budget.rests_until(&meter, began), Some(until));
        assert_eq!(budget.rests_until(&meter, until), None);
    }

    #[test]
    fn what_runs_for_longer_than_a_long_period_allows_is_of_the_next_one() {
        let (share, period) = (0.5, Duration::from_secs(1));
        let (budget, meter) = (Budget { share, period }, meter(true));
        let began = Instant::now();
        assert_eq!(budget.rests_until(&meter, began), None);
        let took = Duration::from_millis(550);
        meter.spend(took);
        let until = Some(began + period);
        assert_eq!(budget.rests_until(&meter, began + took), until);
        // The 50 ms are of the next one.
        assert_eq!(budget.rests_until(&meter, began + period), None);
        meter.spend(Duration::from_millis(450));
        let until = Some(began + period * 2);
        assert_eq!(budget.rests_until(&meter, began + period), until);
    }

    #[test]
    fn nobody_rests_for_long_after_a_poll_that_took_long() {
        let (short, long) = (Duration::from_millis(2), Duration::from_secs(1));
        for (share, period) in [
            (f64::MIN_POSITIVE, short),
            (f64::MIN_POSITIVE, long),
            (0.5, REST_MAX),
            (0.5, short),
        ] {
            let (budget, meter) = (Budget { share, period }, meter(true));
            let began = Instant::now();
            assert_eq!(budget.rests_until(&meter, began), None);
            let took = Duration::from_secs(100);
            meter.spend(took);
            let now = began + took;
            let most = now + REST_MAX.max(period) + period;
            let until = budget.rests_until(&meter, now).unwrap();
            assert!(until > now + REST_MAX / 2 && until <= most, "{budget:?}");
            assert_eq!(budget.rests_until(&meter, most), None, "{budget:?}");
        }
    }

    #[test]
    fn a_rest_ends_when_nobody_waits_for_it() {
        let runtime = Builder::new().cores(1).build().unwrap();
        let rested = runtime.spawn(async {
            // A lane of class Fair, which keeps no lane of that class waiting.
            let now = Instant::now();
            let until = now + Duration::from_secs(20);
            let mut rest = Rest::begin(until, now, Duration::from_millis(1));
            poll_fn(|cx| rest.poll(cx)).await;
            Instant::now() < until
        });
        assert!(runtime.block_on(rested).unwrap());
    }

    #[test]
    fn a_thread_that_is_no_lane_has_no_limit() {
        assert!(METER.try_with(|_| ()).is_err());
        let budget = Some(Budget {
            share: f64::MIN_POSITIVE,
            period: REST_MAX,
        });
        for _ in 0..3 {
            assert_eq!(Within::new(budget, async {}).now_or_never(), Some(()));
        }
    }
}
