//! `doorbell calibrate`: measures this host and describes it as a profile of the simulator.
//!
//! The probes are small measurements of their own and share nothing with the lab's scenarios. So what the
//! simulator predicts of a scenario is not derived from that scenario.
//!
//! | file | what is in it |
//! |---|---|
//! | `probes.md` | the probes, and how a profile's values come from them |
//! | `stand.rs` | the CPUs, their distances, and a thread on another of them |
//! | `probe.rs` | a round of all probes |
//! | `memory.rs`, `wakes.rs` | measurements of lines, and of threads that wait |
//! | `values.rs` | from figures to the values of a profile |

mod memory;
mod probe;
mod stand;
mod values;
mod wakes;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::Args;
use doorbell_sim::profile::{KEYS, Profile};
use serde_json::{Value, json};

use self::probe::{Bench, PROBES};
use self::stand::Stand;
use self::values::Sources;
use crate::cli::ROUNDS_MAX;
use crate::measure::{idle_driver, line_of, median, processor, spread_of};
use crate::progress::Progress;

/// The profile whose values are used where nothing can be measured: a small virtual machine.
const LIKE: &str = "vm-2";

/// What the user asked for.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct CalibrateOptions {
    /// Write the profile to this file
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// How often each probe is measured
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=ROUNDS_MAX))]
    rounds: u32,
    /// Print JSON instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

/// Measures this host and writes the profile, if a file is named. What it found: each probe, how it is measured, and
/// its median, least and greatest figure over the rounds, if this host has what it needs; and the profile.
pub(crate) fn run(options: &CalibrateOptions) -> Result<Value> {
    if let Some(path) = &options.out {
        // Opened before any measurement, so a path that cannot be written costs no time.
        let file = fs::OpenOptions::new().append(true).create(true).open(path);
        file.with_context(|| crate::cannot_write(path))?;
    }
    let progress = Progress::on_stderr(u64::from(options.rounds) * PROBES.len() as u64, "");
    progress.say("looking around");
    let mut bench = Bench::new(Stand::of_this_host()?);
    let rounds = (0..options.rounds).map(|number| bench.round(number, &progress));
    let rounds = rounds.collect::<Result<Vec<_>, _>>();
    progress.clear();
    let (stand, rounds, like) = (&bench.stand, rounds?, Profile::load(LIKE)?);
    let sources = Sources {
        stand,
        rounds: &rounds,
        like: &like,
    };
    let parts = KEYS.map(|key| sources.entry(key.name));
    let stem = options.out.as_ref().and_then(|path| path.file_stem());
    let name = stem.map_or("host".into(), |stem| stem.to_string_lossy());
    let profile = Profile::from_parts(&name, &about_this_host(stand), &parts)?;
    if let Some(path) = &options.out {
        let written = fs::write(path, profile.to_toml());
        written.with_context(|| crate::cannot_write(path))?;
    }
    let probes = PROBES.iter().map(|(probe, how)| {
        let values = rounds.iter().filter_map(|round| round.get(&**probe));
        let values: Vec<f64> = values.copied().collect();
        let ends = spread_of(&values);
        json!({
            "probe": probe, "median_ns": median(&values), "min_ns": ends.map(|ends| ends[0]),
            "max_ns": ends.map(|ends| ends[1]), "how": how,
        })
    });
    let entries = profile
        .entries()
        .map(|(key, value, source)| json!({"key": key.path(), "value": value, "source": source}));
    Ok(json!({
        "program": "calibrate",
        "about": profile.about(),
        "rounds": rounds.len(),
        "probes": probes.collect::<Vec<_>>(),
        "entries": entries.collect::<Vec<_>>(),
        "profile": profile.to_toml(),
    }))
}

/// One sentence about this host, for the profile.
fn about_this_host(stand: &Stand) -> String {
    let (model, is_virtual) = processor();
    let guest = if is_virtual {
        " under a hypervisor"
    } else {
        ""
    };
    let (cpus, idle) = (stand.cpus(), idle_driver());
    let release = line_of("/proc/sys/kernel/osrelease");
    format!("{model}{guest}, {cpus} CPUs of it, Linux {release}, idle {idle}")
}
