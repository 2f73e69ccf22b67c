//! The fuzzer: many seeds through many shapes, each run twice; and mutants, which some seed must notice.
//!
//! A [`Shape`] is a kind of random program together with the oracles that judge it. A [`Setup`] determines
//! the program and everything that happens in the run, so a setup is enough to repeat a failure.

mod hunt;
mod machine;
mod marks;
mod mutants;
mod run;
mod shapes;
mod span;
#[cfg(test)]
mod tests;

use doorbell_machine::sim::{MachineSpec, Memory, Outcome, RunError, Sink};

pub use hunt::{Hunt, Killed, hunt};
pub use machine::machine_for;
pub use marks::{RARE_PERCENT, why_rare};
pub use mutants::{MUTANTS, Mutant, Shown};
pub use run::{Found, Fuzzed, MarkRow, Plan, Tally, What, fuzz};
pub use shapes::SHAPES;
pub use span::{CORES_MAX, Span, SpanError};

/// What determines a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// The seed of every choice.
    pub seed: u64,
    /// How many cores the program has workers on.
    pub cores: usize,
    /// The memory model.
    pub memory: Memory,
    /// The machine to take parts from; the default machine if `None`.
    pub profile: Option<MachineSpec>,
}

impl Setup {
    /// A machine with at least this many CPUs. That may be more than there are workers.
    #[must_use]
    pub fn machine(&self, cpus: usize) -> MachineSpec {
        machine_for(cpus, self.profile.as_ref())
    }
}

/// Runs a setup and gives the sink every event. [`RunError`] if the run cannot begin.
pub type Run = fn(&Setup, Option<Sink>) -> Result<Outcome, RunError>;

/// A kind of random program, with its oracles.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Its name on the command line.
    pub name: &'static str,
    /// One line: what it does.
    pub about: &'static str,
    /// Runs it.
    pub run: Run,
}

/// The setup of a seed, which picks one of the numbers of cores.
#[must_use]
pub fn setup(seed: u64, cores: Span, memory: Memory, profile: Option<&MachineSpec>) -> Setup {
    Setup {
        seed,
        cores: cores.pick(seed) as usize,
        memory,
        profile: profile.cloned(),
    }
}
