//! What a task is: its cell, its waker and its join handle. README.md in this folder has the protocol, and
//! `worker/tasks` what a worker does with tasks.
//!
//! | file | holds |
//! |---|---|
//! | `standing.rs` | whether a caller is lower-class |
//! | `state.rs` | the state word and its transitions |
//! | `state_inheritance.rs` | the transitions of a task that is awaited from above |
//! | `about.rs` | what a task is launched with |
//! | `schedule.rs` | what a task asks of the scheduler above it: the trait `Schedule` |
//! | `cell.rs` | the allocation: header and body; how it is polled, completed and freed |
//! | `queue_node.rs` | from a node of a run queue to its task |
//! | `home.rs` | the list of tasks that a home worker keeps |
//! | `state_delegate.rs` | the transitions of wakes by threads of a lower class |
//! | `inheritance.rs` | the raised node, by which a scheduler above queues and polls a task |
//! | `length.rs` | how long the task's last polls were |
//! | `extras.rs` | what only some tasks have: name, times, where they were spawned |
//! | `waker.rs` | the `std::task::Waker` of a task |
//! | `join.rs` | the join handle: awaits, cancels or lets run on |
//! | `error.rs` | why a task has no output: `JoinError` |
//! | `poll_refs.rs` | references to the task under poll, added to its word when the poll ends |

mod about;
pub(crate) mod cell;
mod error;
pub(crate) mod extras;
pub(crate) mod home;
pub(crate) mod inheritance;
mod join;
pub(crate) mod length;
#[cfg(test)]
mod loom;
#[cfg(test)]
mod loom_above;
#[cfg(test)]
mod loom_below;
#[cfg(test)]
pub(crate) mod loom_offer;
#[cfg(test)]
mod loom_raised;
#[cfg(test)]
mod loom_raises;
#[cfg(test)]
mod loom_seen;
#[cfg(test)]
mod loom_workers;
pub(crate) mod poll_refs;
pub(crate) mod queue_node;
pub(crate) mod schedule;
mod standing;
pub(crate) mod state;
pub(crate) mod state_delegate;
pub(crate) mod state_inheritance;
#[cfg(test)]
mod tests;
mod waker;

pub use about::{About, Kind};
pub(crate) use cell::TaskRef;
pub use cell::{BodyVtable, Once, write_body};
pub use error::{JoinError, Payload};
pub use extras::Name;
pub use join::{Canceller, Join, RawJoin};
pub(crate) use schedule::{Schedule, SchedulerId};
pub(crate) use state_inheritance::Above;

/// At most this many schedulers are above one.
pub(crate) const ABOVE_MAX: usize = Above::MAX;

/// What a task does now, as seen from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It waits for a wake.
    Idle,
    /// It is in a queue.
    Queued,
    /// A worker polls it.
    Running,
    /// Its output is stored.
    Complete,
}
