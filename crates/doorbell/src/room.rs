//! Mailboxes with a limit: how many calls may wait for one core, and who waits for room.
//!
//! Only calls are counted. Wakes and tasks that move never wait and never fail. A call has its place
//! until its closure has run or was dropped: the place goes with the closure.

use crate::builder::{BuildError, Builder};
use async_lock::Semaphore;
use std::sync::Arc;

/// A place in a mailbox; given back when dropped.
pub(crate) type Place = async_lock::SemaphoreGuardArc;

/// The room in the mailboxes of all cores.
#[derive(Debug)]
pub(crate) struct Rooms(Option<Box<[Arc<Semaphore>]>>);

impl Rooms {
    pub(crate) fn new(limit: Option<usize>, cores: usize) -> Self {
        Rooms(limit.map(|limit| {
            (0..cores)
                .map(|_| Arc::new(Semaphore::new(limit)))
                .collect()
        }))
    }

    /// The room of a core; `None` if it has no limit.
    #[inline]
    pub(crate) fn of(&self, core: usize) -> Option<&Arc<Semaphore>> {
        self.0.as_ref().map(|rooms| &rooms[core])
    }
}

/// What an error says of a limit.
pub(crate) fn check(limit: Option<usize>) -> Result<(), BuildError> {
    match limit {
        Some(0) => Err(BuildError::NoRoom),
        _ => Ok(()),
    }
}

impl Builder {
    /// How many calls may wait for one core at a time: unless told, as many as memory holds.
    ///
    /// With a limit, [`call_on`](crate::call_on()) waits for room, and
    /// [`try_call_on`](crate::try_call_on()) and [`post_on`](crate::post_on()) say
    /// [`CallError::Full`](crate::CallError::Full). Calls to many cores are not counted: each is
    /// one per core. Wakes and tasks that move are never refused.
    ///
    /// ```
    /// let runtime = doorbell::Builder::new().cores(1).mailbox_limit(64).build()?;
    /// assert_eq!(runtime.block_on(runtime.call_on(0, || 7))?, 7);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn mailbox_limit(mut self, calls: usize) -> Self {
        self.mailbox_limit = Some(calls);
        self
    }
}
