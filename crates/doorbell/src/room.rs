//! Mailbox limits: how many calls may wait for one core, and how others wait for room.
//!
//! Only calls and posts are counted. Wakes and tasks that move never wait and never fail. A call has its
//! place until its closure has run or has been dropped.

use crate::builder::{BuildError, Builder};
use crate::wakers::Later;
use async_lock::{Semaphore, SemaphoreGuardArc};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;

/// A place in a mailbox. Dropping it gives the place back, and never panics: a panic there could lose the
/// result of a call.
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
    /// Defers the calls of wakers that wait for a place: the semaphore calls them while it holds its lock.
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
        // Dropped after `wait`, which may wake the next waiter when it is dropped.
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

/// Checks the limit that the builder was given.
pub(crate) fn check(limit: Option<usize>) -> Result<(), BuildError> {
    match limit {
        Some(0) => Err(BuildError::NoRoom),
        _ => Ok(()),
    }
}

impl Builder {
    /// Sets how many calls and posts may wait for one core at a time. By default there is no limit.
    ///
    /// If the mailbox is full, [`call_on`](crate::call_on()) waits for room;
    /// [`try_call_on`](crate::try_call_on()) and [`post_on`](crate::post_on()) return
    /// [`CallError::Full`](crate::CallError::Full). Calls to many cores and calls of other classes than Fair
    /// are not counted. Wakes and tasks that move are never refused.
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
