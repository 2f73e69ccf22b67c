//! `doorbell lab urgent`: how soon urgent work runs while every core computes.
//!
//! On two cores 64 jobs compute without end, 10 ms in each poll. Beside them something urgent is
//! woken every millisecond, from a thread outside or by its own timer. It is late by the time from
//! the wake, or from its deadline, until it runs.

mod columns;
mod contestants;
mod load;
mod probe;

use std::sync::Arc;
use std::time::{Duration, Instant};

use doorbell_machine::{Host, Machine, Policy};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

use super::contestant::Stage;
use super::options::Options;
use super::trial::{Outcome, Plan, Trial, Work, run as run_trials};
use crate::error::LabError;
use crate::report::Report;
use contestants::{Bare, Doorbell, Runs, Tokio};
use load::Load;
use probe::{Alarm, Probe, Source};

/// The unit of a pass.
const TENTH: Duration = Duration::from_millis(100);
/// How long a pass is, in tenths of a second.
const TENTHS: u32 = 30;
/// The same, for a first look.
const TENTHS_QUICK: u32 = 10;
/// A pass that takes longer stands still.
const PASS_MAX: Duration = Duration::from_mins(1);

/// One contestant, woken in one way.
#[derive(Debug)]
struct Urgent<R> {
    stage: Stage,
    source: Source,
    variant: String,
    is_baseline: bool,
    running: Option<Running<R>>,
}

#[derive(Debug)]
struct Running<R> {
    // First: what runs the jobs waits for them when it is dropped.
    told: Told,
    runs: R,
    alarm: Option<Alarm>,
}

/// Jobs and urgent one end when this is dropped.
#[derive(Debug)]
struct Told {
    load: Arc<Load>,
    probe: Arc<Probe>,
}

impl Drop for Told {
    fn drop(&mut self) {
        self.load.end();
        self.probe.end();
    }
}

impl<R: Runs> Trial for Urgent<R> {
    fn name(&self) -> &'static str {
        R::NAME
    }

    fn variant(&self) -> &str {
        &self.variant
    }

    fn group(&self) -> &'static str {
        self.source.name()
    }

    fn is_baseline(&self) -> bool {
        self.is_baseline
    }

    fn setup(&mut self) -> Result<(), LabError> {
        // Before the CPUs are busy.
        let _ = load::steps();
        let told = Told {
            load: Arc::new(Load::default()),
            probe: Probe::new(),
        };
        let placement = self.stage.placement;
        let runs = R::start(placement, self.source, &told.load, &told.probe)?;
        let alarm = match self.source {
            Source::Thread => Some(Alarm::start(&told.probe, placement.caller_cpu)?),
            Source::Timer => None,
        };
        self.running = Some(Running { told, runs, alarm });
        Ok(())
    }

    fn run(&mut self, amount: u32) -> Result<Outcome, LabError> {
        let told = &self.running.as_ref().ok_or(LabError::NotSetUp)?.told;
        let _ = told.probe.take();
        let (start, polls) = (Instant::now(), told.load.polls());
        std::thread::sleep(TENTH * amount);
        let polls = (told.load.polls() - polls) as f64;
        let mut outcome = Outcome {
            figures: [("polls_per_s", polls / start.elapsed().as_secs_f64())].into(),
            ..Outcome::default()
        };
        let late = told.probe.take();
        outcome.operations = late.len() as u64;
        if let Some(found) = late.percentiles_ns([50.0, 99.0, 99.9, 100.0], 0.0) {
            let names = ["p50_us", "p99_us", "p999_us", "max_us"];
            let found = found.map(|ns| ns / 1_000.0);
            outcome.figures.extend(names.into_iter().zip(found));
        }
        Ok(outcome)
    }

    fn teardown(&mut self) -> Result<(), LabError> {
        let Some(running) = self.running.take() else {
            return Ok(());
        };
        drop(running.told);
        let stopped = running.alarm.map_or(Ok(()), Alarm::stop);
        running.runs.stop().and(stopped)
    }
}

fn contestants(stage: Stage) -> Vec<Box<dyn Trial>> {
    fn one<R: Runs>(stage: Stage, source: Source, is_baseline: bool) -> Box<dyn Trial> {
        Box::new(Urgent::<R> {
            stage,
            source,
            variant: format!("{}, {}", R::HOW, source.name()),
            is_baseline,
            running: None,
        })
    }
    let fifo = may_go_first();
    let mut all = Vec::new();
    for source in [Source::Thread, Source::Timer] {
        if fifo {
            all.push(one::<Bare<true>>(stage, source, true));
        }
        all.push(one::<Bare<false>>(stage, source, !fifo));
        all.push(one::<Doorbell>(stage, source, false));
        all.push(one::<Tokio<false>>(stage, source, false));
        all.push(one::<Tokio<true>>(stage, source, false));
    }
    all
}

/// Whether this program may have threads that run before all others.
fn may_go_first() -> bool {
    let tried = std::thread::spawn(|| Host::set_policy(Policy::Fifo { priority: 1 }).is_ok());
    tried.join().unwrap_or(false)
}

/// Gives up what lets this program's threads run before all others. Call it before there are other
/// threads.
///
/// # Errors
/// [`LabError::System`] if the OS refuses.
pub fn give_up_privileges() -> Result<(), LabError> {
    let refused = |source: rustix::io::Errno| LabError::System {
        what: "giving up CAP_SYS_NICE",
        source: source.into(),
    };
    let mut sets = capabilities(None).map_err(refused)?;
    for set in [
        &mut sets.effective,
        &mut sets.permitted,
        &mut sets.inheritable,
    ] {
        set.remove(CapabilitySet::SYS_NICE);
    }
    set_capabilities(None, sets).map_err(refused)
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
    let amount = if options.quick { TENTHS_QUICK } else { TENTHS };
    let plan = Plan {
        scenario: "urgent",
        work: Work {
            amount,
            warm_up: 2,
            counted: TENTHS_QUICK,
            pass_max: PASS_MAX,
        },
        compared: "p99_us",
        spreads: &columns::SPREADS,
        columns: columns::columns(),
        reading: reading(),
        chart: columns::chart(),
        conclude: columns::conclude,
        idle_span: options.effort.idle_span,
    };
    run_trials(plan, options, contestants)
}

#[cfg(test)]
mod tests;
