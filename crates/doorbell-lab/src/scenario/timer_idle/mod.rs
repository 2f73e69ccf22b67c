//! `doorbell lab timer-idle`: what periodic timers wake.
//!
//! A program that mostly waits has many timers and little work. The fewer wake-ups its timers need, the
//! longer its CPUs sleep.

mod columns;
mod schedule;
mod tickers;

use std::time::Duration;

use super::contestant::Stage;
use super::options::Options;
use super::timers::{AsyncIo, Doorbell, Tokio, wakeups};
use super::trial::{Plan, Trial, Work, run as run_trials};
use crate::error::LabError;
use crate::report::Report;
use tickers::Tickers;

/// How long the timers tick in a pass, in ms.
const SPAN_MS: u32 = 3_000;
/// The same for a first look.
const SPAN_QUICK_MS: u32 = 1_000;
/// How long they tick before the measurement, in ms.
const WARM_UP_MS: u32 = 200;
/// The slack of one contestant's timers.
const SLACK: Duration = Duration::from_millis(1);
/// The single group: all are compared with one baseline.
const GROUP: &str = "all";
/// A pass that takes longer counts as hung.
const PASS_MAX: Duration = Duration::from_mins(1);

pub(super) fn contestants(stage: Stage) -> Vec<Box<dyn Trial>> {
    let one = |slack, is_pinned, variant| -> Box<dyn Trial> {
        let timers = Doorbell {
            slack,
            is_pinned,
            ..Doorbell::default()
        };
        Box::new(Tickers::new(stage, timers, variant))
    };
    vec![
        Box::new(Tickers::new(stage, Tokio, "interval").baseline()),
        Box::new(Tickers::new(stage, AsyncIo, "500 futures on each thread")),
        one(SLACK, false, "slack 1 ms"),
        one(SLACK, true, "slack 1 ms, pinned tasks"),
        one(Duration::ZERO, false, "slack 0"),
        one(Duration::ZERO, true, "slack 0, pinned tasks"),
    ]
}

/// Runs the scenario.
///
/// # Errors
/// Any [`LabError`], for example too few CPUs, a filter that matches no contestant, or a failing
/// contestant.
pub(crate) fn run(options: &Options) -> Result<Report, LabError> {
    let amount = if options.quick {
        SPAN_QUICK_MS
    } else {
        SPAN_MS
    };
    let plan = Plan {
        scenario: "timer-idle",
        work: Work {
            amount,
            warm_up: WARM_UP_MS,
            counted: SPAN_QUICK_MS,
            pass_max: PASS_MAX,
        },
        compared: "wakeups_per_op",
        spreads: &wakeups::SPREADS,
        columns: columns::columns(),
        chart: columns::chart(),
        conclude: columns::conclude,
    };
    run_trials(plan, options, contestants)
}

#[cfg(test)]
mod tests;
