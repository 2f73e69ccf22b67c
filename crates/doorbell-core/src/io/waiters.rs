//! The tasks that wait for a descriptor: one cell for each direction, and as many more as were ever needed
//! at once.
//!
//! Cells are only added, and are freed with the descriptor. So a thread may walk the list without
//! protection, and a cell that is free again serves the next task.

use super::Interest;
use super::cell::{Armed, CellTurn, HeldCell, WaitCell};
use crate::quiet::drop_quietly;
use doorbell_machine::{Machine, Ordering, PtrWord, Readiness, Word};
use std::ops::RangeInclusive;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;
use std::task::Waker;

/// So many waiters an event finds in one walk, and wakes before the next walk.
const BATCH: usize = 16;

/// The waiters of a descriptor.
pub(super) struct Waiters<M: Machine> {
    slots: [WaitCell<M>; 2],
    more: M::Ptr<WaitCell<M>>,
    /// How many waits have begun: the turn of the last one.
    turns: M::U64,
}

/// Waits that one event ends, in the order in which they began; behind the last one there is nothing.
type Batch<'a, M> = [Option<(CellTurn, &'a WaitCell<M>)>; BATCH];

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
            turns: M::U64::new(0),
        }
    }

    /// The turn of a wait that begins.
    fn next_turn(&self) -> u64 {
        // ORDER: Relaxed; only a number. With the arming after it and its fence, and the fence of an event, this
        // is store buffering: an event that sees the arming sees this too.
        self.turns.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Lets this waker wait in the slot of its interest, in place of the waker there. If another thread
    /// holds the slot, the waker waits in a spare cell until the next event.
    pub(super) fn arm_slot(&self, interest: Interest, waker: &Waker) {
        let held = self.slots[interest.slot() as usize].hold();
        let held = held.unwrap_or_else(|| self.hold_spare());
        let turn = held.turn_of(waker).unwrap_or_else(|| self.next_turn());
        let _ = held.arm(turn, interest.wanted(), waker);
    }

    /// Lets this waker wait in a cell of its own, which is returned, in this turn, or in one that begins.
    pub(super) fn arm_spare(
        &self,
        turn: Option<u64>,
        wanted: Readiness,
        waker: &Waker,
    ) -> Armed<'_, M> {
        let turn = turn.unwrap_or_else(|| self.next_turn());
        self.hold_spare().arm(turn, wanted, waker)
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

    /// Wakes all wakers that wait for some of `ready`, the one that has waited longest first. Wakers are foreign
    /// code: none is called while a cell is held, and if one panics the others are woken all the same.
    pub(super) fn wake(&self, ready: Readiness) {
        // ORDER: Relaxed, after the fence of the event: see `next_turn`. A wait that begins later sees the event.
        let last = self.turns.load(Ordering::Relaxed);
        let (mut from, mut batch) = (0, [None; BATCH]);
        while from <= last {
            self.find_oldest(ready, from..=last, &mut batch);
            for (turn, cell) in batch.iter().flatten() {
                if let Some(waker) = cell.end(*turn)
                    && let Err(payload) =
                        catch_unwind(AssertUnwindSafe(|| M::user(|| waker.wake())))
                {
                    drop_quietly(payload);
                }
            }
            let Some((turn, _)) = batch[BATCH - 1] else {
                return;
            };
            from = turn.number() + 1;
        }
    }

    /// Finds the oldest waits of these turns that some of `ready` ends, in their order.
    fn find_oldest<'a>(
        &'a self,
        ready: Readiness,
        turns: RangeInclusive<u64>,
        batch: &mut Batch<'a, M>,
    ) {
        batch.fill(None);
        let mut len = 0;
        for cell in self.all() {
            let Some(turn) = cell.waits_for(ready) else {
                continue;
            };
            let is_newer = |at: &Option<(CellTurn, _)>| at.is_some_and(|(it, _)| it > turn);
            let at = batch[..len].iter().position(is_newer).unwrap_or(len);
            if at == BATCH || !turns.contains(&turn.number()) {
                continue;
            }
            len = (len + 1).min(BATCH);
            batch[at..len].rotate_right(1);
            batch[at] = Some((turn, cell));
        }
    }

    /// Whether any waker waits. After a fence: either this sees the arming, or the arming thread sees what the
    /// caller has written before the fence.
    pub(super) fn any(&self) -> bool {
        self.all()
            .any(|cell| cell.armed_for(Readiness::ALL).is_some())
    }

    /// Drops all wakers in cells that no other thread holds.
    pub(super) fn forget(&self) {
        for cell in self.all() {
            let armed = cell.armed_for(Readiness::ALL);
            let held = armed.and_then(|turn| cell.hold_turn(turn));
            drop_quietly(held.and_then(HeldCell::take));
        }
    }

    /// How many cells there are, and how many of them are armed. For tests.
    #[cfg(test)]
    pub(super) fn count(&self) -> (usize, usize) {
        let armed = self
            .all()
            .filter(|cell| cell.armed_for(Readiness::ALL).is_some());
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
