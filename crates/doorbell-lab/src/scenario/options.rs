//! The options of a scenario, and the amount of work of a run.

use std::path::PathBuf;
use std::time::Duration;

/// The options of a scenario.
#[derive(Debug, Clone, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of its own"
)]
pub(crate) struct Options {
    pub(crate) effort: Effort,
    /// A first look, with less work of every kind.
    pub(crate) quick: bool,
    /// Only contestants whose name or variant contains this.
    pub(crate) only: Option<String>,
    /// Print JSON instead of the table.
    pub(crate) json: bool,
    /// All columns of the tables, even beyond 120 characters.
    pub(crate) is_wide: bool,
    /// The file for an additional page.
    pub(crate) html: Option<PathBuf>,
    /// The part of a longer run that this is, for the progress bar.
    pub(crate) place: Option<String>,
    /// The simulated machine to measure on, instead of this host.
    pub(crate) sim: Option<SimOptions>,
    /// Without the privilege to run threads before all others.
    pub(crate) unprivileged: bool,
    /// `urgent`: threads only, with several slices.
    pub(crate) slices: bool,
    /// `busy`: how long a pass takes.
    pub(crate) seconds: Option<u32>,
    /// `rt`: the time between two ticks; zero for the usual one.
    pub(crate) period: Duration,
}

impl Options {
    /// One of two amounts.
    pub(crate) fn full_or_quick(&self, [full, quick]: [u32; 2]) -> u32 {
        if self.quick { quick } else { full }
    }
}

/// The options of a scenario on a simulated machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SimOptions {
    /// The name or path of a profile.
    pub(crate) profile: String,
    /// How many cores have a worker of doorbell; if `None`, as the scenario has it.
    pub(crate) workers: Option<usize>,
    /// Each row is run with the seeds from 0 to this number, exclusive.
    pub(crate) seeds: u32,
}

/// Rounds and calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Effort {
    /// How often each contestant is run.
    pub(crate) rounds: u32,
    /// How many calls a fast contestant makes in one round.
    pub(crate) calls: u32,
    /// How long the idle machine is watched.
    pub(crate) idle_span: Duration,
}

impl Default for Effort {
    fn default() -> Self {
        Self::of(false)
    }
}

impl Effort {
    /// For reliable figures, or for a first look.
    pub(crate) fn of(quick: bool) -> Self {
        let (rounds, calls, idle_ms) = if quick {
            (2, 10_000, 300)
        } else {
            (7, 100_000, 1_000)
        };
        let idle_span = Duration::from_millis(idle_ms);
        Self {
            rounds,
            calls,
            idle_span,
        }
    }
}
