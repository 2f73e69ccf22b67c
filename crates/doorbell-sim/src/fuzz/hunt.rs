//! Mutants: a line broken on purpose, and the seed that notices.

use doorbell_machine::Bug;
use doorbell_machine::sim::{Failure, MachineSpec, Memory, RunError};

use super::{Shape, Span, setup};

/// A mutant, and what it is run through.
#[derive(Clone, Copy, Debug)]
pub struct Mutant {
    /// The broken line.
    pub bug: Bug,
    /// The memory model under which it is wrong.
    pub memory: Memory,
    /// The shapes, on a machine with that mutant.
    pub shapes: &'static [Shape],
}

/// How a hunt ended.
#[derive(Clone, Debug)]
pub struct Hunt {
    /// The mutant.
    pub bug: Bug,
    /// How many seeds were run.
    pub seeds: u64,
    /// Who noticed it.
    pub killed: Option<Killed>,
}

/// What noticed a mutant.
#[derive(Clone, Debug)]
pub struct Killed {
    /// The seed.
    pub seed: u64,
    /// The shape's name.
    pub shape: &'static str,
    /// How many cores it had.
    pub cores: usize,
    /// What it saw.
    pub failure: Failure,
}

/// Runs seeds until one notices the mutant. `before` is told of each seed.
///
/// # Errors
/// [`RunError`] if a run could not begin.
pub fn hunt(
    mutant: &Mutant,
    seeds: Span,
    cores: Span,
    profile: Option<&MachineSpec>,
    mut before: impl FnMut(u64),
) -> Result<Hunt, RunError> {
    let mut hunt = Hunt {
        bug: mutant.bug,
        seeds: 0,
        killed: None,
    };
    for seed in seeds.iter() {
        before(seed);
        hunt.seeds += 1;
        let setup = setup(seed, cores, mutant.memory, profile);
        for shape in mutant.shapes {
            let outcome = (shape.run)(&setup, None)?;
            if let Some(failure) = outcome.failure {
                hunt.killed = Some(Killed {
                    seed,
                    shape: shape.name,
                    cores: setup.cores,
                    failure,
                });
                return Ok(hunt);
            }
        }
    }
    Ok(hunt)
}
