//! How tasks are submitted, run and woken on workers.
//!
//! | file | holds |
//! |---|---|
//! | `submit.rs` | launch, wake and cancel: where the task is queued |
//! | `place.rs` | finishes a placement: tasks of a worker that was busy after all are placed again |
//! | `run.rs` | how a worker runs a task, and what it does when the task is complete |
//! | `raise.rs` | inheritance: a scheduler above polls a task that it awaits |
//! | `relieve.rs` | ends the tasks of a worker that cannot, while its runtime ends |
//! | `recorded.rs` | what telemetry records of tasks, and the list of a worker's tasks |
//! | `schedule.rs` | implements `Schedule`, by which tasks reach their scheduler |

pub(super) mod place;
mod raise;
mod recorded;
mod relieve;
pub(super) mod run;
mod schedule;
mod submit;

pub use recorded::TaskSeen;
pub use submit::{launch, launch_described};
