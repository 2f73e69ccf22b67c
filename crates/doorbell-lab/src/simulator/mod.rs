//! `doorbell sim`: the protocols on simulated machines, determined by seeds.
//!
//! | file | what is in it |
//! |---|---|
//! | `fuzz.rs` | many seeds, and which marks they reached |
//! | `failure.rs` | the report of a failure, and the command that repeats it |
//! | `replay.rs` | one run again, and its trace |
//! | `mutants.rs` | lines broken on purpose, which some seed must notice |

mod failure;
mod fuzz;
mod mutants;
mod replay;

use doorbell_machine::sim::Memory;
use doorbell_sim::fuzz::{SHAPES, Shape};
use doorbell_sim::profile::Profile;

pub use fuzz::{FuzzOptions, FuzzReport, fuzz};
pub use mutants::{MutantsOptions, MutantsReport, mutants};
pub use replay::{ReplayOptions, ReplayReport, replay};

use crate::error::LabError;

/// The name of a memory model on the command line.
fn memory_name(memory: Memory) -> &'static str {
    match memory {
        Memory::Sc => "sc",
        Memory::Tso => "tso",
    }
}

/// The shape with this name.
fn shape_of(name: &str) -> Result<Shape, LabError> {
    let shape = SHAPES.iter().find(|shape| shape.name == name);
    shape.copied().ok_or_else(|| LabError::NoSuchShape {
        name: name.to_owned(),
        known: SHAPES.iter().map(|shape| shape.name).collect(),
    })
}

/// The shape with this name, or all shapes.
fn shapes_of(name: Option<&str>) -> Result<Vec<Shape>, LabError> {
    name.map_or_else(|| Ok(SHAPES.to_vec()), |name| Ok(vec![shape_of(name)?]))
}

fn load(profile: Option<&str>) -> Result<Option<Profile>, LabError> {
    Ok(profile.map(Profile::load).transpose()?)
}
