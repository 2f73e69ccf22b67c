//! The state word of a task: all transitions, nothing else.
//!
//! | bits | name | meaning |
//! |---|---|---|
//! | 0 | `SCHEDULED` | it is in a queue, or will be put there when its poll ends |
//! | 1 | `RUNNING` | its worker polls it |
//! | 2 | `COMPLETE` | its output is stored; it is never queued again |
//! | 3 | `CANCELLED` | the next run drops the future instead of polling it |
//! | 4 | `JOIN` | a join handle exists |
//! | 5 | `JOIN_WAKER` | the join handle's waker lies in the cell and belongs to the worker |
//! | 6 | `SEIZED` | its home worker has ended, and has dropped the future or will have it dropped |
//! | 7 | `LEFT` | whoever had the worker's reference could not hand it on: the home worker was gone |
//! | 8 | `BEHIND` | a run began by the task's raised node; its own is still in the queue where an earlier wake put it |
//! | 9 | `RAISED` | the raised node is in a queue of a scheduler above, or will be put there, with a reference |
//! | 10..12 | `JOIN_ABOVE` | from how far above the join handle awaits it, 0 for not ([`Above`](super::state_inheritance::Above)) |
//! | 12..14 | `LOCK_ABOVE` | from how far above others wait for locks that it holds |
//! | 14..22 | `LOCKS` | how many locks those are |
//! | 22 | `DELEGATED` | a parcel is on its way to a worker that will wake it, with a reference |
//! | 23..64 | refs | references: the worker's, the join handle's, the raised node's, the parcel's, one per waker |
//!
//! All changes are read-modify-writes, so they have one order that everybody agrees on. Those of
//! the join handle are in this file, those of tasks that are awaited from above in
//! `state_inheritance.rs`, those of wakes by a lower class in `state_delegate.rs`.

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
/// Whether anybody awaits it from above.
pub(crate) const INHERITS: u64 = JOIN_ABOVE | LOCK_ABOVE;
/// What a wake finds that has nothing to queue.
pub(crate) const BUSY: u64 = SCHEDULED | RUNNING | COMPLETE;
pub(crate) const DELEGATED: u64 = 1 << 22;
const REF_SHIFT: u32 = 23;
pub(crate) const ONE_REF: u64 = 1 << REF_SHIFT;
/// More references than this are a leak of wakers in a loop; the process ends before the
/// count can wrap.
const REFS_MAX: u64 = 1 << 40;

// The table above: no bit is shared, and all are below the count.
const _: () = assert!(SCHEDULED + RUNNING + COMPLETE + CANCELLED + JOIN + JOIN_WAKER == 0b11_1111);
const _: () = assert!(SEIZED + LEFT == 0b1100_0000 && BEHIND + RAISED == 0b11 << 8);
const _: () = assert!(INHERITS == 0b1111 << 10 && LOCKS == 255 << 14);
const _: () = assert!(DELEGATED == LOCKS + ONE_LOCK && ONE_REF == DELEGATED << 1);

/// What a wake has to do.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    /// Put the task into its worker's queue; nobody else will.
    Submit,
    /// Raise it to the scheduler above that awaits it, if one does. Submit it as well, unless its own node is in
    /// a queue still.
    Raise { submit: bool },
    /// Nothing: it is queued, or will be when its poll ends, or is complete.
    Nothing,
}

/// By which of its nodes a task is run.
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
    /// It was polled by its other node, or is being polled: nothing is left to do.
    Late,
    /// By the own node only: the task is complete, or its home worker has ended and drops the future. The
    /// worker's reference is left to drop.
    Over,
}

/// What a worker that ends finds at one of its tasks.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seized {
    /// The future is the worker's to drop, and a reference afterwards: the worker's, or one more where that goes with
    /// a queue that it is in.
    Mine,
    /// Another worker polls it, or has completed it; that one drops the reference.
    Elsewhere,
    /// The same, but the worker's reference was left behind: drop it.
    ElsewhereAndLeft,
}

/// Who drops the worker's reference of a task that could not be handed on.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// The home worker, when it comes to the task.
    ToHome,
    /// The caller: the home worker has been there.
    ToCaller,
}

/// How a poll that was not ready ends.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    /// The task waits for a wake.
    Idle,
    /// It was woken meanwhile.
    Woken(Wake),
    /// It was cancelled meanwhile: drop the future. It is still RUNNING.
    Cancel,
}

/// What the worker owes the join handle when the output is stored.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Completed {
    /// No handle: the worker drops the output.
    DropOutput,
    /// The handle will look by itself.
    Nothing,
    /// The waker in the cell is the worker's now: take it and wake it.
    WakeJoiner,
}

/// Whether a reference was the last.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Released {
    /// Free the task.
    Last,
    /// Others hold it.
    More,
}

#[derive(Debug)]
pub(crate) struct State<M: Machine>(pub(crate) M::U64);

impl<M: Machine> State<M> {
    /// A task that is about to be queued, held by its worker and its join handle.
    pub(crate) fn new() -> Self {
        State(M::U64::new(SCHEDULED | JOIN | (2 * ONE_REF)))
    }

    /// Notes that the task is to be polled.
    #[inline]
    pub(crate) fn wake(&self) -> Wake {
        let order = if M::breaks(Bug::TaskWakeRelaxed) {
            Ordering::Relaxed
        } else {
            Ordering::AcqRel
        };
        // ORDER: Release pairs with the Acquire of `start`: the poll sees what the waker did before,
        // also when the task was queued already. Acquire pairs with the Release of `pause`: the node
        // has left its queue.
        Self::submit_if_idle(self.0.fetch_or(SCHEDULED, order))
    }

    /// Notes that the task is to be cancelled.
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

    /// From queued to running. Only who took that node from its queue.
    #[inline]
    pub(crate) fn start(&self, by: By) -> Start {
        let behind = match by {
            By::Own => 0,
            By::Raised => BEHIND,
        };
        let order = if by == By::Raised && M::breaks(Bug::TaskStartRaisedRelaxed) {
            Ordering::Relaxed
        } else {
            Ordering::Acquire
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
            // ORDER: Acquire pairs with the wakes' Release and with the last `pause`, on
            // whichever worker. Relaxed on failure.
            match self.0.compare_exchange(
                seen,
                (seen & !(SCHEDULED | BEHIND)) | RUNNING | behind,
                order,
                Ordering::Relaxed,
            ) {
                Ok(_) if seen & CANCELLED == 0 => return Start::Poll,
                Ok(_) => return Start::Cancel,
                Err(now) => seen = now,
            }
        }
    }

    /// The task's home worker ends.
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
                // Nobody polls it any more, so none of its nodes is behind.
                let next = (seen & !BEHIND) | SEIZED | CANCELLED | RUNNING;
                let is_queued = seen & (SCHEDULED | BEHIND) != 0 && seen & LEFT == 0;
                let more = if is_queued { ONE_REF } else { 0 };
                (next + more, Seized::Mine)
            };
            // ORDER: Acquire pairs with the Release of the last `pause`, as in `start`, and of
            // `leave`; Release pairs with the Acquire of `release`: who finds it seized lets go of
            // it, and frees it after what this worker did.
            match self
                .0
                .compare_exchange(seen, next, Ordering::AcqRel, Ordering::Relaxed)
            {
                Ok(_) => return what,
                Err(now) => seen = now,
            }
        }
    }

    /// The caller has the worker's reference and could not hand it to the worker that is to drop it.
    pub(crate) fn leave(&self) -> Left {
        if M::breaks(Bug::TaskLeaveForgotten) {
            return Left::ToHome;
        }
        // ORDER: Release pairs with the Acquire of `seize`: the home worker frees it after what this one
        // did. Who comes second acquires that by `release`.
        if self.0.fetch_or(LEFT, Ordering::Release) & SEIZED == 0 {
            Left::ToHome
        } else {
            Left::ToCaller
        }
    }

    /// From running to idle or queued. One that was cancelled ends here: it may be that no worker takes its own node
    /// any more.
    #[inline]
    pub(crate) fn pause(&self) -> Pause {
        let order = if M::breaks(Bug::TaskPauseRelaxed) {
            Ordering::Relaxed
        } else {
            Ordering::Release
        };
        // ORDER: Acquire pairs with the Release of `seize`, `cancel` and `delegate`, for the drop of the future, and
        // with that of `start_late`: the own node has left its queue.
        let mut seen = self.0.load(Ordering::Acquire);
        loop {
            // Who cancels a task that is RUNNING sets SCHEDULED too.
            let pause = if seen & SCHEDULED == 0 || M::breaks(Bug::TaskForgetWake) {
                Pause::Idle
            } else if seen & CANCELLED != 0 && !M::breaks(Bug::TaskPauseBlind) {
                return Pause::Cancel;
            } else {
                Pause::Woken(Self::submit_if_idle(seen & !BUSY))
            };
            // ORDER: Release pairs with the Acquire of the next `start`, on whichever thread. That one
            // sees too what a wake during the poll brings: this keeps its Release going. Acquire on failure as above.
            match self
                .0
                .compare_exchange(seen, seen & !RUNNING, order, Ordering::Acquire)
            {
                Ok(_) => return pause,
                Err(now) => seen = now,
            }
        }
    }

    /// Whether its home worker has ended and knows it no more. Only who has completed it asks.
    #[inline]
    pub(crate) fn is_seized(&self) -> bool {
        // ORDER: Relaxed; who finds it seized does no more than `release`, which acquires.
        self.0.load(Ordering::Relaxed) & SEIZED != 0
    }

    /// The output is stored. Only the worker that runs the task.
    #[inline]
    pub(crate) fn complete(&self) -> Completed {
        let order = if M::breaks(Bug::TaskCompleteRelaxed) {
            Ordering::Relaxed
        } else {
            Ordering::AcqRel
        };
        // ORDER: Release pairs with the join side's Acquire: it sees the output. Acquire pairs
        // with the Release of `leave_waker`: the worker sees the waker.
        let before = self.0.fetch_or(COMPLETE, order);
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

    /// One reference more.
    #[inline]
    pub(crate) fn retain(&self) {
        // ORDER: Relaxed; the caller holds a reference, so the task cannot go away, and
        // handing the new one on orders itself.
        let before = self.0.fetch_add(ONE_REF, Ordering::Relaxed);
        if before >= REFS_MAX << REF_SHIFT {
            // As std's Arc: a count that large is a leak in a loop, and to go on would be
            // use after free.
            std::process::abort();
        }
    }

    /// So many references more, or fewer. The caller has one that is counted, and keeps it.
    #[cold]
    pub(crate) fn settle(&self, count: isize) {
        let refs = (count as u64).wrapping_mul(ONE_REF);
        // ORDER: Relaxed as in `retain`; where it counts fewer, they were used by this thread, which
        // lets its own go by `release` or at the end of the poll.
        let before = self.0.fetch_add(refs, Ordering::Relaxed);
        let after = before.wrapping_add(refs) >> REF_SHIFT;
        debug_assert!(after > 0, "the worker's own reference is counted");
        if after > REFS_MAX {
            std::process::abort();
        }
    }

    /// How many references there are.
    #[cfg(test)]
    pub(crate) fn refs(&self) -> u64 {
        // ORDER: Relaxed; a test's look, on the thread that changes it.
        self.0.load(Ordering::Relaxed) >> REF_SHIFT
    }

    /// One reference less.
    #[inline]
    pub(crate) fn release(&self) -> Released {
        let order = if M::breaks(Bug::TaskDropRelaxed) {
            Ordering::Relaxed
        } else {
            Ordering::AcqRel
        };
        // ORDER: Release: what this holder did is over before the task is freed. Acquire: the
        // last one sees what all others did.
        let before = self.0.fetch_sub(ONE_REF, order);
        debug_assert!(before >> REF_SHIFT > 0);
        if before >> REF_SHIFT == 1 {
            Released::Last
        } else {
            Released::More
        }
    }

    /// What is visible from outside.
    pub(crate) fn phase(&self) -> super::Phase {
        // ORDER: Acquire pairs with the Release of `complete`: who sees Complete sees what the
        // task did.
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
    /// A state word as it is, for tests that enumerate them.
    pub(crate) fn at(word: u64) -> Self {
        State(M::U64::new(word))
    }

    /// The word as it is.
    pub(crate) fn word(&self) -> u64 {
        // ORDER: Relaxed; tests read it where nobody else is.
        self.0.load(Ordering::Relaxed)
    }
}

/// What a join handle finds.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Joined {
    /// The output is the handle's.
    Complete,
    /// Not ready; the waker cell is the handle's to write.
    CellIsMine,
}

/// What a join handle that left its waker finds.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WakerLeft {
    /// The output is the handle's, and so is the cell still.
    Complete,
    /// It was left.
    Waits,
    /// It was left, and from now on the task is awaited from higher up than before.
    Raised,
}

/// What a join handle that goes away has to do.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JoinDropped {
    /// Drop the waker in the cell; the task runs on.
    DropWaker,
    /// Drop the output.
    DropOutput,
}

impl<M: Machine> State<M> {
    /// The join handle takes the waker cell back, unless the task is complete.
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
            // ORDER: Relaxed; no worker used the cell of a task that is not complete, and `leave_waker`
            // publishes it anew. Acquire on failure as above.
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

    /// The join handle leaves the waker in the cell to the worker, and says from where it awaits. On
    /// [`WakerLeft::Complete`] it was not left, and the output is there.
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

    /// The join handle goes away.
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
            // ORDER: Acquire pairs with the Release of `complete`: the output. It publishes nothing:
            // without JOIN_WAKER the worker leaves the cell alone. Relaxed on failure.
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
