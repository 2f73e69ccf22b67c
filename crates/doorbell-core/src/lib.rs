//! The protocols of doorbell, generic over a [`Machine`](doorbell_machine::Machine).
//!
//! This crate makes no syscall, and its wake path allocates nothing. It is the floor below the
//! crate `doorbell`, which most people want instead.
//!
//! | module | protocol |
//! |---|---|
//! | [`bell`] | a worker's status word: spin, notify, park, ring |
//! | [`mailbox`] | a worker's inbound queue, and the rule of who touches the bell |
//! | [`task`] | the task cell, its waker and its join handle |
//! | [`call`] | a closure posted to a named core, awaited or waited for |
//! | [`parcel`] | a closure posted to a core that no thread waits for |
//! | [`lock`] | a lock between tasks, whose holder inherits the class of who waits for it |
//! | [`queue`] | a worker's run queue, and how others steal from it |
//! | [`group`] | shares of the CPU time by weight |
//! | [`scheduler`] | the workers that share tasks: which are idle, who wakes one, where a task is put, cores off and on |
//! | [`wheel`] | a worker's timers |
//! | [`tree`] | which awake worker looks after the timers of which sleeping ones (`timer_pull=on`) |
//! | [`io`] | descriptors: who is told when one is ready |
//! | [`worker`] | the loop: take, run, pass, spin, park |

#![warn(clippy::print_stdout, clippy::print_stderr)]

pub mod bell;
pub mod call;
pub mod class;
pub mod group;
pub mod io;
pub mod link;
pub mod lock;
pub mod mailbox;
pub mod parcel;
pub mod queue;
pub mod quiet;
pub mod scheduler;
pub mod switches;
pub mod task;
pub mod tree;
pub mod wait;
pub mod wheel;
pub mod worker;

#[cfg(test)]
mod testing;
