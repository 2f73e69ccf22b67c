//! `doorbell lab shootdown`: every core and many threads call all cores at once, and wait.
//!
//! So does a program whose threads all unmap memory: each has to make every core forget it.
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

/// How many threads call that are no worker.
const THREADS: usize = 32;
/// How long all call, in ms.
const SPAN_MS: u32 = 2_000;
/// The same, for a first look.
const SPAN_QUICK_MS: u32 = 300;
/// Before it, unmeasured, in ms.
const WARM_UP_MS: u32 = 50;
/// A pass that takes longer stands still.
const PASS_MAX: Duration = Duration::from_mins(1);

pub(super) fn contestants() -> Vec<Box<dyn Trial>> {
    vec![
        Box::new(Callers::new(CallCoalesce::Base, THREADS)),
        Box::new(Callers::new(CallCoalesce::On, THREADS)),
    ]
}

/// How to read the table, one sentence for each group of columns.
pub fn reading() -> &'static [&'static str] {
    &columns::READING
}

/// Runs the scenario.
///
/// # Errors
/// Any [`LabError`]: too few CPUs, a filter that leaves nobody, a contestant that fails.
pub fn run(options: &Options) -> Result<Report, LabError> {
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
        reading: reading(),
        chart: columns::chart(),
        conclude: columns::conclude,
    };
    run_trials(plan, options, |_| contestants())
}

#[cfg(test)]
mod tests;
