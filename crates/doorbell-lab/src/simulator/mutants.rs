//! `doorbell sim mutants`.

use std::fmt::Write as _;

use doorbell_machine::sim::Memory;
use doorbell_sim::fuzz::{Hunt, MUTANTS, Mutant, Span, hunt};
use serde::Serialize;

use super::memory_name;
use crate::error::LabError;
use crate::progress::Progress;

/// What the user asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MutantsOptions {
    /// The seeds of each hunt.
    pub seeds: Span,
    /// How many cores the runs have.
    pub cores: Span,
    /// Only mutants whose name contains this.
    pub only: Option<String>,
    /// JSON instead of the table.
    pub json: bool,
}

/// How the hunts ended.
#[derive(Debug)]
pub struct MutantsReport {
    hunts: Vec<(Memory, Hunt)>,
}

#[derive(Serialize)]
struct Json {
    program: &'static str,
    mutants: Vec<JsonMutant>,
}

#[derive(Serialize)]
struct JsonMutant {
    mutant: String,
    memory: &'static str,
    killed: bool,
    seeds: u64,
    seed: Option<u64>,
    shape: Option<&'static str>,
    cores: Option<usize>,
    what: Option<String>,
}

/// Hunts the mutants, one after the other.
///
/// # Errors
/// [`LabError::NoSuchMutant`], and [`LabError::Simulation`] if the machine cannot be simulated.
pub fn mutants(options: &MutantsOptions) -> Result<MutantsReport, LabError> {
    let wanted = options.only.as_deref().unwrap_or_default();
    let name = |mutant: &Mutant| format!("{:?}", mutant.bug);
    let chosen: Vec<_> = MUTANTS
        .iter()
        .filter(|mutant| name(mutant).contains(wanted))
        .collect();
    if chosen.is_empty() {
        return Err(LabError::NoSuchMutant {
            filter: wanted.to_owned(),
            known: MUTANTS.iter().map(name).collect(),
        });
    }
    let progress = Progress::steps_on_stderr(chosen.len() as u64, "mutants");
    let mut hunts = Vec::new();
    for (number, mutant) in chosen.into_iter().enumerate() {
        let hunted = hunt(mutant, options.seeds, options.cores, None, |seed| {
            let what = format!("{:?}, seed {seed}", mutant.bug);
            progress.at_second(number as u64, &what);
        })?;
        hunts.push((mutant.memory, hunted));
    }
    progress.clear();
    Ok(MutantsReport { hunts })
}

impl MutantsReport {
    /// A table for people.
    pub fn to_table(&self) -> String {
        let mut text = format!(
            "{:<24} {:<6} {:>7}  {:<11} noticed by\n",
            "mutant", "memory", "seeds", "shape"
        );
        // Writing to a string does not fail.
        for (memory, hunt) in &self.hunts {
            let (name, memory) = (format!("{:?}", hunt.bug), memory_name(*memory));
            let (shape, what) = match &hunt.killed {
                Some(killed) => (killed.shape, killed.failure.to_string()),
                None => ("-", "NOBODY".to_owned()),
            };
            let what = what.lines().next().unwrap_or_default();
            let seeds = hunt.seeds;
            let _ = writeln!(
                text,
                "{name:<24} {memory:<6} {seeds:>7}  {shape:<11} {what}"
            );
        }
        let killed = self.hunts.iter().filter(|(_, hunt)| hunt.killed.is_some());
        let _ = writeln!(
            text,
            "\n{} of {} mutants were noticed",
            killed.count(),
            self.hunts.len()
        );
        text
    }

    /// One JSON object.
    ///
    /// # Errors
    /// [`LabError::Json`] if a figure has no JSON form.
    pub fn to_json(&self) -> Result<String, LabError> {
        let mutant = |(memory, hunt): &(Memory, Hunt)| {
            let killed = hunt.killed.as_ref();
            JsonMutant {
                mutant: format!("{:?}", hunt.bug),
                memory: memory_name(*memory),
                killed: killed.is_some(),
                seeds: hunt.seeds,
                seed: killed.map(|killed| killed.seed),
                shape: killed.map(|killed| killed.shape),
                cores: killed.map(|killed| killed.cores),
                what: killed.map(|killed| killed.failure.to_string()),
            }
        };
        let json = Json {
            program: "sim mutants",
            mutants: self.hunts.iter().map(mutant).collect(),
        };
        Ok(serde_json::to_string_pretty(&json)? + "\n")
    }

    /// Whether every mutant was noticed.
    ///
    /// # Errors
    /// [`LabError::MutantsLive`] names those that were not.
    pub fn check(&self) -> Result<(), LabError> {
        let alive = self.hunts.iter().filter(|(_, hunt)| hunt.killed.is_none());
        let names: Vec<String> = alive.map(|(_, hunt)| format!("{:?}", hunt.bug)).collect();
        if names.is_empty() {
            Ok(())
        } else {
            Err(LabError::MutantsLive { names })
        }
    }
}
