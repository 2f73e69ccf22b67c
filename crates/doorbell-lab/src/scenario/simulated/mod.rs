//! Scenarios on simulated machines: `doorbell lab SCENARIO --sim PROFILE`.
//!
//! The programs are in `doorbell_sim::bench`; here each is run with several switches and seeds, and its figures become
//! a report. Times are simulated time, so the load of this host changes nothing, and the same seeds give the same
//! table.
//!
//! | file | scenario |
//! |---|---|
//! | `wake.rs` | `wake`: woken workers, as schbench |
//! | `rt.rs` | `rt`: periodic urgent tasks, as cyclictest |
//! | `rank.rs` | `rank`: a task of high rank behind a long poll |
//! | `pingpong.rs` | `pingpong`: messages between pairs of tasks, as uperf |
//! | `timer_cost.rs` | `timer-cost`: arming and dropping timers beside busy workers |
//! | `requests.rs` | `requests`: clients and servers under timeouts, as dbench; it has no form for this machine |
//! | `sleepers.rs` | `timer-sleepers`: timers of workers that sleep beside some that are awake |

pub(crate) mod pingpong;
pub(crate) mod rank;
pub(crate) mod requests;
pub(crate) mod rt;
pub(crate) mod sleepers;
#[cfg(test)]
mod tests;
pub(crate) mod timer_cost;
pub(crate) mod wake;

use doorbell::Switches;
use doorbell_sim::bench::{Bench, BenchError};
use doorbell_sim::profile::Profile;

use super::common::matching;
use super::late;
use super::options::{Options, SimOptions};
use crate::error::LabError;
use crate::measure::Samples;
use crate::progress::Progress;
use crate::report::{Chart, Column, MeasuredOn, Metrics, Report, Row, Series, SimulatedMachine};

/// A setting of the switches, with its name in the table.
type Setting = (&'static str, Switches);

/// Measures a row.
type Measure = Box<dyn Fn(&mut Seeds<'_>) -> Result<Metrics, BenchError>>;

/// A scenario with all that its table needs.
struct Plan {
    scenario: &'static str,
    /// Each is one group of rows.
    settings: Vec<Setting>,
    cases: Vec<Case>,
    baseline: Option<Baseline>,
    columns: Vec<Column>,
    chart: Chart,
    gist: fn(&[Row]) -> String,
}

/// A setting that the others are compared with, case by case.
struct Baseline {
    setting: &'static str,
    /// What is divided by that of the baseline.
    metric: &'static str,
    /// The name of the quotient.
    ratio: &'static str,
}

impl Baseline {
    /// Adds the quotient to each row whose baseline was measured too.
    fn divide(&self, rows: &mut [Row]) {
        let of_baseline = rows.iter().filter(|row| row.contestant == self.setting);
        let known = of_baseline.filter_map(|row| {
            let value = row.metrics.get(self.metric)?;
            (value > 0.0).then(|| (row.variant.clone(), value))
        });
        let known: Vec<_> = known.collect();
        for row in rows {
            let base = known.iter().find(|(variant, _)| *variant == row.variant);
            let value = row.metrics.get(self.metric);
            let ratio = value.zip(base).map(|(value, (_, base))| value / base);
            row.metrics.put(self.ratio, ratio);
        }
    }
}

/// The settings of `timer_pull`, of the scenarios that compare it.
const TIMER_PULL: [&str; 3] = ["timer_pull=on", "timer_pull=off", "timer_pull=base"];

/// One row for each setting.
struct Case {
    variant: String,
    /// How many cores have a worker.
    workers: usize,
    measure: Measure,
}

/// Makes a plan for a machine, with as many workers as were asked for.
type Plans = fn(&Profile, Option<usize>) -> Result<Plan, LabError>;

/// The scenarios that have a simulated form.
const ALL: [(&str, Plans); 7] = [
    ("wake", wake::plan),
    ("rt", rt::plan),
    ("rank", rank::plan),
    ("pingpong", pingpong::plan),
    ("timer-sleepers", sleepers::plan),
    ("timer-cost", timer_cost::plan),
    ("requests", requests::plan),
];

/// Runs a program with one seed after another.
struct Seeds<'a> {
    bench: Bench,
    /// From 0 to this number, exclusive.
    count: u32,
    progress: &'a Progress,
    /// The runs so far, and what runs.
    done: &'a mut u64,
    label: &'a str,
}

impl Seeds<'_> {
    /// The figures of all seeds together.
    fn sum<F: Default>(
        &mut self,
        run: impl Fn(&Bench) -> Result<F, BenchError>,
        add: fn(&mut F, F),
    ) -> Result<F, BenchError> {
        let mut all = F::default();
        for seed in 0..self.count {
            self.progress
                .at_second(*self.done, &format!("{}, seed {seed}", self.label));
            self.bench.seed = u64::from(seed);
            add(&mut all, run(&self.bench)?);
            *self.done += 1;
        }
        Ok(all)
    }
}

/// Runs a scenario.
///
/// # Errors
/// [`LabError::NotSimulated`], [`LabError::Profile`], [`LabError::Workers`], [`LabError::NoSuchContestant`],
/// [`LabError::Found`] with the command that repeats the failure, and [`LabError::Bench`].
pub(crate) fn run(
    name: &'static str,
    sim: &SimOptions,
    options: &Options,
) -> Result<Report, LabError> {
    let profile = Profile::load(&sim.profile)?;
    let plan = plan(name, &profile, sim.workers)?;
    let rows = chosen(&plan, options.only.as_deref())?;
    let runs = rows.len() as u64 * u64::from(sim.seeds);
    let progress = Progress::steps_on_stderr(runs, "runs");
    let mut done = 0;
    let mut measured = Vec::new();
    let mut cores = Vec::new();
    for ((setting, switches), case) in rows {
        let label = label(setting, case);
        let mut seeds = Seeds {
            bench: Bench {
                machine: profile.spec().clone(),
                switches: *switches,
                seed: 0,
            },
            count: sim.seeds,
            progress: &progress,
            done: &mut done,
            label: &label,
        };
        let measure = (case.measure)(&mut seeds);
        let metrics = measure.map_err(|error| failed(error, name, sim, &label))?;
        cores.push(case.workers);
        measured.push(Row {
            contestant: (*setting).to_owned(),
            variant: case.variant.clone(),
            metrics,
            counters: Metrics::default(),
        });
    }
    progress.clear();
    if let Some(baseline) = &plan.baseline {
        baseline.divide(&mut measured);
    }
    cores.sort_unstable();
    cores.dedup();
    let machine = SimulatedMachine {
        profile: profile.name().to_owned(),
        about: profile.about().to_owned(),
        cores,
        seeds: sim.seeds,
    };
    Ok(report(plan, machine, measured))
}

/// The rows whose setting or variant contains `only`.
fn chosen<'a>(
    plan: &'a Plan,
    only: Option<&str>,
) -> Result<Vec<(&'a Setting, &'a Case)>, LabError> {
    let all: Vec<_> = pairs(plan).collect();
    let labels: Vec<_> = all
        .iter()
        .map(|((name, _), case)| label(name, case))
        .collect();
    let matches = matching(&labels, only)?;
    let marked = all.into_iter().zip(matches);
    Ok(marked
        .filter_map(|(row, matches)| matches.then_some(row))
        .collect())
}

/// Every setting with every case.
fn pairs(plan: &Plan) -> impl Iterator<Item = (&Setting, &Case)> {
    let settings = plan.settings.iter();
    settings.flat_map(|setting| plan.cases.iter().map(move |case| (setting, case)))
}

/// The plan of the scenario with this name.
fn plan(name: &'static str, profile: &Profile, workers: Option<usize>) -> Result<Plan, LabError> {
    match ALL.iter().find(|(known, _)| *known == name) {
        Some((_, plan)) => plan(profile, workers),
        None => Err(LabError::NotSimulated {
            scenario: name,
            known: ALL.iter().map(|(known, _)| *known).collect(),
        }),
    }
}

fn label(setting: &str, case: &Case) -> String {
    format!("{setting} ({})", case.variant)
}

fn report(plan: Plan, machine: SimulatedMachine, rows: Vec<Row>) -> Report {
    Report {
        scenario: plan.scenario,
        rounds: machine.seeds,
        machine: MeasuredOn::Simulated(machine),
        gist: (plan.gist)(&rows),
        rows,
        columns: plan.columns,
        main: None,
        side_tables: Vec::new(),
        notes: Vec::new(),
        chart: plan.chart,
        limit_ns: None,
    }
}

/// An error with the command that repeats it, if a seed found it.
fn failed(error: BenchError, name: &str, sim: &SimOptions, label: &str) -> LabError {
    let BenchError::Failed { seed, what } = error else {
        return error.into();
    };
    let workers = sim.workers.map(|workers| format!(" --workers {workers}"));
    LabError::Found {
        seed,
        what,
        replay: format!(
            "doorbell lab {name} --sim {}{} --seeds {} --only '{label}'",
            sim.profile,
            workers.unwrap_or_default(),
            seed + 1
        ),
    }
}

/// The settings of a scenario that compares these, as in `rt_push=on`: all other switches are at their default.
///
/// # Panics
/// If there is no such switch or setting.
fn settings<const N: usize>(names: [&'static str; N]) -> Vec<Setting> {
    let switches = |name: &str| name.parse().unwrap_or_else(|error| panic!("{error}"));
    names.map(|name| (name, switches(name))).into()
}

/// The settings of a scenario that compares none.
fn as_they_stand() -> Vec<Setting> {
    vec![("default switches", Switches::default())]
}

/// Runs a program of that shape with each seed, and takes the metrics of the figures of all.
fn measure<S: Copy + 'static, T: Default + 'static>(
    run: fn(&Bench, S) -> Result<T, BenchError>,
    shape: S,
    add: fn(&mut T, T),
    metrics: fn(&T) -> Metrics,
) -> Measure {
    Box::new(move |seeds| Ok(metrics(&seeds.sum(|bench| run(bench, shape), add)?)))
}

/// Why a scenario cannot have so many workers.
fn reject(scenario: &'static str, needs: &'static str, given: usize) -> LabError {
    LabError::Workers {
        scenario,
        needs,
        given,
    }
}

/// The percentiles for which there are enough times, in µs, by names that begin so.
fn put_times(metrics: &mut Metrics, prefix: &str, times_ns: &[u64]) {
    let mut samples = Samples::default();
    for ns in times_ns {
        samples.record(*ns);
    }
    for (name, us) in late::percentiles(&samples) {
        metrics.put(&format!("{prefix}{name}"), Some(us));
    }
}

/// A quotient, if there is a divisor.
fn per(count: u64, of: u64) -> Option<f64> {
    (of > 0).then(|| count as f64 / of as f64)
}

/// A chart of two metrics.
fn chart(
    title: &'static str,
    unit: &'static str,
    series: [(&'static str, &'static str); 2],
) -> Chart {
    let series = series.into_iter().map(|(title, metric)| Series {
        title,
        metric,
        low: metric,
        high: metric,
    });
    Chart {
        title,
        unit,
        series: series.collect(),
    }
}

/// "name (variant)" of each row, for the tests of the help.
#[cfg(test)]
pub(crate) fn labels(name: &'static str, sim: &SimOptions) -> Vec<String> {
    let profile = Profile::load(&sim.profile).expect("the example names a profile");
    let plan = plan(name, &profile, sim.workers).expect("the example can be run");
    let all = pairs(&plan);
    all.map(|((setting, _), case)| label(setting, case))
        .collect()
}
