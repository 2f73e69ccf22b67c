//! The tasks that wait for a descriptor: one cell for each direction, and as many more as were ever needed
//! at once.
//!
//! Cells are only added, and are freed with the descriptor. So a thread may walk the list without
//! protection, and a cell that is free again serves the next task.

use super::Direction;
use super::cell::{CellTurn, HeldCell, WaitCell};
use crate::quiet::drop_quietly;
use doorbell_machine::{Machine, Ordering, PtrWord, Readiness};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;
use std::task::Waker;

/// The waiters of a descriptor.
pub(super) struct Waiters<M: Machine> {
    slots: [WaitCell<M>; 2],
    more: M::Ptr<WaitCell<M>>,
}

// SAFETY: the cells of the list are those of boxes that live as long as this, and are Sync.
unsafe impl<M: Machine> Send for Waiters<M> {}
// SAFETY: as above.
unsafe impl<M: Machine> Sync for Waiters<M> {}

impl<M: Machine> std::fmt::Debug for Waiters<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Waiters").finish_non_exhaustive()
    }
}

impl<M: Machine> Waiters<M> {
    pub(super) fn new() -> Self {
        Waiters {
            slots: [WaitCell::new(), WaitCell::new()],
            more: M::Ptr::new(null_mut()),
        }
    }

    /// Lets this waker wait in the slot of its direction, in place of the waker there. If another thread
    /// holds the slot, the waker waits in a spare cell until the next event.
    pub(super) fn arm_slot(&self, direction: Direction, waker: &Waker) {
        let held = self.slots[direction as usize].hold();
        let held = held.unwrap_or_else(|| self.hold_spare());
        let _ = held.arm(direction.wanted(), waker);
    }

    /// Lets this waker wait in a place of its own, which is told.
    pub(super) fn arm_spare(&self, wanted: Readiness, waker: &Waker) -> (&WaitCell<M>, CellTurn) {
        self.hold_spare().arm(wanted, waker)
    }

    /// A cell of the list that is free, or a new one.
    fn hold_spare(&self) -> HeldCell<'_, M> {
        let free = self.list().find_map(WaitCell::hold_free);
        free.unwrap_or_else(|| self.add())
    }

    fn add(&self) -> HeldCell<'_, M> {
        let cell = Box::into_raw(Box::new(WaitCell::new()));
        // SAFETY: leaked above, until this is dropped.
        let it = unsafe { &*cell };
        let held = it.hold_free().expect("nobody else has it");
        // ORDER: Relaxed; a first guess, the exchange below decides.
        let mut head = self.more.load(Ordering::Relaxed);
        loop {
            it.set_next(head);
            // ORDER: Release pairs with the Acquire of `list`: the new cell is visible. Relaxed on
            // failure: only the next guess; the cell found is not read here.
            match self
                .more
                .compare_exchange_weak(head, cell, Ordering::Release, Ordering::Relaxed)
            {
                Ok(_) => return held,
                Err(now) => head = now,
            }
        }
    }

    fn list(&self) -> impl Iterator<Item = &WaitCell<M>> {
        // ORDER: Acquire pairs with the Release of every `add` before: each is a read-modify-write,
        // so the last one continues the Release of those before it.
        let mut next = self.more.load(Ordering::Acquire);
        std::iter::from_fn(move || {
            // SAFETY: null, or a cell that lives as long as this.
            let cell = unsafe { next.as_ref() }?;
            next = cell.next();
            Some(cell)
        })
    }

    fn all(&self) -> impl Iterator<Item = &WaitCell<M>> {
        self.slots.iter().chain(self.list())
    }

    /// Wakes all wakers that wait for some of `ready`. Wakers are foreign code: none is called while a cell is
    /// held, and if one panics the others are woken all the same.
    pub(super) fn wake(&self, ready: Readiness) {
        for cell in self.all() {
            if let Some(waker) = cell.take(ready)
                && let Err(payload) = catch_unwind(AssertUnwindSafe(|| waker.wake()))
            {
                drop_quietly(payload);
            }
        }
    }

    /// Whether any waker waits. After a fence: either this sees the arming, or the arming thread sees what the
    /// caller has written before the fence.
    pub(super) fn any(&self) -> bool {
        self.all().any(WaitCell::is_armed)
    }

    /// Drops all wakers in cells that no other thread holds.
    pub(super) fn forget(&self) {
        for cell in self.all() {
            drop_quietly(cell.take(Readiness::ALL));
        }
    }

    /// How many cells there are, and how many of them are armed. For tests.
    #[cfg(test)]
    pub(super) fn count(&self) -> (usize, usize) {
        let armed = self.all().filter(|cell| cell.is_armed());
        (self.all().count(), armed.count())
    }
}

impl<M: Machine> Drop for Waiters<M> {
    fn drop(&mut self) {
        // ORDER: Relaxed; the dropping thread has it alone.
        let mut next = self.more.load(Ordering::Relaxed);
        while !next.is_null() {
            // SAFETY: leaked by `add`, and no other thread has the list any more.
            let cell = unsafe { Box::from_raw(next) };
            next = cell.next();
        }
    }
}
