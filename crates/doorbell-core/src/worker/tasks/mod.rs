//! What a worker does with tasks.
//!
//! | file | holds |
//! |---|---|
//! | `submit.rs` | a task is launched, woken or cancelled: which caller queues it, and where |
//! | `run.rs` | how a worker runs it, and what it does when the task is complete |
//! | `raise.rs` | a scheduler above polls a task that it awaits |
//! | `delegate.rs` | wakes by threads of a lower class |
//! | `sweep.rs` | workers above run rescuable tasks while the tasks' own workers are stuck |
//! | `recorded.rs` | tasks whose scheduler records something of them |
//! | `schedule.rs` | what tasks ask of the scheduler above them, answered |

mod delegate;
mod raise;
mod recorded;
pub(super) mod run;
mod schedule;
mod submit;
mod sweep;

pub use recorded::TaskSeen;
pub use submit::{launch, launch_described};
pub(super) use sweep::Raised;
pub use sweep::Sweep;
