//! The options of the measurements.

use std::path::PathBuf;

use clap::Args;

use super::ROUNDS_MAX;
use crate::scenario::{Effort, Options};
use crate::tour::TourOptions;

/// The most calls in a round: their numbers have to fit into the words that carry them.
const CALLS_MAX: i64 = 10_000_000;

/// Options of the tour.
#[derive(Debug, Args)]
pub struct TourArgs {
    /// How often each contestant is run [default: 1 to 7, different for each scenario]
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

    /// Show all columns; without it, columns that do not fit into 120 characters are left out
    #[arg(long)]
    wide: bool,
}

impl TourArgs {
    /// What these arguments mean together.
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

    /// Calls of each contestant in a round; those that park make a twentieth
    /// [default: 100000, with --quick 10000]
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

    /// Before measuring, give up the privilege to run threads before all others
    #[arg(long)]
    pub unprivileged: bool,

    /// Measure threads only: what slices and nice values do for a thread that is woken
    #[arg(long)]
    pub slices: bool,
}

impl UrgentArgs {
    pub(super) fn options(&self) -> Options {
        self.common.options()
    }
}

/// Options of `http`.
#[derive(Debug, Args)]
pub struct HttpArgs {
    #[command(flatten)]
    common: LabArgs,

    /// Before they serve, servers give up the privilege to run threads before all others
    #[arg(long)]
    pub unprivileged: bool,
}

impl HttpArgs {
    pub(super) fn options(&self) -> Options {
        self.common.options()
    }
}

/// Options of every scenario.
#[derive(Debug, Args)]
pub struct LabArgs {
    /// How often each contestant is run [default: 7, with --quick 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=ROUNDS_MAX))]
    rounds: Option<u32>,

    /// Few rounds of little work: a first look, not figures to rely on
    #[arg(long)]
    quick: bool,

    /// Measure only contestants whose name or variant contains this, and the contestants that they
    /// are compared with
    #[arg(long, value_name = "SUBSTRING")]
    only: Option<String>,

    /// Print JSON instead of the table
    #[arg(long)]
    json: bool,

    /// Show all columns; without it, columns that do not fit into 120 characters are left out
    #[arg(long)]
    wide: bool,

    /// Write a page with a chart to this file as well
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl LabArgs {
    /// What these arguments mean together.
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
        }
    }
}
