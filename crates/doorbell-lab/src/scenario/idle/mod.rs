//! `doorbell lab idle`: what an idle runtime costs.

mod columns;
mod idling;

use std::time::Duration;

use super::contestant::Stage;
use super::options::Options;
use super::timers::{Doorbell, Tokio};
use super::trial::{Plan, Trial, Work, run as run_trials};
use crate::error::LabError;
use crate::measure::SyscallSource;
use crate::report::Report;
use idling::Idling;

/// How long there is no work, in ms.
const SPAN_MS: u32 = 10_000;
/// The same for a first look.
const SPAN_QUICK_MS: u32 = 2_000;
/// The idle time between warm-up and measurement, in ms.
const WARM_UP_MS: u32 = 50;
/// The idle time of the pass that counts the whole process, which matters little here, in ms.
const COUNTED_MS: u32 = 50;
/// What all contestants do.
const VARIANT: &str = "2 workers after 1,000 tasks";
/// A pass that takes longer counts as hung.
const PASS_MAX: Duration = Duration::from_mins(1);

pub(super) fn contestants(stage: Stage, syscalls: Option<SyscallSource>) -> Vec<Box<dyn Trial>> {
    vec![
        Box::new(Idling::<Doorbell>::new(stage, syscalls)),
        Box::new(Idling::<Tokio>::new(stage, syscalls).baseline()),
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
        scenario: "idle",
        work: Work {
            amount,
            warm_up: WARM_UP_MS,
            counted: COUNTED_MS,
            pass_max: PASS_MAX,
        },
        compared: "idle_switches_count",
        spreads: &columns::SPREADS,
        columns: columns::columns(),
        chart: columns::chart(),
        conclude: columns::conclude,
    };
    let syscalls = SyscallSource::find().ok();
    run_trials(plan, options, |stage| contestants(stage, syscalls))
}

#[cfg(test)]
mod tests;
