//! `doorbell lab rt`: periodic urgent tasks on all cores at once, as cyclictest, and less urgent ones beside them.
//!
//! Each worker of class Rt has a periodic task that stays there, by default every millisecond. All tick at the same
//! times, and do nothing else. Beside them run no, one or two extra tasks of a lower rank, which may move. The
//! periodic task of core 0 wakes them at each tick, so its worker has more than it can run at once just when all
//! others become idle. Measured are how late the ticks come, and how long the extra tasks wait.

mod columns;
mod cycle;

use std::sync::OnceLock;
use std::time::Duration;

use super::late;
use super::options::Options;
use super::ranked::{Doorbell, Ranked, Threads, Tokio};
use super::steps::steps_for;
use super::trial::{Outcome, Plan, Trial, Work, run as run_trials};
use super::urgent::give_up_privileges;
use super::wake_counts::WakeCounts;
use super::wants::{Want, refused};
use crate::error::LabError;
use crate::measure::{Samples, allowed_cpus};
use crate::report::Report;
use cycle::Cycle;

/// The time between two ticks, unless another one is asked for.
pub(crate) const PERIOD: Duration = Duration::from_millis(1);
/// The resolution of tokio's timers.
const TOKIO_PERIOD_MIN: Duration = Duration::from_millis(1);
/// The length of a pass, in ms.
const SPAN_MS: u32 = 2_000;
/// The same for a first look: on two cores enough for a p99, although some ticks are missed.
const SPAN_QUICK_MS: u32 = 600;
/// The same before the measurement.
const WARM_UP_MS: u32 = 50;
/// An extra task computes for this part of the period, in one poll.
const WORK_PART: u32 = 10;
/// The work that is measured once; others are multiples of it.
const UNIT: Duration = Duration::from_micros(10);
/// A pass that takes longer counts as hung.
const PASS_MAX: Duration = Duration::from_mins(1);

/// The variants, by the number of extra tasks.
const VARIANTS: [(&str, usize); 3] = [("no extra", 0), ("1 extra", 1), ("2 extra", 2)];

/// The steps that an extra task computes each time that it is woken, for this period.
fn steps_in(period: Duration) -> u64 {
    static UNIT_STEPS: OnceLock<u64> = OnceLock::new();
    let unit_steps = *UNIT_STEPS.get_or_init(|| steps_for(UNIT));
    let units = (period / WORK_PART).as_secs_f64() / UNIT.as_secs_f64();
    (units * unit_steps as f64) as u64 + 1
}

/// One contestant.
#[derive(Debug)]
struct Rt<H> {
    name: &'static str,
    cpus: Vec<usize>,
    period: Duration,
    variant: &'static str,
    extras: usize,
    /// The work of an extra task.
    steps: u64,
    is_baseline: bool,
    host: Option<H>,
}

impl<H: Ranked> Trial for Rt<H> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn variant(&self) -> &'static str {
        self.variant
    }

    fn group(&self) -> &'static str {
        self.variant
    }

    fn is_baseline(&self) -> bool {
        self.is_baseline
    }

    fn setup(&mut self) -> Result<(), LabError> {
        self.host = Some(H::start(&self.cpus)?);
        Ok(())
    }

    fn run(&mut self, amount_ms: u32) -> Result<Outcome, LabError> {
        let host = self.host.as_mut().ok_or(LabError::NotSetUp)?;
        let span = Duration::from_millis(u64::from(amount_ms));
        let ticks = span.as_nanos().div_ceil(self.period.as_nanos()) as u32;
        let before = host.counts();
        let cycle = Cycle::soon(self.period, ticks);
        let cycled = cycle::run(host, self.cpus.len(), cycle, (self.extras, self.steps))?;
        let mut outcome = cycled.late.into_outcome();
        let operations = outcome.operations;
        let figures = &mut outcome.figures;
        figures.insert("missed_count", f64::from(cycled.missed));
        if self.extras > 0 {
            figures.insert("skipped_count", f64::from(cycled.skipped));
            figures.extend(waits(&cycled.waits));
        }
        let after = host.counts();
        figures.extend(WakeCounts::figures_between(before, after, operations));
        Ok(outcome)
    }

    fn teardown(&mut self) -> Result<(), LabError> {
        self.host.take().map_or(Ok(()), Ranked::stop)
    }
}

/// Percentiles of the waits by name, in µs; those for which there are enough waits.
fn waits(waits: &Samples) -> impl Iterator<Item = (&'static str, f64)> {
    let names = ["wait_p50_us", "wait_p99_us", "wait_max_us"];
    late::named(waits, [50.0, 99.0, 100.0], names)
}

/// All contestants, for ticks of this period on these CPUs.
pub(super) fn contestants(cpus: &[usize], period: Duration) -> Vec<Box<dyn Trial>> {
    fn one<H: Ranked>(
        name: &'static str,
        cpus: &[usize],
        period: Duration,
        (variant, extras): (&'static str, usize),
    ) -> Rt<H> {
        Rt {
            name,
            cpus: cpus.to_vec(),
            period,
            variant,
            extras,
            steps: steps_in(period),
            is_baseline: false,
            host: None,
        }
    }
    // Measured before the CPUs are busy.
    let _ = steps_in(period);
    let threads = if Want::First.is_given() {
        "SCHED_FIFO threads"
    } else {
        "100 us slice threads"
    };
    let mut all: Vec<Box<dyn Trial>> = Vec::new();
    for variant in VARIANTS {
        all.push(Box::new(Rt {
            is_baseline: true,
            ..one::<Threads>(threads, cpus, period, variant)
        }));
        all.push(Box::new(one::<Doorbell>("doorbell", cpus, period, variant)));
        if period >= TOKIO_PERIOD_MIN {
            all.push(Box::new(one::<Tokio>("tokio", cpus, period, variant)));
        }
    }
    all
}

/// Runs the scenario with ticks of this period.
///
/// # Errors
/// Any [`LabError`], for example too few CPUs, a filter that matches no contestant, or a failing
/// contestant.
pub(crate) fn run(options: &Options) -> Result<Report, LabError> {
    if options.unprivileged {
        give_up_privileges()?;
    }
    let period = if options.period.is_zero() {
        PERIOD
    } else {
        options.period
    };
    let amount = if options.quick {
        SPAN_QUICK_MS
    } else {
        SPAN_MS
    };
    let plan = Plan {
        scenario: "rt",
        work: Work {
            amount,
            warm_up: WARM_UP_MS,
            counted: SPAN_QUICK_MS,
            pass_max: PASS_MAX,
        },
        compared: "p99_us",
        spreads: &columns::SPREADS,
        columns: columns::columns(),
        chart: columns::chart(),
        conclude: columns::conclude,
    };
    let cpus = allowed_cpus()?;
    let mut report = run_trials(plan, options, |_| contestants(&cpus, period))?;
    report.notes.push(format!(
        "ticks every {} us on {} cores",
        period.as_micros(),
        cpus.len()
    ));
    report.notes.extend(refused());
    Ok(report)
}

#[cfg(test)]
mod tests;
