//! Doorbell on simulated machines.
//!
//! The machine itself is `doorbell_machine::sim`, with [`profile`]s of machines and [`trace`]s of runs. This crate runs
//! programs on it and evaluates the runs:
//!
//! | module | what is in it |
//! |---|---|
//! | [`mod@bench`] | programs whose figures are measured |
//! | [`scenario`] | random programs over the protocols of `doorbell-core`, and what must hold of them |
//! | [`fuzz`] | many seeds through many shapes of them, and mutants |

#![warn(clippy::print_stdout, clippy::print_stderr)]

pub mod bench;
pub mod fuzz;
pub mod scenario;

pub use doorbell_machine::sim::{profile, trace};
