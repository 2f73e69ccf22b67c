//! The wheel: a lane's timers. See README.md in this folder for the protocol.
//!
//! A lane has two bases: local timers, which are its own, and global ones, which later a busy
//! lane may expire for a sleeping one. Everything in them is the lane's; a timer that is armed,
//! re-armed or cancelled on its own lane takes no atomic read-modify-write and no lock. Another
//! thread reaches a lane's timer by one exchange of the timer's state word and by mail.

mod clock;
mod entry;
mod levels;
#[cfg(test)]
mod loom;
#[cfg(test)]
mod loom_rest;
mod rest;
#[cfg(test)]
mod tests;
mod timer;

pub use clock::Clock;
pub(crate) use rest::Ended;
pub use rest::{AtRest, Hold, Holds};
pub use timer::{Fired, Polled, RawTimer, Reset};

use crate::crew::FrontRef;
use crate::task::{Local, drop_quietly};
use doorbell_machine::{Cell, Machine};
use entry::{Entry, Fire};
use levels::Levels;
use std::ptr::NonNull;
use std::task::Waker;

/// How many entries a lane keeps for its next timers; more go back to the allocator.
const KEPT_MAX: usize = 4_096;

/// Which of a lane's two bases a timer belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// Of a task that is pinned to this core: only this lane expires it.
    Local,
    /// Of any other task.
    Global,
}

/// The timers of one lane. Not `Sync`.
pub(crate) struct Wheel<M: Machine> {
    inner: M::Cell<Inner<M>>,
}

struct Inner<M: Machine> {
    bases: [Levels<M>; 2],
    kept: Vec<NonNull<Entry<M>>>,
}

impl<M: Machine> std::fmt::Debug for Wheel<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wheel")
            .field("pending", &self.len())
            .finish()
    }
}

impl<M: Machine> Wheel<M> {
    pub(crate) fn new(now_ns: u64) -> Self {
        Wheel {
            inner: M::Cell::new(Inner {
                bases: [Levels::new(now_ns), Levels::new(now_ns)],
                // Once and for all: to free a timer allocates nothing.
                kept: Vec::with_capacity(KEPT_MAX),
            }),
        }
    }

    #[inline(always)]
    fn with<R>(&self, f: impl FnOnce(&mut Inner<M>) -> R) -> R {
        // SAFETY: the wheel is used by its lane's thread alone, and nothing that is called
        // inside comes back to it: wakers are woken and dropped outside.
        self.inner.with_mut(|inner| f(unsafe { &mut *inner }))
    }

    /// How many timers hang in it.
    pub(crate) fn len(&self) -> usize {
        self.with(|inner| inner.bases.iter().map(Levels::len).sum())
    }

    /// An entry for a new timer.
    #[inline]
    fn take_entry(&self, front: &FrontRef<M>) -> NonNull<Entry<M>> {
        self.with(|inner| inner.kept.pop())
            .unwrap_or_else(|| Entry::allocate(front))
    }

    /// Keeps an entry for the next timer.
    ///
    /// # Safety
    /// Nobody else has the entry, and it hangs nowhere.
    #[inline]
    unsafe fn recycle(&self, entry: NonNull<Entry<M>>) {
        // SAFETY: the caller's promise.
        let it = unsafe { entry.as_ref() };
        // SAFETY: as above. The waker is dropped outside of the wheel: its drop may come back.
        let waker = it.waker.with_mut(|waker| unsafe { (*waker).take() });
        // Only mailed entries have one; a look is cheaper than a drop.
        let known = it.handle_waker.take();
        it.set(entry::FREE);
        let full = self.with(|inner| {
            let full = inner.kept.len() >= KEPT_MAX;
            if !full {
                inner.kept.push(entry);
            }
            full
        });
        if full {
            // SAFETY: the caller's promise.
            unsafe { Entry::free(entry) };
        }
        // Quietly: the caller may be the lane's own loop. Mostly there is nothing to drop.
        if waker.is_some() || known.is_some() {
            drop_quietly((waker, known));
        }
    }

    /// # Safety
    /// The entry is this lane's, and hangs nowhere.
    #[inline]
    unsafe fn hang(&self, entry: NonNull<Entry<M>>, when_ns: u64) {
        // SAFETY: the caller's promise.
        let base = unsafe { entry.as_ref() }.base.get();
        // SAFETY: passed on.
        self.with(|inner| unsafe { inner.bases[base as usize].insert(entry.as_ptr(), when_ns) });
    }

    /// # Safety
    /// The entry hangs in this wheel.
    #[inline]
    unsafe fn unlink(&self, entry: NonNull<Entry<M>>) {
        // SAFETY: the caller's promise.
        let base = unsafe { entry.as_ref() }.base.get();
        // SAFETY: passed on.
        self.with(|inner| unsafe { inner.bases[base as usize].unlink(entry.as_ptr()) });
    }

    /// When the lane has to look next at its local and at its global base; `u64::MAX` for an
    /// empty one.
    pub(crate) fn next_ns(&self) -> [u64; 2] {
        self.with(|inner| {
            [Base::Local, Base::Global]
                .map(|base| inner.bases[base as usize].next_ns().unwrap_or(u64::MAX))
        })
    }

    /// Fires what is due at `now_ns`; returns how many.
    pub(crate) fn expire(&self, now_ns: u64) -> u64 {
        self.with(|inner| inner.bases.iter_mut().for_each(|base| base.advance(now_ns)));
        let mut fired = 0;
        // One by one: a waker may arm and cancel timers of this very wheel.
        while let Some(entry) = self.with(|inner| inner.bases.iter_mut().find_map(Levels::pop_due))
        {
            // SAFETY: it hung in the wheel until now, so it is alive; it stays so until its
            // state says that it is the handle's.
            let waker = unsafe { Self::release(entry, Entry::fire) };
            fired += u64::from(waker.is_some());
            if let Some(waker) = waker {
                crate::task::wake_quietly(waker);
            }
        }
        fired
    }

    /// Gives a timer that was unlinked to its handle, or leaves it to the message that its
    /// handle sent.
    ///
    /// # Safety
    /// The entry is alive and this lane's.
    unsafe fn release(
        entry: NonNull<Entry<M>>,
        how: unsafe fn(NonNull<Entry<M>>) -> Fire,
    ) -> Option<Waker> {
        // SAFETY: while it is not yet the handle's, the waker is the lane's.
        let waker = unsafe { entry.as_ref().waker.with_mut(|waker| (*waker).take()) };
        // SAFETY: the caller's promise.
        match unsafe { how(entry) } {
            Fire::Wake => return waker,
            Fire::Cancelled => {}
            // SAFETY: its handle is gone and has left it to the lane, which has unlinked it.
            Fire::Abandoned => unsafe { Entry::free(entry) },
        }
        drop_quietly(waker);
        None
    }

    /// The lane ends: every handle is told.
    pub(crate) fn close(&self) {
        while let Some(entry) = self.with(|inner| inner.bases.iter_mut().find_map(Levels::pop_any))
        {
            // SAFETY: as in `expire`.
            if let Some(waker) = unsafe { Self::release(entry, Entry::orphan) } {
                crate::task::wake_quietly(waker);
            }
        }
        self.free_kept();
    }

    fn free_kept(&self) {
        let kept = self.with(|inner| std::mem::take(&mut inner.kept));
        for entry in kept {
            // SAFETY: what is kept is nobody else's.
            unsafe { Entry::free(entry) };
        }
    }
}

impl<M: Machine> Drop for Wheel<M> {
    /// A handle that had fired may have come back after the wheel was closed.
    fn drop(&mut self) {
        self.free_kept();
    }
}
