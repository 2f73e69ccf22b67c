//! Scenarios on simulated machines: `doorbell lab SCENARIO --sim PROFILE`.
//!
//! The programs are in `doorbell_sim::bench`; here each is run with several switches and seeds, and its figures become
//! a report. Times are simulated time, so the load of this host changes nothing, and the same seeds give the same
//! table.

mod parallel;
mod plans;

use anyhow::{Context as _, Error, Result};
use doorbell::switches::Switches;
use doorbell_sim::bench::{Bench, BenchError, Measured};
use doorbell_sim::profile::Profile;
use serde::de::DeserializeOwned;
use toml::de::ValueDeserializer;

use parallel::each_seed;

use super::Options;
use crate::frame::{matching, percentiles};
use crate::measure::Samples;
use crate::progress::Progress;
use crate::report::{MeasuredOn, Metrics, Report, Row, SimulatedMachine, gist_of, main_table};
use crate::text::Text;

/// What the rows of a scenario differ in.
struct Plan {
    /// The settings of switches.
    settings: Vec<&'static str>,
    cases: Vec<Case>,
    /// The setting by whose figure of this metric each is divided.
    baseline: Option<(&'static str, &'static str)>,
}

/// Takes the metrics of a case that has so many workers.
type Measure = dyn Fn(&Seeds<'_>, u64) -> Result<Metrics, BenchError>;
type Run<S, F> = fn(&Bench, S) -> Result<F, BenchError>;

/// A program of some size, and how many workers it has.
struct Case {
    variant: String,
    workers: usize,
    measure: Box<Measure>,
}

/// A program, with all metrics of its figures.
fn figures<S, F>(run: Run<S, F>, shape: &str) -> Box<Measure>
where
    S: DeserializeOwned + Clone + Sync + 'static,
    F: Measured + Send + 'static,
{
    with(run, shape, all_metrics)
}

/// A program, and the one figure of it that is shown.
fn figure<S, F>(run: Run<S, F>, shape: &str, op_ns: fn(&F) -> [u64; 2]) -> Box<Measure>
where
    S: DeserializeOwned + Clone + Sync + 'static,
    F: Measured + Send + 'static,
{
    with(run, shape, move |found, _| {
        let mut metrics = Metrics::default();
        put_ratio(&mut metrics, "op_ns", op_ns(found));
        metrics
    })
}

/// Runs it with each seed, adds the figures up and makes metrics of them, for a number of workers in all runs.
fn with<S, F>(
    run: Run<S, F>,
    shape: &str,
    metrics: impl Fn(&F, u64) -> Metrics + 'static,
) -> Box<Measure>
where
    S: DeserializeOwned + Clone + Sync + 'static,
    F: Measured + Send + 'static,
{
    let value = ValueDeserializer::parse(shape).and_then(S::deserialize);
    let shape = value.unwrap_or_else(|error| panic!("not a shape: {shape}: {error}"));
    Box::new(move |seeds, workers| {
        let run = |seed: u32| {
            seeds.progress.say(&format!("{}, seed {seed}", seeds.label));
            let bench = Bench {
                seed: u64::from(seed),
                ..seeds.bench.clone()
            };
            let figures = run(&bench, shape.clone());
            seeds.progress.advance();
            figures
        };
        let (mut all, mut each) = (F::default(), Vec::new());
        for figures in each_seed(seeds.count, run) {
            let figures = figures?;
            each.push(metrics(&figures, workers));
            all.add(figures);
        }
        let mut metrics = metrics(&all, workers * u64::from(seeds.count));
        metrics.put_variations(&each);
        Ok(metrics)
    })
}

fn all_metrics(figures: &impl Measured, worker_runs: u64) -> Metrics {
    let mut metrics = Metrics::default();
    for (prefix, times_ns) in figures.times_ns() {
        let samples: Samples = times_ns.iter().copied().collect();
        for (name, us) in percentiles(&samples) {
            metrics.put(&format!("{prefix}{name}"), Some(us));
        }
    }
    for (name, ratio) in figures.ratios(worker_runs) {
        put_ratio(&mut metrics, name, ratio);
    }
    metrics
}

/// Adds a ratio, unless it is not known because the second is 0.
fn put_ratio(metrics: &mut Metrics, name: &str, [count, of]: [u64; 2]) {
    metrics.put(name, Some(count as f64 / of as f64));
}

/// The seeds of a row.
struct Seeds<'a> {
    bench: Bench,
    count: u32,
    progress: &'a Progress,
    label: &'a str,
}

/// Runs a scenario on a simulated machine.
pub(crate) fn run(name: &'static str, sim: &str, options: &Options) -> Result<Report> {
    let (profile, seeds) = (Profile::load(sim)?, options.seeds());
    let plan = plan(name, &profile, options.workers)?;
    let labels: Vec<_> = pairs(&plan)
        .map(|(setting, case)| label(setting, case))
        .collect();
    let matches = matching(&labels, options.only.as_deref())?;
    let chosen = pairs(&plan).zip(&labels).zip(&matches);
    let chosen: Vec<_> = chosen
        .filter_map(|(row, is_wanted)| is_wanted.then_some(row))
        .collect();
    let runs = chosen.len() as u64 * u64::from(seeds);
    let progress = Progress::on_stderr(runs, "runs");
    let (mut rows, mut cores) = (Vec::new(), Vec::new());
    for ((setting, case), label) in chosen {
        let seeds = Seeds {
            bench: Bench {
                machine: profile.spec().clone(),
                switches: switches(setting),
                seed: 0,
            },
            count: seeds,
            progress: &progress,
            label,
        };
        let measured = (case.measure)(&seeds, case.workers as u64);
        cores.push(case.workers);
        let measured = measured.map_err(|error| failed(error, name, sim, options, label))?;
        rows.push(Row::new(setting, &case.variant, measured));
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
        rounds: seeds,
        machine: MeasuredOn::Simulated(SimulatedMachine {
            profile: profile.name().to_owned(),
            about: profile.about().to_owned(),
            cores,
            seeds,
        }),
        gist,
        main: main_table(&metrics, &rows, seeds),
        rows,
        side_tables: Vec::new(),
        notes: Vec::new(),
        chart: text.chart("Chart with --sim", &metrics),
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

fn plan(name: &'static str, profile: &Profile, workers: Option<u32>) -> Result<Plan> {
    let names = plans::names();
    let scenario = super::of_name(name).filter(|_| names.contains(&name));
    let scenario = scenario.with_context(|| {
        let names = names.join(", ");
        format!(
            "`{name}` has no form for simulated machines: leave out --sim, or measure {names} there"
        )
    })?;
    let workers = workers.map(|workers| workers as usize);
    plans::of(name, scenario.text, profile, workers)
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

/// With the command that repeats it.
fn failed(error: BenchError, name: &str, sim: &str, options: &Options, label: &str) -> Error {
    let BenchError::Failed { seed, what } = error else {
        return error.into();
    };
    let workers = options
        .workers
        .map(|workers| format!(" --workers {workers}"));
    let workers = workers.unwrap_or_default();
    let replay = format!(
        "doorbell lab {name} --sim {sim}{workers} --seeds {} --only '{label}'",
        seed + 1
    );
    crate::simulator::failed(seed, &what, &replay)
}

#[cfg(test)]
pub(crate) fn labels(name: &'static str, sim: &str, options: &Options) -> Vec<String> {
    let profile = Profile::load(sim).expect("the example names a profile");
    let plan = plan(name, &profile, options.workers).expect("the example can be run");
    let labels = pairs(&plan).map(|(setting, case)| label(setting, case));
    labels.collect()
}

#[cfg(test)]
mod tests;
