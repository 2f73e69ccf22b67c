//! The hash of some seeds, and whether this build has debug assertions. These must not change the hash: the step `builds`
//! of `.ci/run` compares two builds.

use doorbell_machine::sim::Memory;
use doorbell_sim::fuzz::{Plan, SHAPES, fuzz};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let plan = Plan {
        seeds: "0..10".parse()?,
        cores: "2..16".parse()?,
        memory: Memory::Tso,
        profile: None,
        shapes: &SHAPES,
    };
    let done = fuzz(&plan, |_, _| ())?;
    if let Some(found) = &done.found {
        return Err(format!("a seed failed: {found:?}").into());
    }
    let assertions = cfg!(debug_assertions);
    println!("debug_assertions: {assertions}");
    println!("hash: {:016x}", done.tally.hash);
    Ok(())
}
