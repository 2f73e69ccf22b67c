//! Push among urgent workers: which workers have a task waiting behind a poll, which rank each worker runs, and which
//! thread moves the waiting tasks. See README.md.

mod bytes;
#[cfg(test)]
mod loom;
#[cfg(test)]
mod loom_token;
mod map;
mod overloaded;
mod post;
mod token;

pub use map::{Change, NONE_YET, OwnRank, PriorityMap, TAKES_NOTHING};
pub use overloaded::{Cleared, Overloaded};
pub(crate) use post::Push;
pub use token::{End, Generation, HeldSince, LATE_NS, PushToken, Round, Told};
