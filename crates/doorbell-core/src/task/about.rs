//! What a task is launched with.

use super::extras::Name;
use std::panic::Location;

/// What a worker does with the cell when it takes it from its mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Queue it on any worker of the scheduler; it is polled until it is ready.
    Task,
    /// As `Task`, and it never leaves its core: nor do its timers.
    Pinned,
    /// Run it at once, without a queue and without a pass; it is ready at its first poll.
    Call,
}

/// What a task is launched with.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// See [`Local::rank`](crate::worker::Local::rank).
    pub rank: u8,
    /// Its name, if it has one.
    pub name: Option<&'a Name>,
    /// The number of its [group](crate::group), in which a place was
    /// [reserved](crate::group::Groups::reserve) for it, or the default one. `None`: that of the task
    /// of the same scheduler that launches it. Calls have none.
    pub group: Option<u8>,
    /// Whether workers of schedulers above may run it while its own are stuck in long polls: its polls are to be brief
    /// then, see [`Local::is_rescue`](crate::worker::Local::is_rescue). Of no effect on pinned tasks, and where no
    /// scheduler is above.
    pub rescuable: bool,
    /// Where it was spawned: kept if somebody is told of stalls.
    pub spawned_at: &'static Location<'static>,
}

impl Default for About<'_> {
    /// Of a task that is spawned where this is called.
    #[track_caller]
    fn default() -> Self {
        About {
            rank: 0,
            name: None,
            group: None,
            rescuable: false,
            spawned_at: Location::caller(),
        }
    }
}
