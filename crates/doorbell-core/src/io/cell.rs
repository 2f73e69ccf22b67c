//! A place for one waker. No thread ever waits for it: a thread that finds it held uses another cell, or
//! leaves the job to the holder.

use crate::quiet::{Quiet, drop_quietly};
use doorbell_machine::{Bug, Cell, Machine, Ordering, Readiness, Word};
use std::task::Waker;

/// No thread has the cell, and it holds no waker.
const FREE: u64 = 0;

/// One thread has the cell, and reads or changes its waker.
const HELD: u64 = 1;

/// The cell holds a waker for the next event that the waker waits for.
const ARMED: u64 = 2;

/// As `HELD`, and since then an event has come that ends the wait which the cell was armed for.
const MISSED: u64 = HELD | ARMED;

const STATE: u64 = 0b11;

/// The first bit of the [`Readiness`] that ends the wait.
const WANTED_BIT: u32 = 2;

/// One wait.
const TURN: u64 = 1 << 8;

// The table below: state, what is wanted and turn lie side by side.
const _: () = assert!(FREE | MISSED == STATE);
const _: () = assert!(STATE + 1 == 1 << WANTED_BIT);
const _: () = assert!(((Readiness::ALL.bits() as u64) << WANTED_BIT) + STATE + 1 == TURN);

/// A place for one waker.
///
/// | bits | name | changed by |
/// |---|---|---|
/// | 0–1 | state: `FREE`, `HELD`, `ARMED`, `MISSED` | the thread that takes hold, by an exchange of the word it saw; the holder; an event, from `HELD` to `MISSED` |
/// | 2–7 | wanted: which readiness ends the wait; none of a cell that is free, or was before it was held | the holder, when it arms or lets go |
/// | 8–63 | turn: which wait this is; of two waits for a descriptor the older one has the smaller turn | as above |
pub(super) struct WaitCell<M: Machine> {
    word: M::U64,
    waker: M::Cell<Option<Waker>>,
    /// The next one of the list, once this one is in it.
    next: M::Cell<*mut WaitCell<M>>,
}

// SAFETY: only the holder of the cell touches the waker; `next` is written before the cell is
// published and not after.
unsafe impl<M: Machine> Send for WaitCell<M> {}
// SAFETY: as above.
unsafe impl<M: Machine> Sync for WaitCell<M> {}

impl<M: Machine> std::fmt::Debug for WaitCell<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WaitCell").finish_non_exhaustive()
    }
}

/// The word of an armed cell: which wait this is, and what ends it. No other wait of the descriptor has the
/// same turn, and those of one wait differ by their cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CellTurn(u64);

impl CellTurn {
    /// The turn alone.
    pub(super) fn number(self) -> u64 {
        self.0 / TURN
    }
}

/// What [`HeldCell::arm`] has done.
pub(super) struct Armed<'a, M: Machine> {
    pub(super) cell: &'a WaitCell<M>,
    pub(super) turn: CellTurn,
    /// Whether an event that ends the wait of before came while this thread held the cell.
    pub(super) is_missed: bool,
}

/// A cell that this thread holds. Dropped, it is free and empty.
pub(super) struct HeldCell<'a, M: Machine> {
    cell: &'a WaitCell<M>,
    word: u64,
}

impl<M: Machine> WaitCell<M> {
    pub(super) fn new() -> Self {
        WaitCell {
            word: M::U64::new(FREE),
            waker: M::Cell::new(None),
            next: M::Cell::new(std::ptr::null_mut()),
        }
    }

    pub(super) fn next(&self) -> *mut WaitCell<M> {
        // SAFETY: `set_next` writes it only before the cell is published.
        self.next.with(|next| unsafe { *next })
    }

    /// Links the cell. The caller alone has it, before it is published.
    pub(super) fn set_next(&self, to: *mut WaitCell<M>) {
        // SAFETY: the caller's promise.
        self.next.with_mut(|next| unsafe { *next = to });
    }

    /// Takes hold of the cell if `may` says so of the word, which is not held.
    fn hold_if(&self, may: impl Fn(u64) -> bool) -> Option<HeldCell<'_, M>> {
        // ORDER: Relaxed; a first guess, the exchange below decides. Behind an event, its fence
        // orders it: see `take`.
        let mut seen = self.word.load(Ordering::Relaxed);
        loop {
            if seen & HELD != 0 || !may(seen) {
                return None;
            }
            let held = (seen & !STATE) | HELD;
            // ORDER: Acquire pairs with the Release of the last holder: its waker is visible to this
            // thread. Relaxed on failure: only the next guess.
            match self
                .word
                .compare_exchange(seen, held, Ordering::Acquire, Ordering::Relaxed)
            {
                Ok(_) => {
                    return Some(HeldCell {
                        cell: self,
                        word: held,
                    });
                }
                Err(now) => seen = now,
            }
        }
    }

    /// Takes hold of it, whatever lies there; `None` if another thread holds it.
    pub(super) fn hold(&self) -> Option<HeldCell<'_, M>> {
        self.hold_if(|_| true)
    }

    /// Takes hold of it if it is free.
    pub(super) fn hold_free(&self) -> Option<HeldCell<'_, M>> {
        self.hold_if(|word| word & STATE == FREE)
    }

    /// Takes hold of it if it still is as it was armed.
    pub(super) fn hold_turn(&self, turn: CellTurn) -> Option<HeldCell<'_, M>> {
        self.hold_if(|word| word == turn.0)
    }

    /// Ends this wait, for an event: takes its waker. `None` if it is over, or if another thread holds the cell. If
    /// that one was about to arm it again for the same wait, it learns that the wait has ended: see [`Armed`].
    pub(super) fn end(&self, turn: CellTurn) -> Option<Waker> {
        loop {
            if let Some(held) = self.hold_turn(turn) {
                return held.take();
            }
            if M::breaks(Bug::IoHeldBlind) {
                return None;
            }
            let held = (turn.0 & !STATE) | HELD;
            let missed = turn.0 | MISSED;
            // ORDER: Relaxed, after the fence of the event (`Source::deliver`); partner: the fence after the
            // exchange that finds this (`HeldCell::arm`). So the holder sees the event in the word.
            match self
                .word
                .compare_exchange(held, missed, Ordering::Relaxed, Ordering::Relaxed)
            {
                // It was armed again meanwhile.
                Err(now) if now == turn.0 => {}
                Ok(_) | Err(_) => return None,
            }
        }
    }

    /// The wait that some of `ready` ends, if there is one, also while a thread holds the cell to arm it again. An
    /// event calls this after its fence: either it sees the arming, or the arming thread sees the event.
    pub(super) fn waits_for(&self, ready: Readiness) -> Option<CellTurn> {
        // ORDER: Relaxed, after the fence.
        let word = self.word.load(Ordering::Relaxed);
        let wanted = u64::from(ready.bits()) << WANTED_BIT;
        (word & wanted != 0).then_some(CellTurn((word & !STATE) | ARMED))
    }

    /// The wait that some of `ready` ends, if the cell is armed.
    pub(super) fn armed_for(&self, ready: Readiness) -> Option<CellTurn> {
        // ORDER: Relaxed; a hint, or after a fence.
        let word = self.word.load(Ordering::Relaxed);
        let wanted = u64::from(ready.bits()) << WANTED_BIT;
        (word & STATE == ARMED && word & wanted != 0).then_some(CellTurn(word))
    }
}

impl<'a, M: Machine> HeldCell<'a, M> {
    /// The turn of the wait of this very waker, if it waits here.
    pub(super) fn turn_of(&self, waker: &Waker) -> Option<u64> {
        // SAFETY: this thread holds the cell.
        let old = self.cell.waker.with(|waker| unsafe { (*waker).as_ref() });
        old.is_some_and(|old| old.will_wake(waker))
            .then_some(self.word / TURN)
    }

    /// Takes the waker out, and lets go.
    pub(super) fn take(self) -> Option<Waker> {
        // SAFETY: this thread holds the cell.
        self.cell.waker.with_mut(|waker| unsafe { (*waker).take() })
    }

    /// Stores this waker, to be woken for `wanted` in that turn. The old one is dropped, unless it is the same.
    /// The caller must look at the word of the descriptor once more after this.
    ///
    /// # Panics
    /// As the clone of the waker does; the cell is free then.
    pub(super) fn arm(self, turn: u64, wanted: Readiness, waker: &Waker) -> Armed<'a, M> {
        // SAFETY: this thread holds the cell.
        let old = self.cell.waker.with_mut(|waker| unsafe { (*waker).take() });
        let (new, old) = match old {
            Some(old) if old.will_wake(waker) => (old, None),
            // The clone is foreign code. If it comes back here, it finds the cell held. If it panics, the
            // drop of the old waker must not panic too.
            old => {
                let old = Quiet::of(old);
                (waker.clone(), old.take())
            }
        };
        // SAFETY: as above.
        self.cell
            .waker
            .with_mut(|waker| unsafe { *waker = Some(new) });
        let armed = (turn * TURN) | (u64::from(wanted.bits()) << WANTED_BIT) | ARMED;
        let cell = self.cell;
        std::mem::forget(self);
        // ORDER: Release pairs with the Acquire of the thread that takes hold. It is a read-modify-write for
        // the fence after it; partner: the fence of an event (`Source::deliver`).
        let before = cell.word.swap(armed, Ordering::Release);
        if !M::breaks(Bug::IoNoArmFence) {
            M::fence_announce();
        }
        drop_quietly(old);
        Armed {
            cell,
            turn: CellTurn(armed),
            is_missed: before & STATE == MISSED,
        }
    }
}

impl<M: Machine> Drop for HeldCell<'_, M> {
    fn drop(&mut self) {
        let free = (self.word & !(TURN - 1)) | FREE;
        // ORDER: Release pairs with the Acquire of the next thread that takes hold.
        self.cell.word.store(free, Ordering::Release);
    }
}
