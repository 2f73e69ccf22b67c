//! `doorbell lab spawn`: tasks that are spawned, chained and woken, and that yield, beside tokio.

mod busy;
mod columns;
mod countdown;
mod peers;
mod shape;
mod shapes;

use std::time::Duration;

use super::options::Options;
use super::trial::{Plan, Trial, Work, run as run_trials};
use crate::error::LabError;
use crate::report::Report;
use peers::{Doorbell, Tokio};
use shape::Shape;
use shapes::{FULL_PERCENT, Shapes};

/// The share of a full pass in a first look.
const QUICK_PERCENT: u32 = 10;
/// The unmeasured share before.
const WARM_UP_PERCENT: u32 = 2;
/// A pass that takes longer counts as hung.
const PASS_MAX: Duration = Duration::from_mins(2);

pub(super) fn contestants() -> Vec<Box<dyn Trial>> {
    let mut all: Vec<Box<dyn Trial>> = Vec::new();
    for shape in Shape::ALL {
        all.push(Box::new(Shapes::<Doorbell>::new(shape)));
        all.push(Box::new(Shapes::<Tokio>::new(shape).baseline()));
    }
    all
}

/// Runs the scenario.
///
/// # Errors
/// Any [`LabError`], for example too few CPUs, a filter that matches no contestant, or a failing
/// contestant.
pub(crate) fn run(options: &Options) -> Result<Report, LabError> {
    let amount = if options.quick {
        QUICK_PERCENT
    } else {
        FULL_PERCENT
    };
    let plan = Plan {
        scenario: "spawn",
        work: Work {
            amount,
            warm_up: WARM_UP_PERCENT,
            counted: QUICK_PERCENT,
            pass_max: PASS_MAX,
        },
        compared: "ops_per_s",
        spreads: &columns::SPREADS,
        columns: columns::columns(),
        chart: columns::chart(),
        conclude: columns::conclude,
    };
    run_trials(plan, options, |_| contestants())
}

#[cfg(test)]
mod tests;
