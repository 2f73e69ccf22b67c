//! A lock between tasks, handed to the most urgent one that waits. See README.md for the protocol.
//!
//! Who holds it inherits while somebody on a scheduler above waits.
//!
//! | file | holds |
//! |---|---|
//! | `mod.rs` | lock, unlock, and how one awaits |
//! | `word.rs` | the word: who holds it, and what is to be done |
//! | `turn.rs` | one that waits: its word, its waker |
//! | `line.rs` | those that wait, and who is the next |

mod line;
#[cfg(test)]
mod loom;
#[cfg(test)]
mod tests;
mod turn;
mod word;

use crate::task::TaskRef;
use doorbell_machine::{Cell, Machine};
use line::Line;
use std::task::{Context, Poll};
use turn::{Given, Half, Turn, TurnSeen, Withdrawn};
use word::{Holder, Keeper, LineLeft, LockWord, Unlocked};

/// Whether a lock was free.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryLock {
    /// It is the caller's now.
    Locked,
    /// Somebody has it, or waits for it.
    Busy,
}

/// A lock between tasks, without what it guards.
pub struct RawLock<M: Machine> {
    word: LockWord<M>,
    /// Those that came and are not in the line yet.
    arrivals: turn::Arrivals<M>,
    /// Of who keeps the line (`KEPT` in the word).
    line: M::Cell<Line<M>>,
}

// SAFETY: the line is used by who keeps it, one at a time; all else is atomics.
unsafe impl<M: Machine> Send for RawLock<M> {}
// SAFETY: as for Send.
unsafe impl<M: Machine> Sync for RawLock<M> {}

impl<M: Machine> std::fmt::Debug for RawLock<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RawLock")
            .field("locked", &self.is_locked())
            .finish_non_exhaustive()
    }
}

impl<M: Machine> Default for RawLock<M> {
    fn default() -> Self {
        RawLock {
            word: LockWord::new(),
            arrivals: turn::Arrivals::new(),
            line: M::Cell::new(Line::new()),
        }
    }
}

/// One that waits for a lock, from its first look until it has it. To be given to
/// [`RawLock::withdraw`] before it goes away.
#[derive(Debug)]
pub struct Wait<M: Machine>(Option<Half<M>>);

impl<M: Machine> Default for Wait<M> {
    fn default() -> Self {
        Wait(None)
    }
}

impl<M: Machine> RawLock<M> {
    /// Locks if it is free and nobody waits.
    #[inline]
    pub fn try_lock(&self) -> TryLock {
        let holder = Holder::here();
        if self.word.take(&holder) {
            holder.keep();
            TryLock::Locked
        } else {
            TryLock::Busy
        }
    }

    /// Whether somebody has it.
    pub fn is_locked(&self) -> bool {
        self.word.is_locked()
    }

    /// Locks, or waits. `urgency` says who is first: the higher first, and the older of two.
    ///
    /// `Ready` means that the lock is the caller's, to be given to [`RawLock::unlock`].
    pub fn poll_lock(&self, wait: &mut Wait<M>, urgency: u8, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(turn) = &wait.0 {
            return match turn.look_again(urgency, cx.waker()) {
                TurnSeen::Granted => {
                    wait.0 = None;
                    Poll::Ready(())
                }
                TurnSeen::Waits => Poll::Pending,
                TurnSeen::MoreUrgent => {
                    self.kick();
                    Poll::Pending
                }
            };
        }
        if self.try_lock() == TryLock::Locked {
            return Poll::Ready(());
        }
        let [turn, other] = Turn::shared(urgency, cx.waker().clone());
        self.arrivals.push(other);
        wait.0 = Some(turn);
        self.kick();
        // The lock may have been free meanwhile.
        match wait.0.as_ref().map(|turn| turn.is_granted()) {
            Some(true) => {
                wait.0 = None;
                Poll::Ready(())
            }
            _ => Poll::Pending,
        }
    }

    /// Waits no more. A lock that was granted meanwhile goes on to the next.
    pub fn withdraw(&self, wait: &mut Wait<M>) {
        let Some(turn) = wait.0.take() else { return };
        match turn.withdraw() {
            Withdrawn::InTime => self.kick(),
            // SAFETY: it was granted to this one, which does not use it.
            Withdrawn::Granted => unsafe { self.unlock() },
        }
    }

    /// Lets go of the lock; whoever is next has it at once.
    ///
    /// # Safety
    /// The caller has it.
    #[inline]
    pub unsafe fn unlock(&self) {
        match self.word.unlock() {
            Unlocked::Free(holder) => drop(holder),
            Unlocked::Told => {}
            Unlocked::Keep => self.keep_line(),
        }
    }

    /// Something is to be done for those that wait.
    fn kick(&self) {
        match self.word.kick() {
            Keeper::Told => {}
            Keeper::Keep => self.keep_line(),
        }
    }

    /// Does what is to be done, until nothing is left. The caller has just set `KEPT`.
    #[cold]
    fn keep_line(&self) {
        loop {
            self.word.begin();
            let leave = self.line.with_mut(|line| {
                // SAFETY: KEPT makes it the caller's. Nothing in here calls what a user wrote but
                // wakers, which may come back to the lock, and find KEPT.
                let line = unsafe { &mut *line };
                self.arrivals.take(|turn| line.append(turn));
                if let Some(holder) = self.word.take_released() {
                    line.disinherit(holder.task());
                    drop(holder);
                }
                let granted = self.grant_next(line);
                let is_empty = line.is_empty();
                if is_empty {
                    // Who waited has given up: nobody would look again when it is unlocked.
                    line.disinherit(self.word.holder());
                } else {
                    line.inherit(self.word.holder());
                }
                (granted, is_empty)
            });
            // Outside of the cell: a waker may drop what waits for this lock.
            let (granted, is_empty) = leave;
            if let Some(waker) = granted {
                crate::quiet::wake_quietly(waker);
            }
            match self.word.leave(is_empty) {
                LineLeft::Done => return,
                LineLeft::Again => {}
            }
        }
    }

    /// Gives a free lock to the most urgent one. The waker of who has it now, if it sleeps.
    fn grant_next(&self, line: &mut Line<M>) -> Option<std::task::Waker> {
        while self.word.is_free() {
            let turn = line.take_next()?;
            self.word.hand_to(turn.take_holder());
            match turn.give() {
                Given::Wake(waker) => return Some(waker),
                Given::Looks => return None,
                Given::Withdrawn => drop(self.word.take_back()),
            }
        }
        None
    }
}

impl<M: Machine> Drop for RawLock<M> {
    fn drop(&mut self) {
        // Of a guard that was forgotten.
        drop(self.word.take_back());
        // Of futures that were forgotten.
        self.arrivals.take(drop);
    }
}

/// A task as a lock knows it, with a reference.
fn as_task<M: Machine>(raw: *mut ()) -> TaskRef<M> {
    // SAFETY: made by `TaskRef::as_raw` in `Holder`, with a reference that is still there.
    unsafe { TaskRef::from_raw(raw) }
}
