//! `doorbell lab urgent`: how soon urgent work runs while every core computes.
//!
//! On two cores 64 jobs compute endlessly, 10 ms in each poll. Beside them one urgent task (in some
//! contestants a thread) is woken every millisecond: by an outside thread, from another core, or by its own
//! timer; or a call runs in its place. Its lateness is the time from the wake, or from its deadline, until
//! it runs. The urgent task and the jobs are of classes Rt and Fair, or Fair and Batch.
//!
//! With `--slices` all contestants are threads, to show the effect of slices and nice values on a woken
//! thread.

mod columns;
mod contestants;
mod load;
mod probe;
mod promises;
mod scene;
mod tokio;

use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

use self::tokio::Jobs;
use super::contestant::Stage;
use super::options::Options;
use super::trial::{Conclusion, Outcome, Plan, Rated, Trial, Work, run as run_trials};
use super::wants::{Want, refused};
use crate::error::LabError;
use crate::report::Report;
use contestants::{Runs, Who};
use load::Load;
use probe::{Alarm, Probe};
use scene::{Part, Place, Scene, Source};

/// The unit of a pass.
const TENTH: Duration = Duration::from_millis(100);
/// The length of a pass, in tenths of a second.
const TENTHS: u32 = 30;
/// The same for a first look: p99 needs a thousand wakes.
const TENTHS_QUICK: u32 = 12;
/// An urgent task that has not run for this long after its wake counts as lost.
const LAST_MAX: Duration = Duration::from_secs(20);
/// A pass that takes longer counts as hung.
const PASS_MAX: Duration = Duration::from_mins(1);

/// One contestant with one source of wakes.
#[derive(Debug)]
struct Urgent {
    stage: Stage,
    who: Who,
    source: Source,
    group: &'static str,
    variant: String,
    is_baseline: bool,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    // Dropped first: the drop of the contestant waits for its jobs.
    told: Told,
    runs: Box<dyn Runs>,
    alarm: Option<Alarm>,
}

/// Tells jobs and the urgent task to end when it is dropped.
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

impl Trial for Urgent {
    fn name(&self) -> &'static str {
        self.who.name()
    }

    fn variant(&self) -> &str {
        &self.variant
    }

    fn group(&self) -> &'static str {
        self.group
    }

    fn is_baseline(&self) -> bool {
        self.is_baseline
    }

    fn setup(&mut self) -> Result<(), LabError> {
        // Measured before the CPUs are busy.
        let _ = load::steps();
        let told = Told {
            load: Arc::new(Load::default()),
            probe: Probe::new(),
        };
        let scene = Scene {
            placement: self.stage.placement,
            source: self.source,
            load: Arc::clone(&told.load),
            probe: Arc::clone(&told.probe),
        };
        let runs = self.who.start(&scene)?;
        let alarm = if self.source.is_outside() {
            let [cpu, _] = scene.cpus();
            Some(Alarm::start(&told.probe, cpu, runs.way())?)
        } else {
            None
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
        told.probe.wait_for_last(LAST_MAX)?;
        outcome.late = told.probe.take();
        outcome.operations = outcome.late.len() as u64;
        Ok(outcome)
    }

    fn teardown(&mut self) -> Result<(), LabError> {
        let Some(running) = self.running.take() else {
            return Ok(());
        };
        drop(running.told);
        // It may be the last thread that can reach the urgent task.
        let stopped = running.alarm.map_or(Ok(()), Alarm::stop);
        running.runs.stop().and(stopped)
    }
}

const FIRST: Who = Who::Bare {
    how: "SCHED_FIFO",
    urgent: Want::First,
    jobs: Want::AsIs,
};
const SOONER: Who = Who::Bare {
    how: "100 us slice",
    urgent: Want::Sooner,
    jobs: Want::AsIs,
};
const PLAIN: Who = Who::Bare {
    how: "plain beside SCHED_IDLE",
    urgent: Want::AsIs,
    jobs: Want::Idle,
};

/// The contestants of a group, the baseline first.
fn group(stage: Stage, name: &'static str, source: Source, all: &[Who]) -> Vec<Box<dyn Trial>> {
    let mut trials: Vec<Box<dyn Trial>> = Vec::new();
    for (place, who) in all.iter().enumerate() {
        trials.push(Box::new(Urgent {
            stage,
            who: *who,
            source,
            group: name,
            variant: format!("{}, {}", who.how(), source.name()),
            is_baseline: place == 0,
            running: None,
        }));
    }
    trials
}

pub(super) fn contestants(stage: Stage) -> Vec<Box<dyn Trial>> {
    let first = Want::First.is_given();
    let mut all = Vec::new();
    for source in Source::ALL {
        let mut who = vec![SOONER];
        who.splice(0..0, first.then_some(FIRST));
        who.extend([Place::Core, Place::Free].map(|place| Who::Doorbell(Part::Rt, place)));
        who.extend([Jobs::Tasks, Jobs::Blocking, Jobs::IdleThreads].map(Who::Tokio));
        who.retain(|who| who.knows(source));
        all.extend(group(stage, source.name(), source, &who));
    }
    // tokio's counterpart is among those above: jobs on SCHED_IDLE threads.
    let [on_core, free] = [Place::Core, Place::Free].map(|place| Who::Doorbell(Part::Fair, place));
    let who = [PLAIN, on_core, free];
    all.extend(group(stage, "Fair beside Batch", Source::Thread, &who));
    all
}

/// One thread that is woken and one that computes, on the same CPU, with what they request of the OS.
pub(super) fn slices(stage: Stage) -> Vec<Box<dyn Trial>> {
    let bare = |how, urgent, jobs| Who::Bare { how, urgent, jobs };
    let all = [
        bare("plain beside plain", Want::AsIs, Want::AsIs),
        bare("100 us slice beside plain", Want::Sooner, Want::AsIs),
        bare("100 us beside 20 ms slice", Want::Sooner, Want::Longer),
        bare("plain beside nice 10", Want::AsIs, Want::Nice),
        bare("100 us slice beside nice 10", Want::Sooner, Want::Nice),
    ];
    let given = all.into_iter().filter(|who| match who {
        Who::Bare { urgent, jobs, .. } => urgent.is_given() && jobs.is_given(),
        _ => false,
    });
    let given: Vec<_> = given.collect();
    group(stage, "slices", Source::Thread, &given)
}

/// Gives up the right to real-time priorities for this program's threads. Call it before starting other
/// threads.
///
/// # Errors
/// [`LabError::System`] if the OS refuses.
pub(crate) fn give_up_privileges() -> Result<(), LabError> {
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

/// Runs the scenario.
///
/// # Errors
/// Any [`LabError`], for example too few CPUs, a filter that matches no contestant, or a failing
/// contestant.
pub(crate) fn run(options: &Options) -> Result<Report, LabError> {
    if options.unprivileged {
        give_up_privileges()?;
    }
    if options.slices {
        let plan = plan(options, columns::conclude_slices);
        return run_trials(plan, options, slices);
    }
    let mut report = run_trials(plan(options, columns::conclude), options, contestants)?;
    report.notes.extend(refused());
    Ok(report)
}

fn plan(options: &Options, conclude: fn(&[Rated<'_>]) -> Conclusion) -> Plan {
    let amount = if options.quick { TENTHS_QUICK } else { TENTHS };
    Plan {
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
        chart: columns::chart(),
        conclude,
    }
}

#[cfg(test)]
mod tests;
