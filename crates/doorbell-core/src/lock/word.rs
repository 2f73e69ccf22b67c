//! The word of a lock: the holder's address, and flags in the bits below it.
//!
//! | bits | name | meaning |
//! |---|---|---|
//! | 0 | `CONTENDED` | a task waits or arrives: to unlock, one exchange is not enough |
//! | 1 | `KEPT` | a thread keeps the line: the keeper |
//! | 2 | `AGAIN` | the keeper has more to do |
//! | 3 | `RELEASED` | the holder has let go; the keeper grants the lock to the next task |
//! | 4.. | holder | the task that has the lock, with a reference; `NOBODY` for one that cannot inherit; 0 for none |

use super::as_task;
use crate::task::TaskRef;
use doorbell_machine::{Bug, Machine, Ordering, PtrWord};
use std::marker::PhantomData;

const CONTENDED: usize = 1 << 0;
const KEPT: usize = 1 << 1;
const AGAIN: usize = 1 << 2;
const RELEASED: usize = 1 << 3;
const FLAGS: usize = CONTENDED | KEPT | AGAIN | RELEASED;
/// The holder cannot inherit: it is no task, is pinned, or has no scheduler above it. No task lies at this
/// address.
const NOBODY: usize = 1 << 4;

// The table above. A task is aligned to 16.
const _: () = assert!(FLAGS == 0b1111 && NOBODY == FLAGS + 1);

/// The holder of a lock, now or after a grant. Owns a reference if it is a task that can inherit.
#[derive(Debug)]
pub(super) struct Holder<M: Machine> {
    raw: *mut (),
    machine: PhantomData<fn(M)>,
}

impl<M: Machine> Holder<M> {
    /// The caller as a holder.
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

    /// Leaves the reference to the word.
    pub(super) fn keep(self) {
        std::mem::forget(self);
    }

    /// The task; `None` for `NOBODY` and for no holder.
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

/// What the unlocking caller has to do.
#[must_use]
#[derive(Debug)]
pub(super) enum Unlocked<M: Machine> {
    /// Release the holder's reference: the lock is free, and no task waits.
    Free(Holder<M>),
    /// Nothing: the keeper grants the lock to the next task.
    Told,
    /// Keep the line.
    Keep,
}

/// Which caller does the keeper's work.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keeper {
    /// The one that keeps the line already: another thread, or a caller further up this stack.
    Told,
    /// This one, which is the keeper now.
    Keep,
}

/// Whether the keeper is done.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineLeft {
    /// It has left the line: another thread may keep it.
    Done,
    /// It still keeps the line, and has more to do.
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

    /// One compare-exchange, retried if it fails spuriously. `Err` holds the word found if it was not `seen`.
    #[inline]
    fn exchange(&self, seen: *mut (), next: *mut (), order: Ordering) -> Result<(), *mut ()> {
        loop {
            // ORDER: the caller's; Relaxed on failure, after which the caller retries or gives up.
            match self
                .0
                .compare_exchange_weak(seen, next, order, Ordering::Relaxed)
            {
                Ok(_) => return Ok(()),
                Err(now) if now != seen => return Err(now),
                Err(_) => {}
            }
        }
    }

    /// Changes the word. Returns it as it was before and after.
    fn change(&self, change: impl Fn(*mut ()) -> *mut ()) -> (*mut (), *mut ()) {
        // ORDER: Relaxed; the exchange decides.
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            let next = change(seen);
            // ORDER: Acquire pairs with the Release of the previous exchanges of this word: what the lock
            // guards, the line, and the arrivals. Release publishes the same to the next one.
            match self.exchange(seen, next, Ordering::AcqRel) {
                Ok(()) => return (seen, next),
                Err(now) => seen = now,
            }
        }
    }

    /// Takes the lock if it is free and no task waits. Returns whether it did.
    #[must_use]
    #[inline]
    pub(super) fn take(&self, holder: &Holder<M>) -> bool {
        // ORDER: Acquire pairs with the Release of `unlock`: what the lock guards.
        self.exchange(std::ptr::null_mut(), holder.raw, Ordering::Acquire)
            .is_ok()
    }

    /// The caller has the lock.
    #[inline]
    pub(super) fn unlock(&self) -> Unlocked<M> {
        // ORDER: Relaxed; the caller has the lock, so no other thread changes the holder.
        let seen = self.0.load(Ordering::Relaxed);
        let plain = !has(seen, FLAGS);
        // ORDER: Release pairs with the Acquire of `take`: what the lock guards. Acquire pairs with the
        // Release of `leave`: the last keeper is done with the holder, which may now be freed.
        if plain
            && self
                .exchange(seen, std::ptr::null_mut(), Ordering::AcqRel)
                .is_ok()
        {
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

    /// The line has changed: tells the keeper, or makes the caller the keeper.
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
        // ORDER: Relaxed; the answer may be outdated at once.
        let seen = self.0.load(Ordering::Relaxed);
        !holder_of(seen).is_null() && !has(seen, RELEASED)
    }
}

/// For the keeper only.
impl<M: Machine> LockWord<M> {
    /// Clears `AGAIN`: the round that follows does all that the keeper was told of up to here.
    pub(super) fn begin(&self) {
        let _ = self.change(|seen| without(seen, AGAIN));
    }

    /// Takes the holder out of the word if it has let go.
    pub(super) fn take_released(&self) -> Option<Holder<M>> {
        // ORDER: Relaxed; `begin` saw the flag, or AGAIN was set with it and another round follows.
        if !has(self.0.load(Ordering::Relaxed), RELEASED) {
            return None;
        }
        Some(self.take_back())
    }

    /// Whether the word has no holder.
    pub(super) fn is_free(&self) -> bool {
        // ORDER: Relaxed; while the line is kept, only the keeper changes the holder.
        holder_of(self.0.load(Ordering::Relaxed)).is_null()
    }

    /// The task in the word, if it can inherit. It stays there as long as the line is kept.
    pub(super) fn holder(&self) -> Option<TaskRef<M>> {
        // ORDER: Relaxed, as in `is_free`.
        let raw = holder_of(self.0.load(Ordering::Relaxed));
        (raw.addr() > NOBODY).then(|| as_task(raw))
    }

    /// Writes the holder into the word of a free lock.
    pub(super) fn hand_to(&self, holder: Holder<M>) {
        let raw = holder.raw;
        holder.keep();
        // The flags are added to the holder's pointer, not the other way, so that it keeps its provenance.
        let _ = self.change(|seen| with(raw, seen.addr() & FLAGS));
    }

    /// Takes the holder, with its reference, out of the word, and clears `RELEASED`.
    pub(super) fn take_back(&self) -> Holder<M> {
        let (before, _) =
            self.change(|seen| std::ptr::without_provenance_mut(seen.addr() & FLAGS & !RELEASED));
        Holder::of(holder_of(before))
    }

    /// Leaves the line, unless there is more to do.
    pub(super) fn leave(&self, is_empty: bool) -> LineLeft {
        // ORDER: Relaxed; the exchange decides.
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            if has(seen, AGAIN) && !M::breaks(Bug::LockLeaveBlind) {
                return LineLeft::Again;
            }
            let over = if is_empty { KEPT | CONTENDED } else { KEPT };
            // ORDER: Release pairs with the Acquire of `kick` and `unlock`, which make the next keeper or
            // free the holder: the line, and the use of the holder.
            match self.exchange(seen, without(seen, over | AGAIN), Ordering::AcqRel) {
                Ok(()) => return LineLeft::Done,
                Err(now) => seen = now,
            }
        }
    }
}
