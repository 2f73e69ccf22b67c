//! `doorbell sim fuzz`.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use clap::Args;
use doorbell_sim::fuzz::{self, Fuzzed, MarkRow, Plan, Span, why_rare};
use doorbell_sim::profile::Profile;
use serde_json::{Value, json};

use super::failure;
use super::{MachineArgs, load, memory_name, shapes_of};
use crate::error::LabError;
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
    /// Print JSON instead of the table
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
///
/// # Errors
/// [`LabError::Profile`], [`LabError::Unknown`], and [`LabError::Simulation`] if the machine cannot be
/// simulated. A failure that the seeds find is part of the report.
pub(crate) fn fuzz(options: &FuzzOptions) -> Result<FuzzReport, LabError> {
    let profile = load(options.machine.profile.as_deref())?;
    let shapes = shapes_of(options.shape.as_deref())?;
    let plan = Plan {
        seeds: options.seeds,
        cores: options.machine.cores,
        memory: options.machine.memory,
        profile: profile.as_ref().map(Profile::spec),
        shapes: &shapes,
    };
    let progress = Progress::steps_on_stderr(options.seeds.count(), "seeds");
    let started = Instant::now();
    let mut drawn = None;
    let done = fuzz::fuzz(&plan, |seed, done| {
        if drawn.is_none_or(|at: Instant| at.elapsed() >= DRAW_EVERY) {
            let millions = done.tally.events / 1_000_000;
            let what = format!("seed {seed}, {millions} M events");
            progress.at_second(done.tally.seeds, &what);
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

    /// A table for people.
    pub(crate) fn to_table(&self) -> String {
        let tally = &self.done.tally;
        let seconds = self.took.as_secs_f64();
        let mut text = format!("{:<26} {:>10} {:>9}\n", "mark", "seeds", "per cent");
        // Writing to a string does not fail.
        for row in &self.done.marks {
            let (name, percent) = (format!("{:?}", row.mark), self.done.percent(row));
            let _ = write!(text, "{name:<26} {:>10} {percent:>9.1}", row.seeds);
            if let Some(why) = self.why(row) {
                let _ = write!(text, "  rare ({}): {why}", row.mark.about());
            }
            text.push('\n');
        }
        let _ = writeln!(
            text,
            "\nseeds {}, cores {}, memory {}{}: {} seeds, {} runs, {} events, {:.3} s simulated, \
             {} faults, {} interrupts held, {} rings of {} parks, hash {:016x}, in {seconds:.1} s",
            self.options.seeds,
            self.options.machine.cores,
            memory_name(self.options.machine.memory),
            self.profile_words(),
            tally.seeds,
            tally.runs,
            tally.events,
            tally.time_ns as f64 / 1e9,
            tally.faults,
            tally.interrupts_held,
            tally.rings,
            tally.parks,
            tally.hash,
        );
        let profile = self.options.machine.profile.as_deref();
        match &self.done.found {
            Some(found) => {
                text.push('\n');
                text.push_str(&failure::to_text(found, profile));
            }
            None => text.push_str("no oracle failed, and every run was the same twice\n"),
        }
        text
    }

    fn profile_words(&self) -> String {
        let profile = self.options.machine.profile.as_ref();
        profile.map_or_else(String::new, |name| format!(", profile {name}"))
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
        let found = self.done.found.as_ref();
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
            "failure": found.map(|found| failure::to_json(found, profile)),
        })
    }

    /// Whether no seed failed.
    ///
    /// # Errors
    /// [`LabError::Found`] with the command that repeats the failure.
    pub(crate) fn check(&self) -> Result<(), LabError> {
        let Some(found) = &self.done.found else {
            return Ok(());
        };
        let profile = self.options.machine.profile.as_deref();
        Err(LabError::Found {
            seed: found.setup.seed,
            what: failure::what(&found.what),
            replay: failure::replay_command(&found.setup, found.shape, profile),
        })
    }
}
