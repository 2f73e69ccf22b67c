//! The amount of work of a run.

use std::path::PathBuf;
use std::time::Duration;

use super::contestant::Speed;

/// A parked contestant makes this many times fewer calls.
const PARKED_DIVISOR: u32 = 20;

/// The options of a scenario.
#[derive(Debug, Clone)]
pub struct Options {
    /// The amount of work.
    pub effort: Effort,
    /// A first look, with less work of every kind.
    pub quick: bool,
    /// Only contestants whose name or variant contains this.
    pub only: Option<String>,
    /// Print JSON instead of the table.
    pub json: bool,
    /// All columns of the tables, even beyond 120 characters.
    pub is_wide: bool,
    /// The file for an additional page.
    pub html: Option<PathBuf>,
    /// The part of a longer run that this is, for the progress bar.
    pub place: Option<String>,
    /// The simulated machine to measure on, instead of this host.
    pub sim: Option<SimOptions>,
}

/// The options of a scenario on a simulated machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimOptions {
    /// The name or path of a profile.
    pub profile: String,
    /// How many cores have a worker of doorbell; if `None`, as the scenario has it.
    pub workers: Option<usize>,
    /// Each row is run with the seeds from 0 to this number, exclusive.
    pub seeds: u32,
}

/// Rounds and calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effort {
    /// How often each contestant is run.
    pub rounds: u32,
    /// How many calls a fast contestant makes in one round.
    pub calls: u32,
    /// How long the idle machine is watched.
    pub idle_span: Duration,
}

impl Effort {
    /// For reliable figures.
    pub const FULL: Self = Self {
        rounds: 7,
        calls: 100_000,
        idle_span: Duration::from_secs(1),
    };
    /// For a first look.
    pub const QUICK: Self = Self {
        rounds: 2,
        calls: 10_000,
        idle_span: Duration::from_millis(300),
    };

    /// How many calls a contestant of this speed makes in one round.
    pub fn calls_of(&self, speed: Speed) -> u32 {
        match speed {
            Speed::Fast => self.calls,
            Speed::Parked => (self.calls / PARKED_DIVISOR).max(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parked_contestants_make_fewer_calls_but_never_none() {
        assert_eq!(Effort::FULL.calls_of(Speed::Fast), 100_000);
        assert_eq!(Effort::FULL.calls_of(Speed::Parked), 5_000);
        let tiny = Effort {
            calls: 3,
            ..Effort::QUICK
        };
        assert_eq!(tiny.calls_of(Speed::Parked), 1);
    }
}
