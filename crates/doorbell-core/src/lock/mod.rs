//! A lock between tasks, granted to the most urgent waiting task. See README.md for the protocol.
//!
//! The task that holds the lock inherits while a task on a scheduler above waits for it.
//!
//! | file | holds |
//! |---|---|
//! | `mod.rs` | lock, wait, unlock, and the work of the keeper |
//! | `word.rs` | the word: which task holds the lock, and what the keeper has to do |
//! | `turn.rs` | one waiting task: its word, its waker |
//! | `line.rs` | the waiting tasks, and which one is next |

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

/// The result of [`RawLock::try_lock`].
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryLock {
    /// The caller has the lock.
    Locked,
    /// A task has the lock, waits for it, or is about to get it.
    Busy,
}

/// A lock between tasks, without the value that it guards.
pub struct RawLock<M: Machine> {
    word: LockWord<M>,
    /// Turns that are not in the line yet.
    arrivals: turn::Arrivals<M>,
    /// Belongs to the thread that set `KEPT` in the word: the keeper.
    line: M::Cell<Line<M>>,
}

// SAFETY: only the keeper uses the line, and there is one at a time; all else is atomics.
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

/// The state of a future that waits for a lock. Pass it to [`RawLock::withdraw`] before it is dropped.
#[derive(Debug)]
pub struct Wait<M: Machine>(Option<Half<M>>);

impl<M: Machine> Default for Wait<M> {
    fn default() -> Self {
        Wait(None)
    }
}

impl<M: Machine> RawLock<M> {
    /// Locks if the lock is free and no task waits.
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

    /// Whether a task has the lock; by now it may have let go.
    pub fn is_locked(&self) -> bool {
        self.word.is_locked()
    }

    /// Locks, or waits. The task with the highest `urgency` is granted the lock first, the oldest among
    /// equals. A later poll may raise the urgency.
    ///
    /// `Ready` means that the caller has the lock and must call [`RawLock::unlock`].
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
        // If the holder let go meanwhile, this kick or another keeper has granted the lock already.
        match wait.0.as_ref().map(|turn| turn.is_granted()) {
            Some(true) => {
                wait.0 = None;
                Poll::Ready(())
            }
            _ => Poll::Pending,
        }
    }

    /// Stops waiting. If the lock was granted meanwhile, it goes on to the next task.
    pub fn withdraw(&self, wait: &mut Wait<M>) {
        let Some(turn) = wait.0.take() else { return };
        match turn.withdraw() {
            Withdrawn::InTime => self.kick(),
            // SAFETY: the lock was granted to this future, which does not use it.
            Withdrawn::Granted => unsafe { self.unlock() },
        }
    }

    /// Lets go of the lock, which goes to the next task in the line.
    ///
    /// # Safety
    /// The caller has the lock.
    #[inline]
    pub unsafe fn unlock(&self) {
        match self.word.unlock() {
            Unlocked::Free(holder) => drop(holder),
            Unlocked::Told => {}
            Unlocked::Keep => self.keep_line(),
        }
    }

    /// The line has changed: the keeper attends to it, or the caller becomes the keeper.
    fn kick(&self) {
        match self.word.kick() {
            Keeper::Told => {}
            Keeper::Keep => self.keep_line(),
        }
    }

    /// Does the keeper's work until nothing is left. The caller has just set `KEPT`.
    #[cold]
    fn keep_line(&self) {
        loop {
            self.word.begin();
            let leave = self.line.with_mut(|line| {
                // SAFETY: the caller set KEPT, so the line is the caller's. The only user code in here is
                // drops (of wakers, and of the holder's task); they may come back to the lock, and then
                // find KEPT.
                let line = unsafe { &mut *line };
                self.arrivals.take(|turn| line.append(turn));
                if let Some(holder) = self.word.take_released() {
                    line.disinherit(holder.task());
                    drop(holder);
                }
                let granted = self.grant_next(line);
                let is_empty = line.is_empty();
                if is_empty {
                    // The tasks that waited have gone. `leave` clears CONTENDED, and then the holder's
                    // unlock would not end what it inherits.
                    line.disinherit(self.word.holder());
                } else {
                    line.inherit(self.word.holder());
                }
                (granted, is_empty)
            });
            // Outside of the cell: a waker may drop a future that waits for this lock.
            let (granted, is_empty) = leave;
            if let Some(waker) = granted {
                crate::quiet::wake_quietly::<M>(waker);
            }
            match self.word.leave(is_empty) {
                LineLeft::Done => return,
                LineLeft::Again => {}
            }
        }
    }

    /// Grants a free lock to the most urgent turn. Returns its waker, unless its future is looking.
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
        // The holder of a guard that was forgotten.
        drop(self.word.take_back());
        // The turns of futures that were forgotten.
        self.arrivals.take(drop);
    }
}

/// The task at an address that a lock's word or a turn stores.
fn as_task<M: Machine>(raw: *mut ()) -> TaskRef<M> {
    // SAFETY: made by `TaskRef::as_raw` in `Holder`, whose reference still exists.
    unsafe { TaskRef::from_raw(raw) }
}
