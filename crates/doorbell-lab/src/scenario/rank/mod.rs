//! `doorbell lab rank`: how long the most urgent task waits behind the poll of a less urgent one.
//!
//! Two workers of class Rt. A task of rank 50 wakes a task of rank 99 and then computes for 600 µs in the same poll.
//! Only the other worker can run the task of rank 99 sooner. That worker is idle, or it runs a task of rank 1 in
//! polls of 5 µs. No other runtime has ranks: tokio is shown with three equal tasks, and a `SCHED_FIFO` thread for
//! each task shows what the kernel does, which can preempt.

mod columns;
mod turns;

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::Duration;

use super::contestant::Stage;
use super::options::Options;
use super::ranked::{Doorbell, Ranked, Threads, Tokio};
use super::steps::steps_for;
use super::trial::{Outcome, Plan, Trial, Work, run as run_trials};
use super::urgent::give_up_privileges;
use super::wake_counts::WakeCounts;
use super::wants::{Want, refused};
use crate::error::LabError;
use crate::report::Report;
use turns::Other;

/// The turns of a pass.
const TURNS: u32 = 1_000;
/// The same for a first look: together with a second round enough for a p99.
const TURNS_QUICK: u32 = 500;
/// The same in the pass that counts system calls.
const TURNS_COUNTED: u32 = 100;
/// The length of the poll of rank 50, on an otherwise idle core.
const POLL: Duration = Duration::from_micros(600);
/// A pass that takes longer counts as hung.
const PASS_MAX: Duration = Duration::from_mins(1);
/// The variants, by the state of the other worker.
const IDLE: &str = "other idle";
const BUSY: &str = "other at rank 1";

/// One contestant.
#[derive(Debug)]
struct Rank<H> {
    stage: Stage,
    name: &'static str,
    other: Other,
    is_baseline: bool,
    host: Option<H>,
}

/// The steps of a poll of rank 50, measured once before anything else runs.
fn steps() -> u64 {
    static STEPS: OnceLock<u64> = OnceLock::new();
    *STEPS.get_or_init(|| steps_for(POLL))
}

fn name_of(other: Other) -> &'static str {
    match other {
        Other::Idle => IDLE,
        Other::Busy => BUSY,
    }
}

impl<H: Ranked> Trial for Rank<H> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn variant(&self) -> &'static str {
        name_of(self.other)
    }

    fn group(&self) -> &'static str {
        name_of(self.other)
    }

    fn is_baseline(&self) -> bool {
        self.is_baseline
    }

    fn setup(&mut self) -> Result<(), LabError> {
        let placement = self.stage.placement;
        // The first CPU has more work for the OS, so core 0 is on the second one.
        self.host = Some(H::start(&[placement.callee_cpu, placement.caller_cpu])?);
        Ok(())
    }

    fn run(&mut self, amount: u32) -> Result<Outcome, LabError> {
        let host = self.host.as_mut().ok_or(LabError::NotSetUp)?;
        let before = host.counts();
        let waited = turns::take(host, amount, self.other, steps())?;
        let turns = f64::from(amount.max(1));
        let moved = 100.0 * f64::from(waited.moved) / turns;
        let mut figures = BTreeMap::from([("moved_percent", moved)]);
        let (after, operations) = (host.counts(), u64::from(amount));
        figures.extend(WakeCounts::figures_between(before, after, operations));
        Ok(Outcome {
            operations,
            figures,
            late: waited.waits,
            ..Outcome::default()
        })
    }

    fn teardown(&mut self) -> Result<(), LabError> {
        self.host.take().map_or(Ok(()), Ranked::stop)
    }
}

/// All contestants. Without real-time priorities threads have no ranks, and are left out.
pub(super) fn contestants(stage: Stage) -> Vec<Box<dyn Trial>> {
    fn one<H: Ranked>(stage: Stage, name: &'static str, other: Other) -> Rank<H> {
        Rank {
            stage,
            name,
            other,
            is_baseline: false,
            host: None,
        }
    }
    // Measured before the CPUs are busy.
    let _ = steps();
    let has_ranks = Want::First.is_given();
    let mut all: Vec<Box<dyn Trial>> = Vec::new();
    for other in [Other::Idle, Other::Busy] {
        if has_ranks {
            all.push(Box::new(Rank {
                is_baseline: true,
                ..one::<Threads>(stage, "SCHED_FIFO threads", other)
            }));
        }
        all.push(Box::new(one::<Doorbell>(stage, "doorbell", other)));
        all.push(Box::new(one::<Tokio>(stage, "tokio", other)));
    }
    all
}

/// Runs the scenario.
///
/// # Errors
/// Any [`LabError`], for example too few CPUs, a filter that matches no contestant, or a failing
/// contestant.
pub(crate) fn run(options: &Options) -> Result<Report, LabError> {
    if options.unprivileged {
        give_up_privileges()?;
    }
    let amount = if options.quick { TURNS_QUICK } else { TURNS };
    let plan = Plan {
        scenario: "rank",
        work: Work {
            amount,
            warm_up: 20,
            counted: TURNS_COUNTED,
            pass_max: PASS_MAX,
        },
        compared: "p99_us",
        spreads: &columns::SPREADS,
        columns: columns::columns(),
        chart: columns::chart(),
        conclude: columns::conclude,
    };
    let mut report = run_trials(plan, options, contestants)?;
    report.notes.extend(refused());
    Ok(report)
}

#[cfg(test)]
mod tests;
