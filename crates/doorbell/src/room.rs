//! Mailboxes with a limit: how many calls may wait for one core, and who waits for room.
//!
//! Only calls are counted. Wakes and tasks that move never wait and never fail. A call has its place
//! until its closure has run or was dropped: the place goes with the closure.

use crate::builder::{BuildError, Builder};
use crate::wakers::Later;
use async_lock::{Semaphore, SemaphoreGuardArc};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;

/// A place in a mailbox; given back when dropped, which never panics: it is also dropped where a call's
/// result is at stake.
#[derive(Debug)]
pub(crate) struct Place {
    guard: Option<SemaphoreGuardArc>,
    room: Arc<Room>,
}

impl Drop for Place {
    fn drop(&mut self) {
        drop(self.guard.take());
        self.room.later.tell();
    }
}

/// The room in one mailbox.
#[derive(Debug)]
pub(crate) struct Room {
    places: Arc<Semaphore>,
    /// Wakers of those who wait for a place. The semaphore calls them while it holds its lock.
    later: Later,
}

impl Room {
    fn new(limit: usize) -> Arc<Self> {
        Arc::new(Room {
            places: Arc::new(Semaphore::new(limit)),
            later: Later::new(),
        })
    }

    fn place(self: &Arc<Self>, guard: SemaphoreGuardArc) -> Place {
        Place {
            guard: Some(guard),
            room: Arc::clone(self),
        }
    }

    pub(crate) fn try_acquire(self: &Arc<Self>) -> Option<Place> {
        let guard = self.places.try_acquire_arc()?;
        Some(self.place(guard))
    }

    pub(crate) async fn acquire(self: Arc<Self>) -> Place {
        // Dropped behind the wait, which may wake the next one when it goes.
        let _tells = Tells(&self.later);
        let mut wait = pin!(self.places.acquire_arc());
        let guard = poll_fn(|cx| self.later.poll(cx, |cx| wait.as_mut().poll(cx))).await;
        self.place(guard)
    }
}

struct Tells<'a>(&'a Later);

impl Drop for Tells<'_> {
    fn drop(&mut self) {
        self.0.tell();
    }
}

/// The room in the mailboxes of all cores.
#[derive(Debug)]
pub(crate) struct Rooms(Option<Box<[Arc<Room>]>>);

impl Rooms {
    pub(crate) fn new(limit: Option<usize>, cores: usize) -> Self {
        Rooms(limit.map(|limit| (0..cores).map(|_| Room::new(limit)).collect()))
    }

    /// The room of a core; `None` if it has no limit.
    #[inline]
    pub(crate) fn of(&self, core: usize) -> Option<&Arc<Room>> {
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
