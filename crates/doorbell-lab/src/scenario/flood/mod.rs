//! `doorbell lab flood`: many posts to one core, from many threads, without waiting.

mod columns;
mod counts;
mod floods;
mod rings;
mod targets;

use std::sync::mpsc;
use std::time::Duration;

use super::contestant::Stage;
use super::options::Options;
use super::trial::{Plan, Trial, Work, run as run_trials};
use crate::error::LabError;
use crate::report::Report;
use floods::Floods;
use rings::Rings;
use targets::{Calls, Doorbell, Emptied, Posts, Tasks, TokioChannel, TokioTasks};

/// The numbers of posting threads.
const PRODUCERS: [usize; 4] = [1, 2, 8, counts::PRODUCERS_MAX];
/// Posts in a pass: 10.5 million in the 7 rounds of a row.
const POSTS: u32 = 1_500_000;
/// The same for a first look.
const POSTS_QUICK: u32 = 200_000;
/// Posts before the measurement.
const POSTS_WARM_UP: u32 = 20_000;
/// A pass that takes longer counts as hung.
const PASS_MAX: Duration = Duration::from_mins(2);

pub(super) fn contestants(stage: Stage) -> Vec<Box<dyn Trial>> {
    type Std = Emptied<mpsc::Sender<usize>>;
    type Crossbeam = Emptied<crossbeam_channel::Sender<usize>>;
    let mut all: Vec<Box<dyn Trial>> = Vec::new();
    for producers in PRODUCERS {
        all.push(Box::new(Floods::<Rings>::new(stage, producers).baseline()));
        all.push(Box::new(Floods::<Crossbeam>::new(stage, producers)));
        all.push(Box::new(Floods::<Std>::new(stage, producers)));
        all.push(Box::new(Floods::<TokioChannel>::new(stage, producers)));
        all.push(Box::new(Floods::<Doorbell<Posts>>::new(stage, producers)));
        all.push(Box::new(Floods::<Doorbell<Calls>>::new(stage, producers)));
        all.push(Box::new(Floods::<TokioTasks>::new(stage, producers)));
        all.push(Box::new(Floods::<Doorbell<Tasks>>::new(stage, producers)));
    }
    all
}

/// Runs the scenario.
///
/// # Errors
/// Any [`LabError`], for example too few CPUs, a filter that matches no contestant, or a failing
/// contestant.
pub(crate) fn run(options: &Options) -> Result<Report, LabError> {
    let amount = if options.quick { POSTS_QUICK } else { POSTS };
    let plan = Plan {
        scenario: "flood",
        work: Work {
            amount,
            warm_up: POSTS_WARM_UP,
            counted: POSTS_QUICK,
            pass_max: PASS_MAX,
        },
        compared: "mops_per_s",
        spreads: &columns::SPREADS,
        columns: columns::columns(),
        chart: columns::chart(),
        conclude: columns::conclude,
    };
    run_trials(plan, options, contestants)
}

#[cfg(test)]
mod tests;
