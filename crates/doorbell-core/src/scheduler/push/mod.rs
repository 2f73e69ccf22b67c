//! Push among urgent workers: at which workers a task waits behind a poll, which rank each worker runs, and which of
//! the workers that park looks for the waiting tasks. See README.md.

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
pub use token::{End, PushToken, TOKEN_FROM, Told};
