//! The simulated machine.

mod config;
mod spec;

pub use config::{
    Config, Event, EventKind, Failure, Fault, Faults, Memory, Outcome, Planned, Sink, ThreadReport,
};
pub use spec::{CPUS_MAX, Costs, MachineSpec, Range, SpecError};

/// The simulated machine, with the mutant of this number.
#[derive(Clone, Copy, Debug)]
pub struct Sim<const BUG: u8 = 0>;
