//! The sweep of orderings: each ordering of `doorbell-core` is weakened, one at a time, and the models
//! that reach it must notice.
//!
//! No ordering needs a build of its own. The models' machine weakens one access, which an environment
//! variable names by its place in the sources (`doorbell-machine/src/loom/weaken.rs`). So one test program
//! serves the whole sweep:
//!
//! 1. [`sites`] lists the accesses in the sources.
//! 2. [`models`] runs every model unchanged. Each must pass, and reports which accesses it reaches.
//! 3. [`mutant`] weakens one ordering and runs the models that reach it, fastest first, until one fails.
//! 4. [`report`] prints the result for each ordering.

pub mod models;
pub mod mutant;
pub mod report;
pub mod sites;
