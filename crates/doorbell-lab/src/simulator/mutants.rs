//! `doorbell sim mutants`.
//!
//! Each hunt is a process of its own, since a mutant may crash its process.

use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use doorbell_machine::sim::Memory;
use doorbell_sim::fuzz::{MUTANTS, Mutant, Shown, Span, hunt};
use serde_json::{Value, json};

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

/// Hunts the mutants, one after another: how each hunt ended, and an error if no seed noticed one.
pub(crate) fn mutants(options: &MutantsOptions) -> Result<(Value, Result<()>)> {
    let is_chosen = |mutant: &&Mutant| is_chosen(&name(mutant), options);
    let chosen: Vec<_> = MUTANTS.iter().filter(is_chosen).collect();
    if chosen.is_empty() {
        let wanted = options.only.as_deref().unwrap_or_default();
        let known = MUTANTS.iter().map(name);
        return Err(unknown("mutant", wanted, known));
    }
    ensure!(
        cfg!(feature = "mutants"),
        "no mutants in this build; `cargo run --release --features mutants -- sim mutants` has them"
    );
    let progress = Progress::on_stderr(chosen.len() as u64, "mutants");
    let mut rows = Vec::new();
    for (number, mutant) in chosen.into_iter().enumerate() {
        progress.at(number as u64, &name(mutant));
        rows.push(match (mutant.shown, &options.here) {
            (Shown::NotHere(why), _) => {
                let mut row = row(mutant, None, false);
                row["not_here"] = why.into();
                row
            }
            (Shown::Under(memory), Some(_)) => hunt_here(mutant, memory, options)?,
            (Shown::Under(memory), None) => hunt_in_child(mutant, memory, options)?,
        });
    }
    progress.clear();
    let alive = all_noticed(&rows);
    Ok((json!({"program": "sim mutants", "mutants": rows}), alive))
}

/// How a hunt ended. A mutant that cannot show in the simulator has no memory model, and a process that crashed tells of no
/// seeds.
fn row(mutant: &Mutant, memory: Option<&str>, killed: bool) -> Value {
    json!({
        "mutant": name(mutant), "memory": memory, "killed": killed, "not_here": null, "seeds": null, "seed": null,
        "shape": null, "cores": null, "what": null,
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

fn hunt_here(mutant: &Mutant, memory: Memory, options: &MutantsOptions) -> Result<Value> {
    let memory = options.memory.unwrap_or(memory);
    let hunt = hunt(mutant, memory, options.seeds, options.cores, |_| ())?;
    let mut row = row(mutant, Some(memory_name(memory)), hunt.killed.is_some());
    row["seeds"] = hunt.seeds.into();
    if let Some(killed) = hunt.killed {
        row["seed"] = killed.seed.into();
        row["shape"] = killed.shape.into();
        row["cores"] = killed.cores.into();
        row["what"] = killed.failure.to_string().into();
    }
    Ok(row)
}

/// Hunts a mutant in a child process. If the child crashes, the mutant counts as noticed.
fn hunt_in_child(mutant: &Mutant, memory: Memory, options: &MutantsOptions) -> Result<Value> {
    let failed = "starting this program again";
    let memory = memory_name(options.memory.unwrap_or(memory));
    let (seeds, cores) = (options.seeds.to_string(), options.cores.to_string());
    let output = Command::new(std::env::current_exe().context(failed)?)
        .args(["sim", "mutants", "--json", "--here", &name(mutant)])
        .args(["--seeds", &seeds, "--cores", &cores, "--memory", memory])
        .output()
        .context(failed)?;
    let mut report: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let told = report.pointer_mut("/mutants/0").map(Value::take);
    // An exit status of 1 or 2 reports an error; it is no crash.
    if told.is_none() && matches!(output.status.code(), Some(1 | 2)) {
        bail!("{failed}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(told.unwrap_or_else(|| {
        let mut row = row(mutant, Some(memory), true);
        row["what"] = format!("the process crashed: {}", output.status).into();
        row
    }))
}

/// An error that names the mutants that were not noticed.
fn all_noticed(rows: &[Value]) -> Result<()> {
    let alive = rows.iter();
    let alive = alive.filter(|row| row["killed"] == false && row["not_here"].is_null());
    let names: Vec<_> = alive.filter_map(|row| row["mutant"].as_str()).collect();
    let alive = names.join(", ");
    ensure!(
        names.is_empty(),
        "no seed noticed {alive}; more seeds (`--seeds 0..10000`) may, or a check is missing"
    );
    Ok(())
}
