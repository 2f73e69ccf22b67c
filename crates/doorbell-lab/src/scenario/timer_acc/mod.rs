//! `doorbell lab timer-acc`: how late sleeps end.
//!
//! Many tasks sleep again and again, for times that are the same in every round and with every
//! contestant. A sleep is late by the time from its deadline until its task goes on.

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

/// How many sleep at the same time.
const SLEEPERS: usize = 400;
/// How often each sleeps in a pass.
const SLEEPS: u32 = 25;
/// The same, for a first look.
const SLEEPS_QUICK: u32 = 5;
/// How long, in µs.
const LENGTH_US: [f64; 2] = [1_000.0, 50_000.0];
/// For the same lengths in every run and with every contestant.
const SEED: u64 = 0x0D00_4BE2;
/// All are compared with one.
const GROUP: &str = "all";
/// A pass that takes longer stands still.
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

/// How long each of the sleepers sleeps, `sleeps` times.
fn lengths(sleeps: u32) -> Vec<Vec<Duration>> {
    let mut random = Random::seeded(SEED);
    let [low, high] = LENGTH_US;
    let mut of_one = || {
        let length = |_| Duration::from_micros(random.between(low, high) as u64);
        (0..sleeps).map(length).collect()
    };
    (0..SLEEPERS).map(|_| of_one()).collect()
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
        reading: reading(),
        chart: columns::chart(),
        conclude: columns::conclude,
    };
    run_trials(plan, options, contestants)
}

#[cfg(test)]
mod tests;
