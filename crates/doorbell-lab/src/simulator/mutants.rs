//! `doorbell sim mutants`.
//!
//! Each hunt is a process of its own, since a mutant may crash its process.

use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use doorbell_machine::sim::Memory;
use doorbell_sim::fuzz::{MUTANTS, Mutant, Shown, Span, hunt};
use serde::{Deserialize, Serialize};

use super::{cores, memory, memory_name};
use crate::error::unknown;
use crate::progress::Progress;

/// The options of the hunts.
#[derive(Debug, Clone, Args)]
pub(crate) struct MutantsOptions {
    /// The seeds of each hunt, which ends at the first seed that notices
    #[arg(long, value_name = "A..B", default_value = "0..10000")]
    seeds: Span,
    /// The number of cores with workers; each seed picks one
    #[arg(long, value_name = "A..B", default_value = "2..=8", value_parser = cores)]
    cores: Span,
    /// What one core may see of another's stores [default: the model under which each mutant shows]
    #[arg(long, value_parser = memory())]
    memory: Option<Memory>,
    /// Only mutants whose name contains this
    #[arg(long, value_name = "SUBSTRING")]
    only: Option<String>,
    /// Only this mutant, in this process
    #[arg(long, value_name = "NAME", hide = true, conflicts_with = "only")]
    here: Option<String>,
    /// Print JSON instead of the table
    #[arg(long)]
    pub(crate) json: bool,
}

/// How the hunts ended.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct MutantsReport {
    program: String,
    mutants: Vec<Row>,
}

/// How one hunt ended.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Row {
    mutant: String,
    /// Absent if it cannot show in the simulator.
    memory: Option<String>,
    killed: bool,
    /// Why it cannot show in the simulator; then it is not hunted.
    not_here: Option<String>,
    /// How many seeds were run; absent if the process crashed.
    seeds: Option<u64>,
    seed: Option<u64>,
    shape: Option<String>,
    cores: Option<usize>,
    what: Option<String>,
}

/// Hunts the mutants, one after another.
pub(crate) fn mutants(options: &MutantsOptions) -> Result<MutantsReport> {
    let is_chosen = |mutant: &&Mutant| is_chosen(&name(mutant), options);
    let chosen: Vec<_> = MUTANTS.iter().filter(is_chosen).collect();
    if chosen.is_empty() {
        let wanted = options.only.as_deref().unwrap_or_default();
        let known = MUTANTS.iter().map(name);
        return Err(unknown("mutant", wanted, known));
    }
    if !cfg!(feature = "mutants") {
        bail!(
            "no mutants in this build; `cargo run --release --features mutants -- sim mutants` has them"
        );
    }
    let progress = Progress::steps_on_stderr(chosen.len() as u64, "mutants");
    let mut rows = Vec::new();
    for (number, mutant) in chosen.into_iter().enumerate() {
        progress.at_second(number as u64, &name(mutant));
        rows.push(match (mutant.shown, &options.here) {
            (Shown::NotHere(why), _) => Row {
                mutant: name(mutant),
                not_here: Some(why.to_owned()),
                ..Row::default()
            },
            (Shown::Under(memory), Some(_)) => hunt_here(mutant, memory, options)?,
            (Shown::Under(memory), None) => hunt_in_child(mutant, memory, options)?,
        });
    }
    progress.clear();
    Ok(MutantsReport {
        program: "sim mutants".to_owned(),
        mutants: rows,
    })
}

fn name(mutant: &Mutant) -> String {
    format!("{:?}", mutant.bug)
}

fn is_chosen(name: &str, options: &MutantsOptions) -> bool {
    match &options.here {
        Some(here) => name == here,
        None => name.contains(options.only.as_deref().unwrap_or_default()),
    }
}

fn hunt_here(mutant: &Mutant, memory: Memory, options: &MutantsOptions) -> Result<Row> {
    let memory = options.memory.unwrap_or(memory);
    let hunt = hunt(mutant, memory, options.seeds, options.cores, |_| ())?;
    let killed = hunt.killed;
    Ok(Row {
        mutant: name(mutant),
        memory: Some(memory_name(memory).to_owned()),
        killed: killed.is_some(),
        seeds: Some(hunt.seeds),
        seed: killed.as_ref().map(|killed| killed.seed),
        shape: killed.as_ref().map(|killed| killed.shape.to_owned()),
        cores: killed.as_ref().map(|killed| killed.cores),
        what: killed.map(|killed| killed.failure.to_string()),
        ..Row::default()
    })
}

/// Hunts a mutant in a child process. If the child crashes, the mutant counts as noticed.
fn hunt_in_child(mutant: &Mutant, memory: Memory, options: &MutantsOptions) -> Result<Row> {
    let failed = "starting this program again";
    let memory = memory_name(options.memory.unwrap_or(memory));
    let (seeds, cores) = (options.seeds.to_string(), options.cores.to_string());
    let output = Command::new(std::env::current_exe().context(failed)?)
        .args(["sim", "mutants", "--json", "--here", &name(mutant)])
        .args(["--seeds", &seeds, "--cores", &cores, "--memory", memory])
        .output()
        .context(failed)?;
    let report: Option<MutantsReport> = serde_json::from_slice(&output.stdout).ok();
    let row = report.and_then(|report| report.mutants.into_iter().next());
    // An exit status of 1 or 2 reports an error; it is no crash.
    if row.is_none() && matches!(output.status.code(), Some(1 | 2)) {
        bail!("{failed}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(row.unwrap_or_else(|| Row {
        mutant: name(mutant),
        memory: Some(memory.to_owned()),
        killed: true,
        what: Some(format!("the process crashed: {}", output.status)),
        ..Row::default()
    }))
}

impl MutantsReport {
    /// Whether every mutant was noticed.
    pub(crate) fn check(&self) -> Result<()> {
        let is_alive = |row: &&Row| !row.killed && row.not_here.is_none();
        let alive = self.mutants.iter().filter(is_alive);
        let names: Vec<&str> = alive.map(|row| &*row.mutant).collect();
        let alive = names.join(", ");
        ensure!(
            names.is_empty(),
            "no seed noticed {alive}; more seeds (`--seeds 0..10000`) may, or a check is missing"
        );
        Ok(())
    }
}
