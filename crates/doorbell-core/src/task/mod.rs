//! What a task is: its cell, its waker and its join handle. See README.md in this folder for the protocol. What a worker
//! does with tasks lies in `worker/tasks`.
//!
//! | file | holds |
//! |---|---|
//! | `standing.rs` | how a caller stands to a class |
//! | `state.rs` | the state word and its transitions |
//! | `state_inheritance.rs` | the transitions of a task that is awaited from above |
//! | `about.rs` | what a task is launched with |
//! | `schedule.rs` | what a task asks of the scheduler above it: the trait `Schedule` |
//! | `cell.rs` | the allocation: header and body; how it is polled, completed and freed |
//! | `queue_node.rs` | which task a node of a run queue is of, and by which of its nodes |
//! | `home.rs` | the list of its home worker |
//! | `state_delegate.rs` | the transitions of wakes by threads of a lower class |
//! | `inheritance.rs` | the raised node, by which a scheduler above polls what it awaits |
//! | `extras.rs` | what only some tasks have: names, times, where it was spawned |
//! | `waker.rs` | the `std::task::Waker` of a task |
//! | `join.rs` | the handle that awaits, aborts or lets go |
//! | `poll_refs.rs` | references of the task under poll, counted when its poll ends |

mod about;
pub(crate) mod cell;
mod error;
pub(crate) mod extras;
pub(crate) mod home;
pub(crate) mod inheritance;
mod join;
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
pub use join::{Join, RawJoin};
pub(crate) use schedule::{Schedule, SchedulerId};
pub(crate) use state_inheritance::Above;

/// How many schedulers may be above one.
pub(crate) const ABOVE_MAX: usize = Above::MAX;

/// What a task does now, as others see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It waits for a wake.
    Idle,
    /// It is in a queue.
    Queued,
    /// Its worker polls it.
    Running,
    /// Its output is stored.
    Complete,
}
