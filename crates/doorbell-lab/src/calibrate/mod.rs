//! `doorbell calibrate`: measures this host and describes it as a profile of the simulator.
//!
//! The probes are small measurements of their own and share nothing with the lab's scenarios. So what the
//! simulator predicts of a scenario is not derived from that scenario.
//!
//! | file | what is in it |
//! |---|---|
//! | `stand.rs` | the CPUs, and their distances |
//! | `lines.rs`, `calls.rs`, `wakes.rs`, `work.rs` | the measurements |
//! | `trips.rs` | round trips between two threads, used by some measurements |
//! | `probe.rs` | the table of probes, and a round of all of them |
//! | `entries.rs` | from figures to the keys of a profile |

mod calls;
mod entries;
mod lines;
mod probe;
mod report;
mod stand;
mod trips;
mod wakes;
mod work;

use std::fs;
use std::path::PathBuf;

use clap::Args;
use doorbell_sim::profile::{KEYS, Profile};

pub(crate) use report::Calibration;

use self::entries::Sources;
use self::probe::{Bench, PROBES, Round};
use self::stand::Stand;
use crate::cli::ROUNDS_MAX;
use crate::error::LabError;
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
    /// Print JSON instead of the table
    #[arg(long)]
    pub(crate) json: bool,
}

/// Measures this host and writes the profile, if a file is named.
///
/// # Errors
/// [`LabError::System`] if a probe cannot run, [`LabError::File`] if the profile cannot be written.
pub(crate) fn run(options: &CalibrateOptions) -> Result<Calibration, LabError> {
    if let Some(path) = &options.out {
        // Opened before any measurement, so a path that cannot be written costs no time.
        let file = fs::OpenOptions::new().append(true).create(true).open(path);
        file.map_err(|source| crate::file_error(path, source))?;
    }
    let rounds = options.rounds.max(1);
    let progress = Progress::on_stderr(rounds, PROBES.len(), None);
    progress.prepare("looking around");
    let mut bench = Bench::new(Stand::of_this_host()?);
    let measured: Result<Vec<Round>, LabError> = (0..rounds)
        .map(|number| Round::run(&mut bench, number, &progress))
        .collect();
    progress.clear();
    let calibration = calibration(&bench.stand, measured?, options)?;
    if let Some(path) = &options.out {
        let text = calibration.profile().to_toml();
        fs::write(path, text).map_err(|source| crate::file_error(path, source))?;
    }
    Ok(calibration)
}

fn calibration(
    stand: &Stand,
    rounds: Vec<Round>,
    options: &CalibrateOptions,
) -> Result<Calibration, LabError> {
    let like = Profile::load(LIKE)?;
    let sources = Sources {
        stand,
        rounds: &rounds,
        like: &like,
    };
    let parts = KEYS.map(|key| sources.entry(key.name));
    let stem = options.out.as_ref().and_then(|path| path.file_stem());
    let name = stem.map_or("host".into(), |stem| stem.to_string_lossy());
    let about = report::about_this_host(stand);
    let profile = Profile::from_parts(&name, &about, &parts)?;
    Ok(Calibration::new(profile, rounds, options.out.clone()))
}
