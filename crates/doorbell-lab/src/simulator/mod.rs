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

use anyhow::Result;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use doorbell_machine::sim::Memory;
use doorbell_sim::fuzz::{SHAPES, Shape, Span, SpanError};
use doorbell_sim::profile::Profile;

use crate::error::unknown;

pub(crate) use failure::failed;
pub(crate) use fuzz::{FuzzOptions, fuzz};
pub(crate) use mutants::{MutantsOptions, mutants};
pub(crate) use replay::{ReplayOptions, replay};

/// The machine of a run of the simulator.
#[derive(Debug, Clone, Args)]
pub(crate) struct MachineArgs {
    /// The number of cores with workers; each seed picks one
    #[arg(long, value_name = "A..B", default_value = "2..=16", value_parser = cores)]
    cores: Span,
    /// What one core may see of another's stores: sc, every access takes effect at once, in one order; or tso, stores
    /// wait in a buffer of their core, as on x86
    #[arg(long, default_value = "sc", value_parser = memory())]
    memory: Memory,
    /// The machine: a built-in profile or the path of a file; as many of its parts are used as the cores need
    #[arg(long, value_name = "PROFILE")]
    profile: Option<String>,
}

/// A span of numbers of cores.
fn cores(text: &str) -> Result<Span, SpanError> {
    text.parse::<Span>()?.of_cores()
}

fn memory() -> impl TypedValueParser<Value = Memory> {
    PossibleValuesParser::new(["sc", "tso"]).map(|name| match name.as_str() {
        "sc" => Memory::Sc,
        _ => Memory::Tso,
    })
}

/// The name of a memory model on the command line.
fn memory_name(memory: Memory) -> &'static str {
    match memory {
        Memory::Sc => "sc",
        Memory::Tso => "tso",
    }
}

/// The shape with this name.
fn shape_of(name: &str) -> Result<Shape> {
    let shape = SHAPES.iter().find(|shape| shape.name == name);
    let known = SHAPES.iter().map(|shape| shape.name);
    shape.copied().ok_or_else(|| unknown("shape", name, known))
}

/// The shape with this name, or all shapes.
fn shapes_of(name: Option<&str>) -> Result<Vec<Shape>> {
    name.map_or_else(|| Ok(SHAPES.to_vec()), |name| Ok(vec![shape_of(name)?]))
}

fn load(profile: Option<&str>) -> Result<Option<Profile>> {
    Ok(profile.map(Profile::load).transpose()?)
}
