//! `doorbell lab shootdown`: every core and many threads call all cores at once, and wait.
//!
//! A program whose threads all unmap memory does the same: each thread must make every core forget it.
//!
//! Source: "smp: do not send IPI if `call_single_queue` not empty", Linux, April 2017.

mod callers;
mod columns;
mod counts;
mod seed;

use std::time::Duration;

use super::options::Options;
use super::trial::{Plan, Trial, Work, run as run_trials};
use crate::error::LabError;
use crate::report::Report;
use callers::Callers;
use doorbell::CallCoalesce;

/// How many foreign threads call.
const THREADS: usize = 32;
/// How long the callers call, in ms.
const SPAN_MS: u32 = 2_000;
/// The same for a first look.
const SPAN_QUICK_MS: u32 = 300;
/// The unmeasured time before, in ms.
const WARM_UP_MS: u32 = 50;
/// A pass that takes longer counts as hung.
const PASS_MAX: Duration = Duration::from_mins(1);

pub(super) fn contestants() -> Vec<Box<dyn Trial>> {
    vec![
        Box::new(Callers::new(CallCoalesce::Base, THREADS)),
        Box::new(Callers::new(CallCoalesce::On, THREADS)),
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
        scenario: "shootdown",
        work: Work {
            amount,
            warm_up: WARM_UP_MS,
            counted: SPAN_QUICK_MS,
            pass_max: PASS_MAX,
        },
        compared: "calls_per_s",
        spreads: &columns::SPREADS,
        columns: columns::columns(),
        chart: columns::chart(),
        conclude: columns::conclude,
    };
    run_trials(plan, options, |_| contestants())
}

#[cfg(test)]
mod tests;
