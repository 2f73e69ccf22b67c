//! `doorbell lab timer-acc`: how late sleeps end.
//!
//! Many tasks sleep repeatedly, for times that are the same in every round and for every contestant. The
//! lateness of a sleep is the time from its deadline until its task continues.

mod columns;
mod tasks;
mod threads;

use std::time::Duration;

use super::contestant::Stage;
use super::options::Options;
use super::timers::{AsyncIo, Doorbell, Random, Tokio};
use super::trial::{Plan, Trial, Work, run as run_trials};
use crate::error::LabError;
use crate::report::Report;
use tasks::Tasks;
use threads::{Slack, Threads};

/// How many tasks sleep at the same time.
const SLEEPERS: usize = 400;
/// How often each sleeps in a pass.
const SLEEPS: u32 = 25;
/// The same for a first look.
const SLEEPS_QUICK: u32 = 5;
/// The range of the sleeps, in µs.
const LENGTH_US: [f64; 2] = [1_000.0, 50_000.0];
/// Makes the lengths the same in every run and for every contestant.
const SEED: u64 = 0x0D00_4BE2;
/// The single group: all are compared with one baseline.
const GROUP: &str = "all";
/// A pass that takes longer counts as hung.
const PASS_MAX: Duration = Duration::from_mins(1);

pub(super) fn contestants(stage: Stage) -> Vec<Box<dyn Trial>> {
    let pinned = Doorbell {
        is_pinned: true,
        ..Doorbell::default()
    };
    vec![
        Box::new(Threads::new(stage, Slack::Shortest)),
        Box::new(Threads::new(stage, Slack::Default)),
        Box::new(Tasks::new(stage, Doorbell::default(), "slack 0")),
        Box::new(Tasks::new(stage, pinned, "slack 0, pinned tasks")),
        Box::new(Tasks::new(stage, Tokio, "400 tasks")),
        Box::new(Tasks::new(stage, AsyncIo, "200 futures on each thread")),
    ]
}

/// The length of each sleep of each sleeper.
fn lengths(sleeps: u32) -> Vec<Vec<Duration>> {
    let mut random = Random::seeded(SEED);
    let [low, high] = LENGTH_US;
    let mut of_one = || {
        let length = |_| Duration::from_micros(random.between(low, high) as u64);
        (0..sleeps).map(length).collect()
    };
    (0..SLEEPERS).map(|_| of_one()).collect()
}

/// Runs the scenario.
///
/// # Errors
/// Any [`LabError`], for example too few CPUs, a filter that matches no contestant, or a failing
/// contestant.
pub(crate) fn run(options: &Options) -> Result<Report, LabError> {
    let amount = if options.quick { SLEEPS_QUICK } else { SLEEPS };
    let plan = Plan {
        scenario: "timer-acc",
        work: Work {
            amount,
            warm_up: 1,
            counted: amount,
            pass_max: PASS_MAX,
        },
        compared: "p50_us",
        spreads: &columns::SPREADS,
        columns: columns::columns(),
        chart: columns::chart(),
        conclude: columns::conclude,
    };
    run_trials(plan, options, contestants)
}

#[cfg(test)]
mod tests;
