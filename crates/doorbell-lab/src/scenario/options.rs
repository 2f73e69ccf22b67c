//! The options of a scenario, and the amount of work of a run.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use doorbell_machine::sim::CPUS_MAX;

use crate::cli::ROUNDS_MAX;

/// How many seeds each row of a simulated machine is run with.
const SEEDS: u32 = 5;

/// Options of the scenarios; the last four only of some.
#[derive(Debug, Clone, Default, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option")]
pub(crate) struct Options {
    /// How often each contestant runs [default: 7, with --quick 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=ROUNDS_MAX))]
    pub(crate) rounds: Option<u32>,
    /// Few rounds with little work: a first look, not reliable figures
    #[arg(long)]
    pub(crate) quick: bool,
    /// Measure only contestants whose name or variant contains this, or one of its parts between `|`, and those that they
    /// are compared with
    #[arg(long, value_name = "SUBSTRING")]
    pub(crate) only: Option<String>,
    /// Print JSON instead of the table
    #[arg(long)]
    pub(crate) json: bool,
    /// Show all columns; by default columns beyond a width of 120 characters are omitted
    #[arg(long)]
    pub(crate) wide: bool,
    /// Also write a page with a chart to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// The part of a longer run that this is, for the progress bar.
    #[arg(skip)]
    pub(crate) place: Option<String>,
    /// Measure doorbell on a simulated machine, a built-in profile or the path of a file; only some scenarios
    /// can
    #[arg(long, value_name = "PROFILE", conflicts_with = "rounds")]
    pub(crate) sim: Option<String>,
    /// With --sim: the number of cores with a worker of doorbell [default: depends on the scenario]
    #[arg(long, value_name = "N", requires = "sim", value_parser = clap::value_parser!(u32).range(1..=CPUS_MAX as i64))]
    pub(crate) workers: Option<u32>,
    /// With --sim: how many seeds each row is run with [default: 5, with --quick 1]
    #[arg(long, value_name = "N", requires = "sim", value_parser = clap::value_parser!(u32).range(1..=ROUNDS_MAX))]
    pub(crate) seeds: Option<u32>,
    /// Calls of each contestant in a round; contestants that park make a twentieth [default: 100000, with
    /// --quick 10000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub(crate) calls: Option<u32>,
    /// First give up the privilege to run threads before all others
    #[arg(long, conflicts_with = "sim")]
    pub(crate) unprivileged: bool,
    /// Seconds of each pass of a contestant, of a minute if the longest wait counts [default: depends on the scenario]
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u32).range(1..=600))]
    pub(crate) seconds: Option<u32>,
    /// Microseconds between two ticks [default: 1000]
    #[arg(long, value_name = "N", conflicts_with = "sim", value_parser = clap::value_parser!(u32).range(50..=100_000))]
    pub(crate) period_us: Option<u32>,
}

impl Options {
    /// One of two amounts.
    pub(crate) fn full_or_quick(&self, [full, quick]: [u32; 2]) -> u32 {
        if self.quick { quick } else { full }
    }

    /// How often each contestant is run.
    pub(crate) fn rounds(&self) -> u32 {
        self.rounds.unwrap_or(self.full_or_quick([7, 2]))
    }

    /// How many calls a fast contestant makes in one round.
    pub(crate) fn calls(&self) -> u32 {
        let usual = self.full_or_quick([100_000, 10_000]);
        self.calls.unwrap_or(usual)
    }

    /// How long the idle machine is watched.
    pub(crate) fn idle_span(&self) -> Duration {
        Duration::from_millis(self.full_or_quick([1_000, 300]).into())
    }

    /// With how many seeds each row of a simulated machine is run: from 0 to this number, exclusive.
    pub(crate) fn seeds(&self) -> u32 {
        self.seeds.unwrap_or(self.full_or_quick([SEEDS, 1]))
    }
}
