//! Hunts: run a mutant (a line broken on purpose) until a seed notices it.

use doorbell_machine::Bug;
use doorbell_machine::sim::{Failure, Memory, RunError};

use super::{Mutant, Span, setup};

/// How a hunt ended.
#[derive(Clone, Debug)]
pub struct Hunt {
    /// The mutant.
    pub bug: Bug,
    /// How many seeds were run.
    pub seeds: u64,
    /// What noticed it, if anything did.
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

/// Runs seeds through the mutant's shapes until one notices it. `before` is called with each seed.
///
/// # Errors
/// [`RunError`] if a run could not begin.
pub fn hunt(
    mutant: &Mutant,
    memory: Memory,
    seeds: Span,
    cores: Span,
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
        let setup = setup(seed, cores, memory, None);
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
