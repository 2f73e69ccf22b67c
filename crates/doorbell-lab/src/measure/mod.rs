//! The instruments: each module measures one thing and is independent of the scenarios.

mod clock;
mod cpu;
mod idle_machine;
mod interrupts;
mod machine;
mod process;
mod samples;
mod stats;
mod syscalls;
mod time_limit;
mod usage;

pub(crate) use clock::timed;
pub(crate) use clock::{Clock, Tick};
pub(crate) use cpu::{Pin, Placement, allowed_cpus, current_cpu};
pub(crate) use idle_machine::IdleMachine;
pub(crate) use interrupts::interrupts;
pub(crate) use machine::{Machine, idle_driver, line_of, processor};
pub(crate) use process::Process;
pub(crate) use samples::Samples;
pub(crate) use stats::{is_enough, median, spread_of, variation_percent};
pub(crate) use syscalls::{SyscallCounter, SyscallSource};
pub(crate) use time_limit::TimeLimit;
pub(crate) use usage::usage;
