//! What a task is launched with.

use super::extras::Name;
use std::panic::Location;

/// How a worker runs a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Any worker of the scheduler polls it, until it is ready.
    Task,
    /// Only the worker that it is launched on polls it. Its timers stay on that worker too.
    Pinned,
    /// The worker runs it at once when it takes it from its mailbox. It is ready at its first poll.
    Call,
}

/// What a task is launched with.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// See [`Local::rank`](crate::worker::Local::rank).
    pub rank: u8,
    /// The task's name, if it has one.
    pub name: Option<&'a Name>,
    /// The number of the task's [group](crate::group): the default one, or one in which the task was counted by
    /// [`reserve`](crate::group::Groups::reserve). `None`: the group of the task that launches it, if that is of the
    /// same scheduler; else the default one. Calls have no group.
    pub group: Option<u8>,
    /// Whether the future may be dropped only on the thread of its worker: it is not `Send`. Only for pinned tasks.
    pub stays: bool,
    /// Where the task was spawned. Kept if it has a name or the scheduler records something for each task.
    pub spawned_at: &'static Location<'static>,
}

impl Default for About<'_> {
    /// Describes a task that is spawned where this is called.
    #[track_caller]
    fn default() -> Self {
        About {
            rank: 0,
            name: None,
            group: None,
            stays: false,
            spawned_at: Location::caller(),
        }
    }
}
