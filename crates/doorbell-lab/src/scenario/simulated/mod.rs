//! Scenarios on simulated machines: `doorbell lab SCENARIO --sim PROFILE`.
//!
//! The programs are in `doorbell_sim::bench`; here each is run with several switches and seeds, and its figures become
//! a report. Times are simulated time, so the load of this host changes nothing, and the same seeds give the same
//! table.

mod plans;

use doorbell::Switches;
use doorbell_sim::bench::{Bench, BenchError};
use doorbell_sim::profile::Profile;

use super::{Options, SimOptions};
use crate::error::LabError;
use crate::frame::{Metric, matching, percentiles};
use crate::measure::Samples;
use crate::progress::Progress;
use crate::report::{Chart, MeasuredOn, Metrics, Report, Row, SimulatedMachine};

/// What the rows of a scenario differ in, what is shown of them, and what they show together.
struct Plan {
    scenario: &'static str,
    /// The settings of switches; none stands for the default switches.
    settings: &'static [&'static str],
    cases: Vec<Case>,
    /// The setting by whose figure of this metric each is divided.
    baseline: Option<(&'static str, &'static str)>,
    metrics: &'static [Metric],
    chart: Chart,
    gist: fn(&[Row]) -> String,
}

type Measure = dyn Fn(&mut Seeds<'_>) -> Result<Metrics, BenchError>;

/// A program, and how many workers it has.
struct Case {
    variant: String,
    workers: usize,
    measure: Box<Measure>,
}

impl Case {
    /// Runs the program with each seed, adds the figures up and makes metrics of them.
    fn new<S: Copy + 'static, T: Default + 'static>(
        variant: impl Into<String>,
        workers: usize,
        shape: S,
        run: fn(&Bench, S) -> Result<T, BenchError>,
        add: fn(&mut T, T),
        metrics: impl Fn(&T, u64) -> Metrics + 'static,
    ) -> Self {
        Self {
            variant: variant.into(),
            workers,
            measure: Box::new(move |seeds| {
                let all = seeds.sum(|bench| run(bench, shape), add)?;
                Ok(metrics(&all, seeds.count.into()))
            }),
        }
    }
}

/// The seeds of a row.
struct Seeds<'a> {
    bench: Bench,
    count: u32,
    progress: &'a Progress,
    label: &'a str,
}

impl Seeds<'_> {
    fn sum<F: Default>(
        &mut self,
        run: impl Fn(&Bench) -> Result<F, BenchError>,
        add: fn(&mut F, F),
    ) -> Result<F, BenchError> {
        let mut all = F::default();
        for seed in 0..self.count {
            self.progress.say(&format!("{}, seed {seed}", self.label));
            self.bench.seed = u64::from(seed);
            add(&mut all, run(&self.bench)?);
            self.progress.advance();
        }
        Ok(all)
    }
}

/// Runs a scenario on a simulated machine.
pub(crate) fn run(
    name: &'static str,
    sim: &SimOptions,
    options: &Options,
) -> Result<Report, LabError> {
    let profile = Profile::load(&sim.profile)?;
    let plan = plan(name, &profile, sim.workers)?;
    let labels: Vec<_> = pairs(&plan)
        .map(|(setting, case)| label(setting, case))
        .collect();
    let matches = matching(&labels, options.only.as_deref())?;
    let chosen = pairs(&plan).zip(&labels).zip(&matches);
    let chosen: Vec<_> = chosen
        .filter_map(|(row, is_wanted)| is_wanted.then_some(row))
        .collect();
    let runs = chosen.len() as u64 * u64::from(sim.seeds);
    let progress = Progress::steps_on_stderr(runs, "runs");
    let (mut rows, mut cores) = (Vec::new(), Vec::new());
    for ((setting, case), label) in chosen {
        let mut seeds = Seeds {
            bench: Bench {
                machine: profile.spec().clone(),
                switches: switches(setting),
                seed: 0,
            },
            count: sim.seeds,
            progress: &progress,
            label,
        };
        let measured = (case.measure)(&mut seeds);
        cores.push(case.workers);
        rows.push(Row {
            contestant: setting.to_owned(),
            variant: case.variant.clone(),
            metrics: measured.map_err(|error| failed(error, name, sim, label))?,
        });
    }
    progress.clear();
    if let Some(baseline) = plan.baseline {
        divide(&mut rows, baseline);
    }
    cores.sort_unstable();
    cores.dedup();
    Ok(Report {
        scenario: plan.scenario,
        rounds: sim.seeds,
        machine: MeasuredOn::Simulated(SimulatedMachine {
            profile: profile.name().to_owned(),
            about: profile.about().to_owned(),
            cores,
            seeds: sim.seeds,
        }),
        gist: (plan.gist)(&rows),
        rows,
        columns: plan.metrics.iter().flat_map(|one| one.columns()).collect(),
        main: None,
        side_tables: Vec::new(),
        notes: Vec::new(),
        chart: plan.chart,
    })
}

const AS_THEY_STAND: &str = "default switches";

fn switches(setting: &str) -> Switches {
    if setting == AS_THEY_STAND {
        return Switches::default();
    }
    setting.parse().unwrap_or_else(|error| panic!("{error}"))
}

fn pairs(plan: &Plan) -> impl Iterator<Item = (&'static str, &Case)> {
    let settings = plan.settings.iter();
    settings.flat_map(|setting| plan.cases.iter().map(move |case| (*setting, case)))
}

fn plan(name: &'static str, profile: &Profile, workers: Option<usize>) -> Result<Plan, LabError> {
    match plans::ALL.iter().find(|(known, _)| *known == name) {
        Some((_, plan)) => plan(profile, workers),
        None => Err(LabError::NotSimulated {
            scenario: name,
            known: plans::ALL.iter().map(|(known, _)| *known).collect(),
        }),
    }
}

fn label(setting: &str, case: &Case) -> String {
    format!("{setting} ({})", case.variant)
}

/// Puts the ratios to the rows of the baseline.
fn divide(rows: &mut [Row], (setting, metric): (&str, &str)) {
    let of_baseline = rows.iter().filter(|row| row.contestant == setting);
    let known = of_baseline.filter_map(|row| {
        let value = row.metrics.get(metric).filter(|value| *value > 0.0)?;
        Some((row.variant.clone(), value))
    });
    let known: Vec<_> = known.collect();
    for row in rows {
        let base = known.iter().find(|(variant, _)| *variant == row.variant);
        let value = row.metrics.get(metric);
        let ratio = value.zip(base).map(|(value, (_, base))| value / base);
        row.metrics.put("ratio_x", ratio);
    }
}

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

/// Puts percentiles of these times.
fn put_times(metrics: &mut Metrics, prefix: &str, times_ns: &[u64]) {
    let mut samples = Samples::default();
    for ns in times_ns {
        samples.record(*ns);
    }
    for (name, us) in percentiles(&samples) {
        metrics.put(&format!("{prefix}{name}"), Some(us));
    }
}

fn per(count: u64, of: u64) -> Option<f64> {
    (of > 0).then(|| count as f64 / of as f64)
}

#[cfg(test)]
pub(crate) fn labels(name: &'static str, sim: &SimOptions) -> Vec<String> {
    let profile = Profile::load(&sim.profile).expect("the example names a profile");
    let plan = plan(name, &profile, sim.workers).expect("the example can be run");
    let labels = pairs(&plan).map(|(setting, case)| label(setting, case));
    labels.collect()
}

#[cfg(test)]
mod tests;
