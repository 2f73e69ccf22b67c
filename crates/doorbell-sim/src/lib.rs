//! Doorbell on simulated machines.
//!
//! The machine itself is `doorbell_machine::sim`. This crate runs programs on it and evaluates the runs:
//!
//! | module | what is in it |
//! |---|---|
//! | [`mod@bench`] | programs whose figures are measured |
//! | [`scenario`] | random programs over the protocols of `doorbell-core`, and what must hold of them |
//! | [`fuzz`] | many seeds through many shapes of them, and mutants |
//! | [`profile`] | machines as files, each number with its source |
//! | [`trace`] | a run as a file for Chrome's and Perfetto's viewers |

#![warn(clippy::print_stdout, clippy::print_stderr)]

pub mod bench;
pub mod fuzz;
pub mod profile;
pub mod scenario;
pub mod trace;
