//! The sweep of orderings: each ordering of `doorbell-core` is weakened, one at a time, and the models
//! that reach it must notice.
//!
//! Nothing is compiled per ordering. The machine of the models weakens one access, which the
//! environment names by its place in the sources (`doorbell-machine/src/loom/weaken.rs`), so one test
//! program serves the whole sweep:
//!
//! 1. [`sites`] lists the accesses from the sources.
//! 2. [`models`] runs every model unchanged. Each must pass, and tells which accesses it reaches.
//! 3. [`mutant`] weakens one ordering, and runs the models that reach it, the fastest first, until one
//!    fails.
//! 4. [`report`] prints what became of each.

pub mod models;
pub mod mutant;
pub mod report;
pub mod sites;
