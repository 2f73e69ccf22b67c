//! [`Failed`]: why a simulation failed, and with which seed.

use super::Fault;

/// A run failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {problem}{}", place(*seed, *cores, faults), found_by(first.as_deref()))]
#[non_exhaustive]
pub struct Failed {
    /// The seed of the run. The same seed with as many cores and the same faults fails again.
    pub seed: u64,
    /// The number of cores.
    pub cores: usize,
    /// The faults.
    pub faults: Vec<Fault>,
    /// What failed.
    pub problem: Problem,
    /// The run that failed first, if the one above is a smaller one.
    pub first: Option<Box<Found>>,
}

/// A seed, cores and faults with which a program fails.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Found {
    /// The seed.
    pub seed: u64,
    /// The number of cores.
    pub cores: usize,
    /// The faults.
    pub faults: Vec<Fault>,
}

fn place(seed: u64, cores: usize, faults: &[Fault]) -> String {
    let s = if cores == 1 { "" } else { "s" };
    let words: Vec<String> = faults.iter().map(Fault::to_string).collect();
    let with = if faults.is_empty() { "" } else { " with " };
    format!("seed {seed} on {cores} core{s}{with}{}", words.join(", "))
}

fn found_by(first: Option<&Found>) -> String {
    first.map_or_else(String::new, |first| {
        let place = place(first.seed, first.cores, &first.faults);
        format!(
            "\n  found by {place}; of the runs that were tried, this is the smallest that fails so"
        )
    })
}

/// What fails a run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// A check that does not hold, an error that the program returned, a panic of the program, a wait that never ends, or
    /// no end within the limits.
    #[error("{what}{tasks}{last}")]
    Program {
        /// What happened.
        what: String,
        /// If the run had no end, the tasks that have not ended, the oldest first, on lines of their own: names, places of
        /// their spawns, ages.
        tasks: String,
        /// What the simulated CPUs did last, on lines of their own; and the path of the trace, if one was wanted.
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
