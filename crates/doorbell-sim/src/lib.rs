//! Doorbell on simulated machines.
//!
//! The machine itself is `doorbell_machine::sim`. Here is what is run on it and what is made of it:
//!
//! | module | what is in it |
//! |---|---|
//! | [`profile`] | machines as files, each number with its source |
//! | [`trace`] | a run as a file for Chrome's and Perfetto's viewers |

pub mod profile;
pub mod trace;
