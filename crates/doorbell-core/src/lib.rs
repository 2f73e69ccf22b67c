//! The protocols of doorbell, generic over a [`Machine`](doorbell_machine::Machine).
//!
//! This crate makes no syscall, and its wake path allocates nothing. It is the floor below the
//! crate `doorbell`, which most people want instead.
//!
//! | module | protocol |
//! |---|---|
//! | [`bell`] | a lane's status word: watch, notify, park, ring |
//! | [`mailbox`] | a lane's inbound queue, and the rule of who touches the bell |
//! | [`task`] | the task cell, its waker and its join handle |
//! | [`call`] | a closure posted to a named core, awaited or waited for |
//! | [`lock`] | a lock between tasks, whose holder is boosted by who waits for it |
//! | [`queue`] | a lane's run queue, and how others steal from it |
//! | [`group`] | shares of the CPU time by weight |
//! | [`idle`] | which lanes are idle, and who wakes one |
//! | [`wheel`] | a lane's timers |
//! | [`io`] | descriptors: who is told when one is ready |
//! | [`watchdog`] | has others do what waits behind a long poll |
//! | [`lane`] | the loop: take, run, pass, watch, park |

pub mod bell;
pub mod beside;
pub mod call;
pub mod class;
pub mod crew;
pub mod group;
pub mod idle;
pub mod io;
pub mod lane;
pub mod lock;
pub mod mailbox;
pub mod node;
pub mod offline;
mod placement;
pub mod queue;
pub mod switches;
pub mod task;
pub mod wait;
pub mod watchdog;
pub mod wheel;

#[cfg(test)]
mod testing;
