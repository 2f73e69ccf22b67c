//! Scenarios on simulated machines: `doorbell lab SCENARIO --sim PROFILE`.
//!
//! The programs are in `doorbell_sim::bench`; here each is run with several switches and seeds, and its figures become
//! a report. Times are simulated time, so the load of this host changes nothing, and the same seeds give the same
//! table.

mod parallel;
pub(super) mod plans;

use doorbell::switches::Switches;
use doorbell_sim::bench::{Bench, BenchError};
use doorbell_sim::profile::Profile;

use parallel::each_seed;

use super::{Options, SimOptions};
use crate::error::LabError;
use crate::frame::{matching, percentiles};
use crate::measure::Samples;
use crate::progress::Progress;
use crate::report::{MeasuredOn, Metrics, Report, Row, SimulatedMachine, gist_of};
use crate::text::Text;

/// What the rows of a scenario differ in.
pub(super) struct Plan {
    /// The settings of switches; none stands for the default switches.
    pub(super) settings: &'static [&'static str],
    pub(super) cases: Vec<Case>,
    /// The setting by whose figure of this metric each is divided.
    pub(super) baseline: Option<(&'static str, &'static str)>,
}

type Measure = dyn Fn(&Seeds<'_>) -> Result<Metrics, BenchError>;

/// A program of some size, and how many workers it has.
pub(super) struct Case {
    variant: String,
    workers: usize,
    measure: Box<Measure>,
}

/// A program, how the figures of several seeds are added up, and what is shown of them.
pub(super) struct Program<S, F: 'static> {
    pub(super) run: fn(&Bench, S) -> Result<F, BenchError>,
    pub(super) add: fn(&mut F, F),
    /// Times, each with what stands before the names of their percentiles.
    pub(super) times: &'static [Times<F>],
    pub(super) figures: &'static [Figure<F>],
}

type Times<F> = (&'static str, fn(&F) -> &[u64]);

/// A metric, and of what it is the ratio: of a program's figures, and of the number of its workers in all runs.
pub(super) type Figure<F> = (&'static str, fn(&F, u64) -> [u64; 2]);

impl<S: Copy + Sync + 'static, F: Default + Send> Program<S, F> {
    /// Runs it with each seed, adds the figures up and makes metrics of them.
    pub(super) fn case(&'static self, variant: String, workers: usize, shape: S) -> Case {
        let measure = move |seeds: &Seeds<'_>| {
            let run = |seed: u32| {
                seeds.progress.say(&format!("{}, seed {seed}", seeds.label));
                let bench = Bench {
                    seed: u64::from(seed),
                    ..seeds.bench.clone()
                };
                let figures = (self.run)(&bench, shape);
                seeds.progress.advance();
                figures
            };
            let (mut all, mut each) = (F::default(), Vec::new());
            for figures in each_seed(seeds.count, run) {
                let figures = figures?;
                each.push(self.metrics(&figures, workers as u64));
                (self.add)(&mut all, figures);
            }
            let mut metrics = self.metrics(&all, workers as u64 * u64::from(seeds.count));
            metrics.put_variations(&each);
            Ok(metrics)
        };
        Case {
            variant,
            workers,
            measure: Box::new(measure),
        }
    }

    fn metrics(&self, figures: &F, worker_runs: u64) -> Metrics {
        let mut metrics = Metrics::default();
        for (prefix, times_ns) in self.times {
            let samples: Samples = times_ns(figures).iter().copied().collect();
            for (name, us) in percentiles(&samples) {
                metrics.put(&format!("{prefix}{name}"), Some(us));
            }
        }
        for (name, value) in self.figures {
            // It is not known if the second is 0.
            let [count, of] = value(figures, worker_runs).map(|count| count as f64);
            metrics.put(name, Some(count / of));
        }
        metrics
    }
}

/// The seeds of a row.
struct Seeds<'a> {
    bench: Bench,
    count: u32,
    progress: &'a Progress,
    label: &'a str,
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
        let seeds = Seeds {
            bench: Bench {
                machine: profile.spec().clone(),
                switches: switches(setting),
                seed: 0,
            },
            count: sim.seeds,
            progress: &progress,
            label,
        };
        let measured = (case.measure)(&seeds);
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
    let text = super::of_name(name).map_or(Text(""), |scenario| scenario.text);
    let gist = gist_of(text, "Gist with --sim", &rows);
    let metrics = text.metrics("Metrics with --sim");
    cores.sort_unstable();
    cores.dedup();
    Ok(Report {
        scenario: name,
        rounds: sim.seeds,
        machine: MeasuredOn::Simulated(SimulatedMachine {
            profile: profile.name().to_owned(),
            about: profile.about().to_owned(),
            cores,
            seeds: sim.seeds,
        }),
        gist,
        rows,
        columns: metrics.iter().flat_map(|one| one.columns()).collect(),
        main: None,
        side_tables: Vec::new(),
        notes: Vec::new(),
        chart: text.chart("Chart with --sim", &metrics),
    })
}

pub(super) const AS_THEY_STAND: &str = "default switches";

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
        None => Err(LabError::Said(format!(
            "`{name}` has no form for simulated machines: leave out --sim, or measure {} there",
            plans::ALL.map(|(known, _)| known).join(", ")
        ))),
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

#[cfg(test)]
pub(crate) fn labels(name: &'static str, sim: &SimOptions) -> Vec<String> {
    let profile = Profile::load(&sim.profile).expect("the example names a profile");
    let plan = plan(name, &profile, sim.workers).expect("the example can be run");
    let labels = pairs(&plan).map(|(setting, case)| label(setting, case));
    labels.collect()
}

#[cfg(test)]
mod tests;
