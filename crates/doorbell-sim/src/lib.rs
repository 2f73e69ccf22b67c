//! Doorbell on simulated machines.
//!
//! The machine itself is `doorbell_machine::sim`. Here is what is run on it:
//!
//! | module | what is in it |
//! |---|---|
//! | [`scenario`] | random programs over the protocols of `doorbell-core`, and what must hold of them |

pub mod scenario;
