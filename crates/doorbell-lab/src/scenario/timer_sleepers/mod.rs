//! `doorbell lab timer-sleepers`: which sleeping workers wake for their timers.
//!
//! Two workers arm timers; then one sleeps, and the other stays awake in short polls. A wake-up of the sleeper for a
//! timer is one that the awake worker could have spared it.

mod columns;
mod sleepers;

use std::time::Duration;

use doorbell::TimerPull;

use super::contestant::Stage;
use super::options::Options;
use super::timers::{Doorbell, Tokio, wakeups};
use super::trial::{Plan, Trial, Work, run as run_trials};
use crate::error::LabError;
use crate::report::Report;
use sleepers::{Form, Sleepers};

/// How many timers there are.
const TIMERS: usize = 1_000;
/// Within how long they are due, in ms.
const SPAN_MS: u32 = 1_000;
/// The same before the measurement.
const WARM_UP_MS: u32 = 100;
/// How long a new runtime of doorbell has nothing to do first: its scheduler is watchful for 10 s, and this is about the
/// time after that.
const SETTLES: Duration = Duration::from_millis(10_200);
/// A pass that takes longer counts as hung.
const PASS_MAX: Duration = Duration::from_mins(1);

pub(super) fn contestants(stage: Stage, settles: Duration) -> Vec<Box<dyn Trial>> {
    let mut all: Vec<Box<dyn Trial>> = Vec::new();
    for form in [Form::Alone, Form::Tasks] {
        let sleepers = |name, timer_pull| {
            let timers = Doorbell {
                timer_pull: Some(timer_pull),
                ..Doorbell::default()
            };
            Sleepers::new(stage, timers, form, settles).named(name)
        };
        let off = sleepers("doorbell, off", TimerPull::Off).baseline();
        all.push(Box::new(off));
        all.push(Box::new(sleepers("doorbell, on", TimerPull::On)));
        if form == Form::Alone {
            all.push(Box::new(sleepers("doorbell, base", TimerPull::Base)));
        }
        all.push(Box::new(Sleepers::new(stage, Tokio, form, Duration::ZERO)));
    }
    all
}

/// Runs the scenario.
///
/// # Errors
/// Any [`LabError`], for example too few CPUs, a filter that matches no contestant, or a failing contestant.
pub(crate) fn run(options: &Options) -> Result<Report, LabError> {
    let plan = Plan {
        scenario: "timer-sleepers",
        work: Work {
            amount: SPAN_MS,
            warm_up: WARM_UP_MS,
            counted: 0,
            pass_max: PASS_MAX,
        },
        compared: "wakeups_per_op",
        spreads: &wakeups::SPREADS,
        columns: columns::columns(),
        chart: columns::chart(),
        conclude: columns::conclude,
    };
    run_trials(plan, options, |stage| contestants(stage, SETTLES))
}

#[cfg(test)]
mod tests;
