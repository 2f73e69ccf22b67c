//! The ground floor of doorbell: what a protocol may ask of the machine below it.
//!
//! Protocol code (crate `doorbell-core`) is generic over [`Machine`]. It names no atomic, lock, thread,
//! thread-local, clock or syscall, and assumes no real threads or real time. So the same lines run on three
//! machines:
//!
//! * `Host` (feature `host`, default): Linux threads and std atomics, without overhead;
//! * `Loom` (feature `loom`): the model checker, for exhaustive tests of a few threads;
//! * `Sim` (feature `sim`): a simulated machine of up to 1,024 CPUs, whose runs a seed determines.
//!
//! This is the only crate of the workspace that names atomics, `std::sync` locks, threads,
//! thread-locals, clocks or syscalls.

#![warn(clippy::print_stdout, clippy::print_stderr)]

#[cfg(all(feature = "host", not(target_os = "linux")))]
compile_error!(
    "doorbell-machine: the `host` backend needs Linux (futex, sched_setaffinity, /sys). \
     On another system build with `default-features = false`; the protocols and the loom \
     backend compile there."
);

mod bug;
mod machine;
mod mark;
mod policy;
mod poller;
pub mod slots;
mod topology;

#[cfg(all(feature = "host", target_os = "linux"))]
pub mod host;
#[cfg(feature = "loom")]
pub mod loom;
#[cfg(feature = "sim")]
pub mod sim;

pub use bug::Bug;
pub use machine::{
    Cell, Counter, Fenced, Line, Machine, ParkEnd, Parker, PtrWord, Spun, ThreadError,
    ThreadHandle, ThreadSpec, Word,
};
pub use mark::{Mark, Marks};
pub use policy::{Policy, PolicyError, SLICE_NS_MIN};
pub use poller::{PollEvents, Poller, PollerError, Readiness, WaitEnd};
pub use std::sync::atomic::Ordering;
pub use topology::{Cpu, Topology};

#[cfg(all(feature = "host", target_os = "linux"))]
pub use host::Host;
#[cfg(feature = "loom")]
pub use loom::Loom;
#[cfg(feature = "sim")]
pub use sim::Sim;
