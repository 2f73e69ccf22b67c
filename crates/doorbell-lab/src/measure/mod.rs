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
mod threads;
mod time_limit;
mod usage;

pub(crate) use clock::timed;
pub use clock::{Clock, Tick};
pub use cpu::{Pin, Placement, allowed_cpus, choose_pair, current_cpu, spawn_pinned};
pub use idle_machine::IdleMachine;
pub use interrupts::Interrupts;
pub use machine::Machine;
pub use process::{Process, Switches};
pub use samples::Samples;
pub use stats::{Spread, is_enough, median, percentile, variation_percent};
pub use syscalls::{SyscallCounter, SyscallSource, Unavailable};
pub use threads::{Threads, ThreadsUse};
pub use time_limit::{Armed, TimeLimit};
pub use usage::{Usage, context_switches};
