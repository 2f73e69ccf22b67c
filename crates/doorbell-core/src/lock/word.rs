//! The word of a lock: a task's address, and below that what is to be done.
//!
//! | bits | name | meaning |
//! |---|---|---|
//! | 0 | `CONTENDED` | somebody waits: to unlock is not enough |
//! | 1 | `KEPT` | somebody keeps the line |
//! | 2 | `AGAIN` | there is more to do for who keeps it |
//! | 3 | `RELEASED` | the holder has let go; who keeps the line passes it on |
//! | 4.. | holder | the task that has it, with a reference; `NOBODY` for one that no scheduler is above of; 0 if it is free |

use super::as_task;
use crate::task::TaskRef;
use doorbell_machine::{Bug, Machine, Ordering, PtrWord};
use std::marker::PhantomData;

const CONTENDED: usize = 1 << 0;
const KEPT: usize = 1 << 1;
const AGAIN: usize = 1 << 2;
const RELEASED: usize = 1 << 3;
const FLAGS: usize = CONTENDED | KEPT | AGAIN | RELEASED;
/// Whoever holds it is no task of which somebody could be above. No task lies at this address.
const NOBODY: usize = 1 << 4;

// The table above. A task is aligned to 16.
const _: () = assert!(FLAGS == 0b1111 && NOBODY == FLAGS + 1);

/// Who has a lock, or is to have it; with a reference, if it is a task.
#[derive(Debug)]
pub(super) struct Holder<M: Machine> {
    raw: *mut (),
    machine: PhantomData<fn(M)>,
}

impl<M: Machine> Holder<M> {
    /// The caller.
    #[inline]
    pub(super) fn here() -> Self {
        let task = TaskRef::<M>::under_poll();
        let nobody = std::ptr::without_provenance_mut(NOBODY);
        Self::of(task.map_or(nobody, |task| task.as_raw().as_ptr()))
    }

    fn of(raw: *mut ()) -> Self {
        Holder {
            raw,
            machine: PhantomData,
        }
    }

    /// The reference is the word's now.
    pub(super) fn keep(self) {
        std::mem::forget(self);
    }

    /// The task, if it is one.
    pub(super) fn task(&self) -> Option<TaskRef<M>> {
        (self.raw.addr() > NOBODY).then(|| as_task(self.raw))
    }
}

impl<M: Machine> Drop for Holder<M> {
    fn drop(&mut self) {
        if let Some(task) = self.task() {
            task.release();
        }
    }
}

/// What is left to do for who unlocks.
#[must_use]
#[derive(Debug)]
pub(super) enum Unlocked<M: Machine> {
    /// It is free, and nobody waits. The word's reference is the caller's.
    Free(Holder<M>),
    /// Who keeps the line passes it on.
    Told,
    /// The caller keeps the line.
    Keep,
}

/// Who does what there is to do.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keeper {
    /// Who keeps the line.
    Told,
    /// The caller, who keeps the line now.
    Keep,
}

/// Whether who keeps the line is done.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineLeft {
    /// Somebody else may keep it.
    Done,
    /// There is more to do.
    Again,
}

pub(super) struct LockWord<M: Machine>(M::Ptr<()>);

fn has(word: *mut (), flag: usize) -> bool {
    word.addr() & flag != 0
}

fn with(word: *mut (), flags: usize) -> *mut () {
    word.map_addr(|addr| addr | flags)
}

fn without(word: *mut (), flags: usize) -> *mut () {
    word.map_addr(|addr| addr & !flags)
}

fn holder_of(word: *mut ()) -> *mut () {
    without(word, FLAGS)
}

impl<M: Machine> LockWord<M> {
    pub(super) fn new() -> Self {
        LockWord(M::Ptr::new(std::ptr::null_mut()))
    }

    /// One compare-exchange; the word as it was found, if that is another.
    #[inline]
    fn exchange(&self, seen: *mut (), next: *mut (), order: Ordering) -> Result<(), *mut ()> {
        loop {
            // ORDER: the caller's; Relaxed on failure, after which it is tried again, or given up.
            match self
                .0
                .compare_exchange_weak(seen, next, order, Ordering::Relaxed)
            {
                Ok(_) => return Ok(()),
                Err(now) if now != seen => return Err(now),
                // It failed for no reason.
                Err(_) => {}
            }
        }
    }

    /// Changes the word. Returns what it was, and what it is.
    fn change(&self, change: impl Fn(*mut ()) -> *mut ()) -> (*mut (), *mut ()) {
        // ORDER: Relaxed; the exchange decides.
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            let next = change(seen);
            // ORDER: Acquire pairs with the Release of whoever was here before: what it guards, the
            // line, and those that arrived. Release hands on the same.
            match self.exchange(seen, next, Ordering::AcqRel) {
                Ok(()) => return (seen, next),
                Err(now) => seen = now,
            }
        }
    }

    /// Takes a lock that is free and for which nobody waits. Whether it did.
    #[must_use]
    #[inline]
    pub(super) fn take(&self, holder: &Holder<M>) -> bool {
        // ORDER: Acquire pairs with the Release of `unlock`: what the lock guards.
        self.exchange(std::ptr::null_mut(), holder.raw, Ordering::Acquire)
            .is_ok()
    }

    /// Only who has the lock.
    #[inline]
    pub(super) fn unlock(&self) -> Unlocked<M> {
        // ORDER: Relaxed; the caller has the lock, so nobody else changes who has it.
        let seen = self.0.load(Ordering::Relaxed);
        let order = if M::breaks(Bug::LockUnlockRelaxed) {
            Ordering::Relaxed
        } else {
            Ordering::AcqRel
        };
        let plain = !has(seen, FLAGS);
        // ORDER: Release pairs with the Acquire of `take`: what the lock guards. Acquire pairs with the
        // Release of `leave`: whoever kept the line is done with the holder, which may now be freed.
        if plain && self.exchange(seen, std::ptr::null_mut(), order).is_ok() {
            return Unlocked::Free(Holder::of(seen));
        }
        let (before, _) = self.change(|seen| {
            let told = if has(seen, KEPT) { AGAIN } else { KEPT };
            with(seen, RELEASED | told)
        });
        if has(before, KEPT) {
            Unlocked::Told
        } else {
            Unlocked::Keep
        }
    }

    /// Something is to be done for those that wait.
    pub(super) fn kick(&self) -> Keeper {
        let (before, _) = self.change(|seen| {
            let told = if has(seen, KEPT) { AGAIN } else { KEPT };
            with(seen, CONTENDED | told)
        });
        if has(before, KEPT) {
            Keeper::Told
        } else {
            Keeper::Keep
        }
    }

    pub(super) fn is_locked(&self) -> bool {
        // ORDER: Relaxed; it may be otherwise at once.
        let seen = self.0.load(Ordering::Relaxed);
        !holder_of(seen).is_null() && !has(seen, RELEASED)
    }
}

/// Only who keeps the line.
impl<M: Machine> LockWord<M> {
    /// All that was told up to here is done next.
    pub(super) fn begin(&self) {
        let _ = self.change(|seen| without(seen, AGAIN));
    }

    /// The holder that has let go, if one has. The lock is free then.
    pub(super) fn take_released(&self) -> Option<Holder<M>> {
        // ORDER: Relaxed; `begin` saw it, or there is another turn.
        if !has(self.0.load(Ordering::Relaxed), RELEASED) {
            return None;
        }
        Some(self.take_back())
    }

    /// Nobody has the lock.
    pub(super) fn is_free(&self) -> bool {
        // ORDER: Relaxed; while the line is kept nobody else gives it to anybody.
        holder_of(self.0.load(Ordering::Relaxed)).is_null()
    }

    /// The task that has it, as long as the line is kept.
    pub(super) fn holder(&self) -> Option<TaskRef<M>> {
        // ORDER: Relaxed, as in `is_free`.
        let raw = holder_of(self.0.load(Ordering::Relaxed));
        (raw.addr() > NOBODY).then(|| as_task(raw))
    }

    /// Gives a free lock to somebody.
    pub(super) fn hand_to(&self, holder: Holder<M>) {
        let raw = holder.raw;
        holder.keep();
        // The flags are small numbers, and the address is the holder's.
        let _ = self.change(|seen| with(raw, seen.addr() & FLAGS));
    }

    /// Makes the lock free. The reference is the caller's.
    pub(super) fn take_back(&self) -> Holder<M> {
        let (before, _) =
            self.change(|seen| std::ptr::without_provenance_mut(seen.addr() & FLAGS & !RELEASED));
        Holder::of(holder_of(before))
    }

    /// Lets somebody else keep the line, if nothing is left to do.
    pub(super) fn leave(&self, is_empty: bool) -> LineLeft {
        // ORDER: Relaxed; the exchange decides.
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            if has(seen, AGAIN) && !M::breaks(Bug::LockLeaveBlind) {
                return LineLeft::Again;
            }
            let over = if is_empty { KEPT | CONTENDED } else { KEPT };
            // ORDER: Release pairs with the Acquire of who keeps it next: the line.
            match self.exchange(seen, without(seen, over | AGAIN), Ordering::AcqRel) {
                Ok(()) => return LineLeft::Done,
                Err(now) => seen = now,
            }
        }
    }
}
