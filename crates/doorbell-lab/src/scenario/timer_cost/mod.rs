//! `doorbell lab timer-cost`: the cost of a timer that never fires, such as a timeout's.
//!
//! A sleep is created, polled once and dropped. Each poll must find it pending.

mod clock;
mod columns;
mod floor;
mod pattern;
mod sleeps;
mod wheel;

use std::time::Duration;

use doorbell::TimerPull;

use super::contestant::Stage;
use super::options::Options;
use super::timers::{AsyncIo, Doorbell, Tokio};
use super::trial::{Plan, Trial, Work, run as run_trials};
use crate::error::LabError;
use crate::report::Report;
use clock::ClockAlone;
use floor::Floor;
use pattern::Pattern;
use sleeps::Sleeps;

/// Operations of each task in a pass.
const OPERATIONS: u32 = 500_000;
/// The same for a first look.
const OPERATIONS_QUICK: u32 = 100_000;
/// Sleeps that stay pending, in the variant with many.
const PENDING: u32 = 1_000_000;
/// The same for a first look.
const PENDING_QUICK: u32 = 100_000;
/// A pass that takes longer counts as hung.
const PASS_MAX: Duration = Duration::from_mins(2);

pub(super) fn contestants(stage: Stage, pending: u32) -> Vec<Box<dyn Trial>> {
    let mut all: Vec<Box<dyn Trial>> = Vec::new();
    for pattern in Pattern::all(pending) {
        all.push(Box::new(Floor::new(stage, pattern)));
        for is_pinned in [true, false] {
            let doorbell = Doorbell {
                is_pinned,
                ..Doorbell::default()
            };
            let sleeps = Sleeps::new(stage, doorbell, pattern);
            all.push(Box::new(if is_pinned { sleeps } else { sleeps.unpinned() }));
        }
        if let Pattern::OneByOne | Pattern::BothCores = pattern {
            // The switch is of timers that may move.
            for (name, timer_pull) in [("pull on", TimerPull::On), ("base", TimerPull::Base)] {
                let doorbell = Doorbell {
                    timer_pull: Some(timer_pull),
                    ..Doorbell::default()
                };
                let sleeps = Sleeps::new(stage, doorbell, pattern);
                all.push(Box::new(sleeps.unpinned().with(name)));
            }
        }
        all.push(Box::new(Sleeps::new(stage, Tokio, pattern)));
        all.push(Box::new(Sleeps::new(stage, AsyncIo, pattern)));
    }
    all.push(Box::new(ClockAlone::new(stage)));
    all.push(Box::new(Sleeps::new(
        stage,
        Doorbell::default(),
        Pattern::Clock,
    )));
    all
}

/// Runs the scenario.
///
/// # Errors
/// Any [`LabError`], for example too few CPUs, a filter that matches no contestant, or a failing
/// contestant.
pub(crate) fn run(options: &Options) -> Result<Report, LabError> {
    let (amount, pending) = if options.quick {
        (OPERATIONS_QUICK, PENDING_QUICK)
    } else {
        (OPERATIONS, PENDING)
    };
    let plan = Plan {
        scenario: "timer-cost",
        work: Work {
            amount,
            warm_up: amount / 10,
            counted: amount,
            pass_max: PASS_MAX,
        },
        compared: "op_ns",
        spreads: &columns::SPREADS,
        columns: columns::columns(),
        chart: columns::chart(),
        conclude: columns::conclude,
    };
    run_trials(plan, options, |stage| contestants(stage, pending))
}

#[cfg(test)]
mod tests;
