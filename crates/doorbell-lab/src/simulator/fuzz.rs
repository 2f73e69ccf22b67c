//! `doorbell sim fuzz`.

use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;
use doorbell_sim::fuzz::{self, Fuzzed, MarkRow, Plan, Span, why_rare};
use doorbell_sim::profile::Profile;
use serde_json::{Value, json};

use super::failure;
use super::{MachineArgs, load, memory_name, shapes_of};
use crate::progress::Progress;

/// The text for a rare mark that is not rare in a full run: this run is small, or left out shapes.
const UNEXPLAINED: &str = "not so in a run of all shapes with hundreds of seeds on 2 to 15 cores";
/// The shortest time between two updates of the progress line.
const DRAW_EVERY: Duration = Duration::from_millis(100);

/// The options of the fuzzer.
#[derive(Debug, Clone, Args)]
pub(crate) struct FuzzOptions {
    /// The seeds
    #[arg(long, value_name = "A..B", default_value = "0..200")]
    seeds: Span,
    #[command(flatten)]
    machine: MachineArgs,
    /// Only this shape of program
    #[arg(long, value_name = "NAME")]
    shape: Option<String>,
    /// Print JSON instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

/// The report of a fuzzer run.
#[derive(Debug)]
pub(crate) struct FuzzReport {
    options: FuzzOptions,
    done: Fuzzed,
    took: Duration,
}

/// Runs the seeds.
pub(crate) fn fuzz(options: &FuzzOptions) -> Result<FuzzReport> {
    let profile = load(options.machine.profile.as_deref())?;
    let shapes = shapes_of(options.shape.as_deref())?;
    let plan = Plan {
        seeds: options.seeds,
        cores: options.machine.cores,
        memory: options.machine.memory,
        profile: profile.as_ref().map(Profile::spec),
        shapes: &shapes,
    };
    let progress = Progress::on_stderr(options.seeds.count(), "seeds");
    let started = Instant::now();
    let mut drawn = None;
    let done = fuzz::fuzz(&plan, |seed, done| {
        if drawn.is_none_or(|at: Instant| at.elapsed() >= DRAW_EVERY) {
            let millions = done.tally.events / 1_000_000;
            let what = format!("seed {seed}, {millions} M events");
            progress.at(done.tally.seeds, &what);
            drawn = Some(Instant::now());
        }
    });
    progress.clear();
    Ok(FuzzReport {
        options: options.clone(),
        done: done?,
        took: started.elapsed(),
    })
}

impl FuzzReport {
    /// How fast the simulator was: of each seed both runs count.
    pub(crate) fn speed(&self) -> String {
        let (events, seconds) = (2 * self.done.tally.events, self.took.as_secs_f64());
        format!(
            "{:.1} M events in {seconds:.1} s on one CPU of this host, {:.1} M a second",
            events as f64 / 1e6,
            events as f64 / 1e6 / seconds
        )
    }

    /// Why a mark is rare; `None` if it is not.
    fn why(&self, row: &MarkRow) -> Option<&'static str> {
        let reason = why_rare(row.mark).unwrap_or(UNEXPLAINED);
        self.done.is_rare(row).then_some(reason)
    }

    /// One JSON object. Its `debug_assertions` says whether this build has them, which must not change the hash.
    pub(crate) fn json(&self) -> Value {
        let (machine, tally) = (&self.options.machine, &self.done.tally);
        let profile = machine.profile.as_deref();
        let mark = |row: &MarkRow| {
            let (mark, percent) = (format!("{:?}", row.mark), self.done.percent(row));
            match self.why(row) {
                None => json!({"mark": mark, "seeds": row.seeds, "percent": percent}),
                Some(why) => {
                    json!({"mark": mark, "seeds": row.seeds, "percent": percent, "why_rare": why})
                }
            }
        };
        let failed = self.done.found.as_ref();
        let failed = failed.map(|found| failure::to_json(found, profile));
        json!({
            "program": "sim fuzz",
            "seeds": self.options.seeds.to_string(),
            "cores": machine.cores.to_string(),
            "memory": memory_name(machine.memory),
            "profile": profile,
            "seeds_run": tally.seeds,
            "runs": tally.runs,
            "events": tally.events,
            "simulated_ns": tally.time_ns,
            "rings": tally.rings,
            "parks": tally.parks,
            "faults": tally.faults,
            "hash": format!("{:016x}", tally.hash),
            "debug_assertions": cfg!(debug_assertions),
            "interrupts_held": tally.interrupts_held,
            "seconds": self.took.as_secs_f64(),
            "marks": self.done.marks.iter().map(mark).collect::<Vec<_>>(),
            "failure": failed,
        })
    }

    /// Whether no seed failed.
    pub(crate) fn check(&self) -> Result<()> {
        let profile = self.options.machine.profile.as_deref();
        failure::check(self.done.found.as_deref(), profile)
    }
}
