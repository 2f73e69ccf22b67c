//! [`Failed`]: why a simulation failed, and with which seed.

/// A run failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("seed {seed} on {cores} cores: {problem}")]
#[non_exhaustive]
pub struct Failed {
    /// The seed of the run. The same seed with the same configuration fails again.
    pub seed: u64,
    /// The number of cores.
    pub cores: usize,
    /// What failed.
    pub problem: Problem,
}

/// What fails a run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// A [`check`](super::check), an error that the program returned, a panic of the program, a wait that never ends, or
    /// no end within the limits.
    #[error("{what}{tasks}{last}")]
    Program {
        /// What happened.
        what: String,
        /// If the run had no end, the tasks that have not ended, the oldest first, on lines of their own: names, places of
        /// their spawns, ages.
        tasks: String,
        /// What the simulated threads did last, on lines of their own.
        last: String,
    },
    /// The two runs of the seed were not the same, so something outside of the simulation decides.
    #[error(
        "two runs of this seed differ: {first}. Usual causes: std's clock, random numbers of the OS (also the order of a HashMap, and `select!` without `biased`), addresses, statics that keep something from run to run, threads of the OS"
    )]
    Differs {
        /// The first step at which they part.
        first: String,
    },
    /// There was no run.
    #[error("{0}")]
    NoRun(String),
}
