//! The options of the measurements.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use doorbell_machine::sim::CPUS_MAX;

use super::ROUNDS_MAX;
use crate::scenario::{Effort, Options, SimOptions};
use crate::tour::TourOptions;

/// The most calls in a round: their numbers must fit into the words that carry them.
const CALLS_MAX: i64 = 10_000_000;

/// How many seeds each row is run with on a simulated machine.
const SEEDS: u32 = 5;

/// The periods that `rt` can have, in microseconds.
const PERIODS_US: RangeInclusive<u64> = 50..=100_000;

/// The longest pass of `busy`, in seconds.
const SECONDS_MAX: i64 = 600;

/// Options of the tour.
#[derive(Debug, Args)]
pub struct TourArgs {
    /// How often each contestant runs [default: 1 to 7, depending on the scenario]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=ROUNDS_MAX))]
    rounds: Option<u32>,

    /// One round of each scenario: a first look, in about a minute
    #[arg(long, conflicts_with = "rounds")]
    quick: bool,

    /// Only scenarios whose name contains this
    #[arg(long, value_name = "SUBSTRING")]
    only: Option<String>,

    /// Print JSON instead of the tables: one object, with the list `reports`
    #[arg(long)]
    json: bool,

    /// Show all columns; by default columns beyond a width of 120 characters are omitted
    #[arg(long)]
    wide: bool,
}

impl TourArgs {
    /// The options that these arguments amount to.
    pub fn options(&self) -> TourOptions {
        TourOptions {
            rounds: self.rounds.or(self.quick.then_some(1)),
            json: self.json,
            is_wide: self.wide,
            only: self.only.clone(),
        }
    }
}

/// Options of `call`.
#[derive(Debug, Args)]
pub struct CallArgs {
    #[command(flatten)]
    common: LabArgs,

    /// Calls of each contestant in a round; contestants that park make a twentieth [default: 100000, with
    /// --quick 10000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=CALLS_MAX))]
    calls: Option<u32>,
}

impl CallArgs {
    pub(super) fn options(&self) -> Options {
        let mut options = self.common.options();
        if let Some(calls) = self.calls {
            options.effort.calls = calls;
        }
        options
    }
}

/// Options of `urgent`.
#[derive(Debug, Args)]
pub struct UrgentArgs {
    #[command(flatten)]
    common: LabArgs,

    /// First give up the privilege to run threads before all others
    #[arg(long)]
    pub unprivileged: bool,

    /// Measure threads only: the effect of slices and nice values on a woken thread
    #[arg(long)]
    pub slices: bool,
}

impl UrgentArgs {
    pub(super) fn options(&self) -> Options {
        self.common.options()
    }
}

/// Options of `busy`.
#[derive(Debug, Args)]
pub struct BusyArgs {
    #[command(flatten)]
    common: LabArgs,

    /// Seconds of each pass of a contestant [default: 3, with --quick 0.5]
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u32).range(1..=SECONDS_MAX))]
    pub seconds: Option<u32>,
}

impl BusyArgs {
    pub(super) fn options(&self) -> Options {
        self.common.options()
    }
}

/// Options of `http`.
#[derive(Debug, Args)]
pub struct HttpArgs {
    #[command(flatten)]
    common: LabArgs,

    /// Servers first give up the privilege to run threads before all others
    #[arg(long)]
    pub unprivileged: bool,
}

impl HttpArgs {
    pub(super) fn options(&self) -> Options {
        self.common.options()
    }
}

/// Options of `rank`.
#[derive(Debug, Args)]
pub struct RankArgs {
    #[command(flatten)]
    common: LabArgs,

    /// First give up the privilege to run threads before all others
    #[arg(long, conflicts_with = "sim")]
    pub unprivileged: bool,
}

impl RankArgs {
    pub(super) fn options(&self) -> Options {
        self.common.options()
    }
}

/// Options of `rt`.
#[derive(Debug, Args)]
pub struct RtArgs {
    #[command(flatten)]
    common: LabArgs,

    /// First give up the privilege to run threads before all others
    #[arg(long, conflicts_with = "sim")]
    pub unprivileged: bool,

    /// Microseconds between two ticks
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1_000,
        conflicts_with = "sim",
        value_parser = clap::value_parser!(u64).range(PERIODS_US),
    )]
    period_us: u64,
}

impl RtArgs {
    pub(super) fn options(&self) -> Options {
        self.common.options()
    }

    /// The time between two ticks.
    pub fn period(&self) -> Duration {
        Duration::from_micros(self.period_us)
    }
}

/// Options of every scenario.
#[derive(Debug, Args)]
pub struct LabArgs {
    /// How often each contestant runs [default: 7, with --quick 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=ROUNDS_MAX))]
    rounds: Option<u32>,

    /// Few rounds with little work: a first look, not reliable figures
    #[arg(long)]
    quick: bool,

    /// Measure only contestants whose name or variant contains this, and those that they are compared with
    #[arg(long, value_name = "SUBSTRING")]
    only: Option<String>,

    /// Print JSON instead of the table
    #[arg(long)]
    json: bool,

    /// Show all columns; by default columns beyond a width of 120 characters are omitted
    #[arg(long)]
    wide: bool,

    /// Also write a page with a chart to this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Measure doorbell on a simulated machine, a built-in profile or the path of a file; only some scenarios
    /// can
    #[arg(long, value_name = "PROFILE", conflicts_with = "rounds")]
    sim: Option<String>,

    /// With --sim: the number of cores with a worker of doorbell [default: depends on the scenario]
    #[arg(long, value_name = "N", requires = "sim", value_parser = clap::value_parser!(u32).range(1..=CPUS_MAX as i64))]
    workers: Option<u32>,

    /// With --sim: how many seeds each row is run with [default: 5, with --quick 1]
    #[arg(long, value_name = "N", requires = "sim", value_parser = clap::value_parser!(u32).range(1..=ROUNDS_MAX))]
    seeds: Option<u32>,
}

impl LabArgs {
    /// The options that these arguments amount to.
    pub fn options(&self) -> Options {
        let usual = if self.quick {
            Effort::QUICK
        } else {
            Effort::FULL
        };
        Options {
            effort: Effort {
                rounds: self.rounds.unwrap_or(usual.rounds),
                ..usual
            },
            quick: self.quick,
            only: self.only.clone(),
            json: self.json,
            is_wide: self.wide,
            html: self.html.clone(),
            place: None,
            sim: self.sim.clone().map(|profile| SimOptions {
                profile,
                workers: self.workers.map(|workers| workers as usize),
                seeds: self.seeds.unwrap_or(if self.quick { 1 } else { SEEDS }),
            }),
        }
    }
}
