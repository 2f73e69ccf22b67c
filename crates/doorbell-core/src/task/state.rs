//! The state word of a task: all transitions, nothing else.
//!
//! ```text
//!                 2 wake, 3 cancel, 11 wake_delegated
//!         ┌──────────────────────────────────────────────────┐
//!         │                                                  ▼
//!   ┌──────────┐   10 delegate   ┌────────────────┐ 11  ┌──────────┐ 1 new
//!   │   idle   │────────────────▶│ idle,          │────▶│  queued  │◀───────
//!   └──────────┘                 │ DELEGATED      │     │ SCHEDULED│
//!         ▲                      └────────────────┘     └──────────┘
//!         │ 5 pause: no wake since 4                     │        ▲
//!         │                                      4 start │        │ 5 pause: woken since 4
//!   ┌────────────────────────────────────────────────────▼───────────────┐
//!   │ running: RUNNING; a wake (2, 3, 10) or a seizure (7) sets SCHEDULED│
//!   └────────────────────────────────────────────────────────────────────┘
//!         │ 6 complete (also after 5 or 7 said to drop the future)
//!         ▼
//!   ┌──────────┐
//!   │ complete │  RUNNING and COMPLETE stay set; no later transition queues it
//!   └──────────┘
//! ```
//!
//! | number, as at its function | transition | by |
//! |---|---|---|
//! | 1 | `new`: queued | the thread that spawns |
//! | 2 | `wake`: sets `SCHEDULED`; if the task was idle, the waker queues it | any waker that is not of a lower class |
//! | 3 | `cancel`: as 2, with `CANCELLED` | as 2 |
//! | 4 | `start`, `start_late`: `SCHEDULED` to `RUNNING`, with `BEHIND` if by the raised node | the worker that took a node |
//! | 5 | `pause`: clears `RUNNING`, unless it was cancelled | the worker that polled it |
//! | 6 | `complete`: sets `COMPLETE` | the worker that polled or cancelled it |
//! | 7 | `seize`: sets `SEIZED` and `CANCELLED` | the home worker, as it ends |
//! | 8 | `leave`: sets `LEFT` | the holder of the worker's reference that cannot hand it on |
//! | 9 | `raise`, `take_back`: sets and clears `RAISED` | the thread that queues the raised node; the worker that took it |
//! | 10 | `delegate`: sets `DELEGATED`; on a task that is queued or runs as 2 | a waker of a lower class |
//! | 11 | `wake_delegated`: clears `DELEGATED`, then as 2 | a worker of the task, for the parcel |
//! | 12 | `inherit_by_lock`, `disinherit_by_lock`: change `LOCK_ABOVE` and `LOCKS` | a task that waits for the lock; the holder |
//! | 13 | `leave_waker`, `reclaim_waker`, `drop_join`: change `JOIN_WAKER`, `JOIN_ABOVE`, `JOIN` | the join handle |
//! | 14 | `retain`, `release`, `settle`: change the count of references | each holder |
//!
//! | bits | name | meaning |
//! |---|---|---|
//! | 0 | `SCHEDULED` | it is in a queue, or will be queued when its poll ends |
//! | 1 | `RUNNING` | a worker polls or ends it; stays set after completion |
//! | 2 | `COMPLETE` | its output is stored; it is never queued again |
//! | 3 | `CANCELLED` | the next run drops the future instead of polling it |
//! | 4 | `JOIN` | a join handle exists |
//! | 5 | `JOIN_WAKER` | the join handle's waker is in the waker cell; once `COMPLETE`, it belongs to the worker |
//! | 6 | `SEIZED` | its home worker has ended; it has dropped the future, or the worker that polls the task will |
//! | 7 | `LEFT` | the worker's reference could not be handed on; unless already `SEIZED`, the home worker drops it |
//! | 8 | `BEHIND` | a run began by the raised node while the own node was still in a queue |
//! | 9 | `RAISED` | the raised node is in a queue of a scheduler above, or about to be, and holds a reference |
//! | 10..12 | `JOIN_ABOVE` | the level from which the join handle awaits it; 0 for none ([`Above`]) |
//! | 12..14 | `LOCK_ABOVE` | the highest level from which tasks wait for locks that it holds |
//! | 14..22 | `LOCKS` | the number of those locks, at most 255 |
//! | 22 | `DELEGATED` | a parcel is on its way to a worker that will wake it, and holds a reference |
//! | 23..64 | refs | references: the worker's, the join handle's, the raised node's, the parcel's, one per waker |
//!
//! All changes are read-modify-writes, so all threads see them in one order. This file has those of every task
//! and of its join handle; `state_inheritance.rs` has those of tasks that are awaited from above, and
//! `state_delegate.rs` those of wakes by threads of a lower class.

use super::state_inheritance::Above;
use doorbell_machine::{Bug, Machine, Ordering, Word};

pub(crate) const SCHEDULED: u64 = 1 << 0;
pub(crate) const RUNNING: u64 = 1 << 1;
pub(crate) const COMPLETE: u64 = 1 << 2;
pub(crate) const CANCELLED: u64 = 1 << 3;
pub(crate) const JOIN: u64 = 1 << 4;
pub(crate) const JOIN_WAKER: u64 = 1 << 5;
pub(crate) const SEIZED: u64 = 1 << 6;
pub(crate) const LEFT: u64 = 1 << 7;
pub(crate) const BEHIND: u64 = 1 << 8;
pub(crate) const RAISED: u64 = 1 << 9;
pub(crate) const JOIN_ABOVE: u64 = 0b11 << 10;
pub(crate) const LOCK_ABOVE: u64 = 0b11 << 12;
pub(crate) const LOCKS: u64 = 0xFF << 14;
pub(crate) const ONE_LOCK: u64 = 1 << 14;
/// Not zero if the task is awaited from above.
pub(crate) const INHERITS: u64 = JOIN_ABOVE | LOCK_ABOVE;
/// If one of these is set, a wake queues nothing.
pub(crate) const BUSY: u64 = SCHEDULED | RUNNING | COMPLETE;
pub(crate) const DELEGATED: u64 = 1 << 22;
const REF_SHIFT: u32 = 23;
pub(crate) const ONE_REF: u64 = 1 << REF_SHIFT;
/// A higher count means that a loop leaks wakers. The process aborts before the count can wrap.
const REFS_MAX: u64 = 1 << 40;

// As in the table above: no two share a bit, and all are below the count.
const _: () = assert!(SCHEDULED + RUNNING + COMPLETE + CANCELLED + JOIN + JOIN_WAKER == 0b11_1111);
const _: () = assert!(SEIZED + LEFT == 0b1100_0000 && BEHIND + RAISED == 0b11 << 8);
const _: () = assert!(INHERITS == 0b1111 << 10 && LOCKS == 255 << 14);
const _: () = assert!(DELEGATED == LOCKS + ONE_LOCK && ONE_REF == DELEGATED << 1);

/// What a wake has to do.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    /// Put the own node into a queue; no other thread will.
    Submit,
    /// Raise the task to the scheduler above that awaits it, if one does. `submit`: the own node is in no queue, so
    /// put it into one too.
    Raise { submit: bool },
    /// Nothing: the task is queued, or will be when its poll ends, or is complete.
    Nothing,
}

/// The node by which a task is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    Own,
    Raised,
}

/// How a run begins.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// Poll the future.
    Poll,
    /// Drop the future.
    Cancel,
    /// Nothing: the task runs elsewhere, or has run since this node was queued.
    Late,
    /// Only by the own node: the task is complete, or its home worker has ended and drops the future. The caller
    /// disposes of the worker's reference.
    Over,
}

/// Where the own node of a task is that its home worker seizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnNode {
    /// In a queue, or about to be.
    Queued,
    Free,
}

/// What a worker that ends has to do with a task of its list.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seized {
    /// Drop the future, then a reference: the worker's or, if the own node is queued, an extra one that `seize` counted.
    Mine(OwnNode),
    /// Nothing: another worker polls the task, or has completed it. The worker's reference is dropped there.
    Elsewhere,
    /// Drop the worker's reference, which was left (`LEFT`). Otherwise as `Elsewhere`.
    ElsewhereAndLeft,
}

/// Which thread drops a worker's reference that could not be handed on.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// The home worker, when it seizes the task.
    ToHome,
    /// The caller: the home worker has seized the task already.
    ToCaller,
}

/// How a poll that returned `Pending` ends.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    /// The task waits for a wake.
    Idle,
    /// It was woken during the poll.
    Woken(Wake),
    /// It was cancelled during the poll: drop the future. `RUNNING` is still set.
    Cancel,
}

/// What the worker has to do for the join handle when the output is stored.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Completed {
    /// Drop the output: there is no handle.
    DropOutput,
    /// Nothing: the handle has left no waker, so it will look again itself.
    Nothing,
    /// Take the waker out of the cell, which is the worker's now, and wake it.
    WakeJoiner,
}

/// Whether a reference was the last.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Released {
    /// Free the task.
    Last,
    /// There are other references.
    More,
}

#[derive(Debug)]
pub(crate) struct State<M: Machine>(pub(crate) M::U64);

impl<M: Machine> State<M> {
    /// (1) A task that is about to be queued, with two references: the worker's and the join handle's.
    pub(crate) fn new() -> Self {
        State(M::U64::new(SCHEDULED | JOIN | (2 * ONE_REF)))
    }

    /// (2) Marks the task to be polled.
    #[inline]
    pub(crate) fn wake(&self) -> Wake {
        // ORDER: Release pairs with the Acquire of `start`: the poll sees what the waker did before, even if the
        // task was queued already. Acquire pairs with the Release of `pause`: the node has left its queue.
        Self::submit_if_idle(self.0.fetch_or(SCHEDULED, Ordering::AcqRel))
    }

    /// (3) Marks the task to be cancelled.
    pub(crate) fn cancel(&self) -> Wake {
        // ORDER: AcqRel as in `wake`.
        Self::submit_if_idle(self.0.fetch_or(SCHEDULED | CANCELLED, Ordering::AcqRel))
    }

    #[inline]
    pub(crate) fn submit_if_idle(before: u64) -> Wake {
        let busy = if M::breaks(Bug::TaskSubmitWhileRunning) {
            SCHEDULED | COMPLETE
        } else {
            BUSY
        };
        if before & (busy | BEHIND | INHERITS) == 0 {
            Wake::Submit
        } else if before & busy == 0 {
            let submit = before & BEHIND == 0;
            Wake::Raise { submit }
        } else {
            Wake::Nothing
        }
    }

    /// (4) From queued to running. The caller took this node from its queue.
    #[inline]
    pub(crate) fn start(&self, by: By) -> Start {
        let behind = match by {
            By::Own => 0,
            By::Raised => BEHIND,
        };
        // ORDER: Relaxed; the exchange decides.
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            if seen & BUSY != SCHEDULED {
                match self.start_late(by, seen) {
                    Ok(start) => return start,
                    Err(now) => seen = now,
                }
                continue;
            }
            // ORDER: Acquire pairs with the Release of the wakes and of the last `pause`, on any worker. Relaxed on
            // failure.
            match self.0.compare_exchange(
                seen,
                (seen & !(SCHEDULED | BEHIND)) | RUNNING | behind,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) if seen & CANCELLED == 0 => return Start::Poll,
                Ok(_) => return Start::Cancel,
                Err(now) => seen = now,
            }
        }
    }

    /// (7) Seizes the task. The caller is its home worker, which ends.
    pub(crate) fn seize(&self) -> Seized {
        // ORDER: Relaxed; the exchange decides.
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            let elsewhere = if seen & LEFT == 0 {
                Seized::Elsewhere
            } else {
                Seized::ElsewhereAndLeft
            };
            let (next, what) = if seen & COMPLETE != 0 {
                (seen | SEIZED, elsewhere)
            } else if seen & RUNNING != 0 && !M::breaks(Bug::TaskSeizeRunning) {
                (seen | SEIZED | CANCELLED | SCHEDULED, elsewhere)
            } else {
                // No worker polls it after this, so its own node is behind no run.
                let next = (seen & !BEHIND) | SEIZED | CANCELLED | RUNNING;
                let is_queued = seen & (SCHEDULED | BEHIND) != 0 && seen & LEFT == 0;
                if is_queued {
                    (next + ONE_REF, Seized::Mine(OwnNode::Queued))
                } else {
                    (next, Seized::Mine(OwnNode::Free))
                }
            };
            // ORDER: Acquire pairs with the Release of the last `pause`, as in `start`, and of `leave`. Release
            // pairs with the Acquire of `release`: a worker that finds the task seized releases it, and frees it
            // only after what this worker did.
            match self
                .0
                .compare_exchange(seen, next, Ordering::AcqRel, Ordering::Relaxed)
            {
                Ok(_) => return what,
                Err(now) => seen = now,
            }
        }
    }

    /// (8) Leaves the worker's reference to the home worker. The caller holds it and could not hand it on.
    pub(crate) fn leave(&self) -> Left {
        if M::breaks(Bug::TaskLeaveForgotten) {
            return Left::ToHome;
        }
        // ORDER: Release pairs with the Acquire of `seize`: the home worker frees the task after what this one did.
        // If the home worker came first, the caller's `release` acquires what the home worker did.
        if self.0.fetch_or(LEFT, Ordering::Release) & SEIZED == 0 {
            Left::ToHome
        } else {
            Left::ToCaller
        }
    }

    /// (5) From running to idle or queued. A task that was cancelled during the poll stays RUNNING, for the caller to
    /// end: possibly no worker will take its own node again.
    #[inline]
    pub(crate) fn pause(&self) -> Pause {
        // ORDER: Acquire pairs with the Release of `seize`, `cancel` and `delegate`, before the future is dropped,
        // and with that of `start_late`: the own node has left its queue.
        let mut seen = self.0.load(Ordering::Acquire);
        loop {
            // Every transition that cancels a running task sets SCHEDULED too.
            let pause = if seen & SCHEDULED == 0 || M::breaks(Bug::TaskForgetWake) {
                Pause::Idle
            } else if seen & CANCELLED != 0 && !M::breaks(Bug::TaskPauseBlind) {
                return Pause::Cancel;
            } else {
                Pause::Woken(Self::submit_if_idle(seen & !BUSY))
            };
            // ORDER: Release pairs with the Acquire of the next `start`, on any thread. That `start` also sees what
            // a wake during the poll published: this exchange continues its release sequence. Acquire on failure as
            // above.
            match self.0.compare_exchange(
                seen,
                seen & !RUNNING,
                Ordering::Release,
                Ordering::Acquire,
            ) {
                Ok(_) => return pause,
                Err(now) => seen = now,
            }
        }
    }

    /// Whether its home worker has ended, so the task is in no list. The caller holds the worker's reference.
    #[inline]
    pub(crate) fn is_seized(&self) -> bool {
        // ORDER: Relaxed; a worker that finds it seized only calls `release`, which acquires.
        self.0.load(Ordering::Relaxed) & SEIZED != 0
    }

    /// (6) The output is stored. The caller is the worker that runs the task.
    #[inline]
    pub(crate) fn complete(&self) -> Completed {
        // ORDER: Release pairs with the Acquire of the join side, which sees the output. Acquire pairs with the
        // Release of `leave_waker`: the worker sees the waker.
        let before = self.0.fetch_or(COMPLETE, Ordering::AcqRel);
        if before & JOIN == 0 {
            Completed::DropOutput
        } else if before & JOIN_WAKER != 0 {
            Completed::WakeJoiner
        } else {
            Completed::Nothing
        }
    }

    /// Whether the output is stored.
    #[inline]
    pub(crate) fn is_complete(&self) -> bool {
        // ORDER: Acquire pairs with the Release of `complete`.
        self.0.load(Ordering::Acquire) & COMPLETE != 0
    }

    /// (14) Adds a reference.
    #[inline]
    pub(crate) fn retain(&self) {
        // ORDER: Relaxed; the caller holds a reference, so the task stays. Whatever hands the new one to another
        // thread orders that.
        let before = self.0.fetch_add(ONE_REF, Ordering::Relaxed);
        if before >= REFS_MAX << REF_SHIFT {
            // As std's Arc: the count would wrap, and the task be freed while in use.
            std::process::abort();
        }
    }

    /// (14) Adds `count` references, which may be negative. The caller holds another, counted one.
    #[cold]
    pub(crate) fn add_refs(&self, count: isize) {
        let refs = (count as u64).wrapping_mul(ONE_REF);
        // ORDER: Relaxed as in `retain`. References that this subtracts were used by this thread alone, which gives
        // up its own by `release` or at the end of the poll.
        let before = self.0.fetch_add(refs, Ordering::Relaxed);
        let after = before.wrapping_add(refs) >> REF_SHIFT;
        debug_assert!(after > 0, "the worker's own reference is counted");
        if after > REFS_MAX {
            std::process::abort();
        }
    }

    /// The number of references.
    #[cfg(test)]
    pub(crate) fn refs(&self) -> u64 {
        // ORDER: Relaxed; tests read it on the thread that changes it.
        self.0.load(Ordering::Relaxed) >> REF_SHIFT
    }

    /// (14) Drops a reference.
    #[inline]
    pub(crate) fn release(&self) -> Released {
        // ORDER: Release pairs with the Acquire of the last `release`, which sees what all other holders did and then
        // frees the task.
        let before = self.0.fetch_sub(ONE_REF, Ordering::AcqRel);
        debug_assert!(before >> REF_SHIFT > 0);
        if before >> REF_SHIFT == 1 {
            Released::Last
        } else {
            Released::More
        }
    }

    /// What the task does now.
    pub(crate) fn phase(&self) -> super::Phase {
        // ORDER: Acquire pairs with the Release of `complete`: a caller that sees Complete sees what the task did.
        let now = self.0.load(Ordering::Acquire);
        if now & COMPLETE != 0 {
            super::Phase::Complete
        } else if now & RUNNING != 0 {
            super::Phase::Running
        } else if now & SCHEDULED != 0 {
            super::Phase::Queued
        } else {
            super::Phase::Idle
        }
    }
}

#[cfg(test)]
impl<M: Machine> State<M> {
    /// A state with that word, for tests that enumerate words.
    pub(crate) fn at(word: u64) -> Self {
        State(M::U64::new(word))
    }

    /// The word.
    pub(crate) fn word(&self) -> u64 {
        // ORDER: Relaxed; tests read it while no other thread has the task.
        self.0.load(Ordering::Relaxed)
    }
}

/// What a join handle finds.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Joined {
    /// The output is the handle's.
    Complete,
    /// Not ready: the handle may write the waker cell.
    CellIsMine,
}

/// What a join handle finds when it leaves its waker.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WakerLeft {
    /// The task is complete: the waker was not left. The output and the waker cell are the handle's.
    Complete,
    /// The waker was left.
    Waits,
    /// The waker was left, and the task's inherited level has risen.
    Raised,
}

/// What a join handle has to do when it is dropped.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JoinDropped {
    /// Drop the waker in the cell; the task runs on.
    DropWaker,
    /// Drop the output.
    DropOutput,
}

impl<M: Machine> State<M> {
    /// (13) The join handle takes the waker cell back, unless the task is complete.
    pub(crate) fn reclaim_waker(&self) -> Joined {
        // ORDER: Acquire pairs with the Release of `complete`.
        let mut seen = self.0.load(Ordering::Acquire);
        loop {
            if seen & COMPLETE != 0 {
                return Joined::Complete;
            }
            if seen & JOIN_WAKER == 0 || M::breaks(Bug::TaskJoinWakerBlind) {
                return Joined::CellIsMine;
            }
            // ORDER: Relaxed; workers use the cell only once the task is complete, and `leave_waker` publishes it
            // again. Acquire on failure as above.
            match self.0.compare_exchange(
                seen,
                seen & !JOIN_WAKER,
                Ordering::Relaxed,
                Ordering::Acquire,
            ) {
                Ok(_) => return Joined::CellIsMine,
                Err(now) => seen = now,
            }
        }
    }

    /// (13) The join handle leaves the waker in the cell to the worker, unless the task is complete, and records the level
    /// from which it awaits.
    pub(crate) fn leave_waker(&self, from: Above) -> WakerLeft {
        // ORDER: Acquire pairs with the Release of `complete`.
        let mut seen = self.0.load(Ordering::Acquire);
        loop {
            if seen & COMPLETE != 0 {
                return WakerLeft::Complete;
            }
            let next = (seen & !JOIN_ABOVE) | JOIN_WAKER | from.of_join();
            // ORDER: Release pairs with the Acquire of `complete`: the worker sees the waker.
            // Acquire on failure as above.
            match self
                .0
                .compare_exchange(seen, next, Ordering::Release, Ordering::Acquire)
            {
                Ok(_) if Above::of(next) > Above::of(seen) => return WakerLeft::Raised,
                Ok(_) => return WakerLeft::Waits,
                Err(now) => seen = now,
            }
        }
    }

    /// (13) The join handle is dropped.
    pub(crate) fn drop_join(&self) -> JoinDropped {
        // ORDER: Relaxed; the exchange decides.
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            let (next, what) = if seen & COMPLETE == 0 {
                (
                    seen & !(JOIN | JOIN_WAKER | JOIN_ABOVE),
                    JoinDropped::DropWaker,
                )
            } else {
                (seen & !JOIN, JoinDropped::DropOutput)
            };
            // ORDER: Acquire pairs with the Release of `complete`: the handle sees the output. Nothing needs a
            // Release: without JOIN_WAKER the worker does not touch the cell. Relaxed on failure.
            match self
                .0
                .compare_exchange(seen, next, Ordering::Acquire, Ordering::Relaxed)
            {
                Ok(_) => return what,
                Err(now) => seen = now,
            }
        }
    }
}
