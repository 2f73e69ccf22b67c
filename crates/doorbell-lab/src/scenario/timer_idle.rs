//! `doorbell lab timer-idle`: what periodic timers wake.
//!
//! A program that mostly waits has many timers and little work. The fewer wake-ups its timers need, the
//! longer its CPUs sleep.

use std::time::{Duration, Instant};

use crate::frame::{Contestant, Plan, Stage, Work};
use crate::peers::{Doorbell, Role, Smol, Timers, Tokio, Workers};
use crate::tools::{Lateness, Random, run_all};

const TIMERS: usize = 1_000;
const SPAN_MS: [u32; 2] = [3_000, 1_000];
const PERIOD_S: [f64; 2] = [0.01, 1.0];
const SLACK: Duration = Duration::from_millis(1);
const SEED: u64 = 0x0D00_4BE3;
/// Time for all timers to be armed.
const BEGINS_IN: Duration = Duration::from_millis(20);

pub(super) const PLAN: Plan = Plan {
    scenario: "timer-idle",
    work: |options| Work::of(options.full_or_quick(SPAN_MS), 200, SPAN_MS[1]),
    contestants: |stage| Ok(contestants(stage)),
    compared: "wakeups_per_op",
    ..Plan::NEW
};

fn contestants(stage: &Stage) -> Vec<Contestant> {
    let none = Duration::ZERO;
    let all = vec![
        tickers::<Tokio>(stage, "interval", none, Role::from).baseline(),
        tickers::<Smol>(stage, "interval", none, Role::from),
        tickers::<Doorbell>(stage, "slack 1 ms", SLACK, Role::from),
        tickers::<Doorbell>(stage, "slack 1 ms, pinned tasks", SLACK, Role::on),
        tickers::<Doorbell>(stage, "slack 0", none, Role::from),
        tickers::<Doorbell>(stage, "slack 0, pinned tasks", none, Role::on),
    ];
    all.into_iter().map(|one| one.in_group("all")).collect()
}

/// When a timer ticks.
#[derive(Debug, Clone, Copy)]
struct Schedule {
    start: Instant,
    period: Duration,
    ticks: u32,
}

fn schedules(begin: Instant, span: Duration) -> impl Iterator<Item = Schedule> {
    let mut random = Random::seeded(SEED);
    let [low, high] = PERIOD_S;
    (0..TIMERS).map(move |_| {
        let period = Duration::from_secs_f64(random.log_between(low, high));
        let offset = period.mul_f64(random.part());
        let rest = span.saturating_sub(offset).as_nanos();
        Schedule {
            start: begin + offset,
            period,
            ticks: rest.div_ceil(period.as_nanos()) as u32,
        }
    })
}

fn tickers<P: Timers>(
    stage: &Stage,
    variant: &str,
    slack: Duration,
    role: fn(usize) -> Role,
) -> Contestant {
    let workers = Workers::on(stage.cpus());
    let run = move |peer: &mut P, span_ms: u32| {
        let begin = Instant::now() + BEGINS_IN;
        let all: Vec<_> = schedules(begin, Duration::from_millis(span_ms.into())).collect();
        let due = all.iter().map(|schedule| u64::from(schedule.ticks)).sum();
        let ticking = |(index, schedule)| (role(index % 2), tick_all::<P>(schedule, slack));
        let ticked = run_all(peer, all.into_iter().enumerate().map(ticking))?;
        Lateness::outcome_of(&ticked, "ticks", due)
    };
    Contestant::of(variant, move || P::start(&workers), run)
}

async fn tick_all<P: Timers>(schedule: Schedule, slack: Duration) -> Lateness {
    let mut lateness = Lateness::default();
    let mut ticks = P::ticks(schedule.start, schedule.period, slack);
    for tick in 0..schedule.ticks {
        P::tick(&mut ticks).await;
        lateness.note(schedule.start + schedule.period * tick, Instant::now());
    }
    lateness
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::testing::{assert_plan, contestants, outcome, try_each};
    use crate::scenario::Options;

    #[test]
    fn everybody_ticks_in_time() {
        try_each(contestants(&PLAN, &Options::default()), |one, run| {
            let outcome = outcome(one, run, 50);
            assert!(outcome.operations > 500, "{one:?}");
            assert_eq!(outcome.figures.get("early_count"), Some(&0.0), "{one:?}");
        });
    }

    #[test]
    fn the_plan_fits() {
        let kept = ["wake-ups/tick", "x tokio", "CPU %", "p50 us", "p99 us"];
        assert_plan(&PLAN, &Options::default(), &kept);
    }
}
