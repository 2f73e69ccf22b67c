//! The command line of the simulator and of the calibration.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use doorbell_machine::sim;
use doorbell_sim::fuzz::{Span, SpanError};

use super::ROUNDS_MAX;
use crate::calibrate::CalibrateOptions;
use crate::simulator::{FuzzOptions, MutantsOptions, ReplayOptions};

/// Options of the calibration.
#[derive(Debug, Args)]
pub struct CalibrateArgs {
    /// Write the profile to this file
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// How often each probe is measured
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=ROUNDS_MAX))]
    rounds: u32,

    /// Print JSON instead of the table
    #[arg(long)]
    json: bool,
}

impl CalibrateArgs {
    /// The options that these arguments amount to.
    pub fn options(&self) -> CalibrateOptions {
        CalibrateOptions {
            rounds: self.rounds,
            out: self.out.clone(),
            json: self.json,
        }
    }
}

/// What to do on simulated machines.
#[derive(Debug, Subcommand)]
pub enum SimCommand {
    /// Run many seeds through every shape of program, each twice
    ///
    /// The first failure ends the run. Its seed, its cause, the last events of each core and the command
    /// that repeats it are printed, and the exit status is 1. The table shows which rare branches of the
    /// protocols were reached, and by how many seeds. Those below 1 per cent are marked as rare.
    ///
    /// Ranges are written as in Rust: `A..B` without B, `A..=B` with it.
    #[command(after_help = "Examples:\n  \
            doorbell sim fuzz --seeds 0..200\n  \
            doorbell sim fuzz --seeds 0..10000 --cores 2..=256 --memory tso\n  \
            doorbell sim fuzz --seeds 0..100 --cores 40 --profile xeon-40 --shape storm\n  \
            doorbell sim fuzz --json | jq '.marks[] | select(.percent < 1)'")]
    Fuzz(FuzzArgs),

    /// Repeat one seed, and write a trace of it
    ///
    /// The trace has a track for each thread of each core: when it ran, spun, waited and was parked, with
    /// arrows from each post to where it ran. Perfetto (ui.perfetto.dev) and Chrome (`chrome://tracing`)
    /// show it.
    #[command(after_help = "Examples:\n  \
            doorbell sim replay 17\n  \
            doorbell sim replay 17 --shape storm --cores 12 --memory tso --trace out.json")]
    Replay(ReplayArgs),

    /// Break lines of the protocols on purpose, and see which seed notices
    ///
    /// The exit status is 1 if no seed notices one. Mutants need a separate build:
    /// `cargo run --release --features mutants -- sim mutants`.
    #[command(after_help = "Examples:\n  \
            doorbell sim mutants\n  \
            doorbell sim mutants --only Bell --seeds 0..1000")]
    Mutants(MutantsArgs),
}

/// What one core may see of another's stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Memory {
    /// Every access takes effect at once, in one order
    Sc,
    /// Stores wait in a buffer of their core, as on x86
    Tso,
}

impl Memory {
    fn model(self) -> sim::Memory {
        match self {
            Self::Sc => sim::Memory::Sc,
            Self::Tso => sim::Memory::Tso,
        }
    }
}

fn cores(text: &str) -> Result<Span, SpanError> {
    text.parse::<Span>()?.of_cores()
}

/// Options of every run of the simulator.
#[derive(Debug, Args)]
struct MachineArgs {
    /// The number of cores with workers; each seed picks one
    #[arg(long, value_name = "A..B", default_value = "2..=16", value_parser = cores)]
    cores: Span,

    /// What one core may see of another's stores
    #[arg(long, value_enum, default_value_t = Memory::Sc)]
    memory: Memory,

    /// The machine: a built-in profile or the path of a file; as many of its parts are used as the cores
    /// need
    #[arg(long, value_name = "PROFILE")]
    profile: Option<String>,
}

/// Options of the fuzzer.
#[derive(Debug, Args)]
pub struct FuzzArgs {
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
    json: bool,
}

impl FuzzArgs {
    /// The options that these arguments amount to.
    pub fn options(&self) -> FuzzOptions {
        FuzzOptions {
            seeds: self.seeds,
            cores: self.machine.cores,
            memory: self.machine.memory.model(),
            profile: self.machine.profile.clone(),
            shape: self.shape.clone(),
            json: self.json,
        }
    }

    /// Whether to print JSON.
    pub fn json(&self) -> bool {
        self.json
    }
}

/// Options of a replay.
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// The seed
    #[arg(value_name = "SEED")]
    seed: u64,

    #[command(flatten)]
    machine: MachineArgs,

    /// The shape of program [default: the first that fails, else the last]
    #[arg(long, value_name = "NAME")]
    shape: Option<String>,

    /// Write the trace to this file
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
}

impl ReplayArgs {
    /// The options that these arguments amount to.
    pub fn options(&self) -> ReplayOptions {
        ReplayOptions {
            seed: self.seed,
            shape: self.shape.clone(),
            cores: self.machine.cores,
            memory: self.machine.memory.model(),
            profile: self.machine.profile.clone(),
            trace: self.trace.clone(),
        }
    }
}

/// Options of the hunts.
#[derive(Debug, Args)]
pub struct MutantsArgs {
    /// The seeds of each hunt, which ends at the first seed that notices
    #[arg(long, value_name = "A..B", default_value = "0..10000")]
    seeds: Span,

    /// The number of cores with workers; each seed picks one
    #[arg(long, value_name = "A..B", default_value = "2..=8", value_parser = cores)]
    cores: Span,

    /// What one core may see of another's stores [default: the model under which each mutant shows]
    #[arg(long, value_enum)]
    memory: Option<Memory>,

    /// Only mutants whose name contains this
    #[arg(long, value_name = "SUBSTRING")]
    only: Option<String>,

    /// Only this mutant, in this process
    #[arg(long, value_name = "NAME", hide = true, conflicts_with = "only")]
    here: Option<String>,

    /// Print JSON instead of the table
    #[arg(long)]
    json: bool,
}

impl MutantsArgs {
    /// The options that these arguments amount to.
    pub fn options(&self) -> MutantsOptions {
        MutantsOptions {
            seeds: self.seeds,
            cores: self.cores,
            memory: self.memory.map(Memory::model),
            only: self.only.clone(),
            here: self.here.clone(),
            json: self.json,
        }
    }

    /// Whether to print JSON.
    pub fn json(&self) -> bool {
        self.json
    }
}
