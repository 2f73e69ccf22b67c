//! The transitions of a task that is awaited from above. The word is laid out in `state.rs`.

use super::state::{
    BEHIND, BOOSTED, CANCELLED, COMPLETE, JOIN_BOOST, LENT, LOCK_BOOST, LOCKS, ONE_LOCK, ONE_REF,
    RUNNING, SCHEDULED, SEIZED, Start, State, Wake,
};
use doorbell_machine::{Bug, Machine, Ordering, Word};

/// How far above a task's own crew somebody is: 0 for not above, else the number, from 1, of a crew
/// among those above it, the highest last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Above(u8);

impl Above {
    /// More crews are not above one.
    pub(crate) const MAX: usize = 3;

    /// That of the crew with this number, from 0, among those above.
    pub(super) fn nth(above: usize) -> Self {
        debug_assert!(above < Self::MAX);
        Above(above as u8 + 1)
    }

    /// The crew's number, from 0, among those above; `None` for not above.
    pub(super) fn index(self) -> Option<usize> {
        usize::from(self.0).checked_sub(1)
    }

    pub(super) fn of_join(self) -> u64 {
        u64::from(self.0) << JOIN_BOOST.trailing_zeros()
    }

    fn of_locks(self) -> u64 {
        u64::from(self.0) << LOCK_BOOST.trailing_zeros()
    }

    /// The highest from where anybody awaits it.
    pub(super) fn of(word: u64) -> Self {
        let join = (word & JOIN_BOOST) >> JOIN_BOOST.trailing_zeros();
        let locks = (word & LOCK_BOOST) >> LOCK_BOOST.trailing_zeros();
        Above(join.max(locks) as u8)
    }
}

// Two bits hold it.
const _: () = assert!(Above::MAX as u64 == JOIN_BOOST >> JOIN_BOOST.trailing_zeros());

impl<M: Machine> State<M> {
    /// The highest from where anybody awaits it now.
    pub(super) fn awaited_from(&self) -> Above {
        // ORDER: Relaxed; who raises it wakes the task behind that, and the poll that follows sees it.
        Above::of(self.0.load(Ordering::Relaxed))
    }
}

/// Whether a task is awaited from higher up than before.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Raised {
    /// What it awaits in its turn is to learn of it.
    Yes,
    /// It was awaited from there, or higher up.
    No,
}

/// What is to be done with the second node.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lend {
    /// Put it into a queue of that crew, with a reference that is counted.
    To(usize),
    /// Nothing: it is in one, or nobody awaits the task from above, or it is not to be polled.
    Nothing,
}

/// How a run by the second node begins.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LentStart {
    /// Poll the future.
    Poll,
    /// Drop the future.
    Cancel,
    /// It has been polled, or is being polled, or is complete.
    Late,
}

/// How a poll by the second node that was not ready ends.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LentPause {
    /// The task waits for a wake, or its own node for whoever takes that.
    Idle,
    /// It was woken meanwhile.
    Woken(Wake),
    /// It was cancelled meanwhile: drop the future. It is still RUNNING.
    Cancel,
}

/// What became of a task whose own node was behind.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CaughtUp {
    /// Its own node is free again, and the lane's reference is with the task, or with who polls it.
    Yes,
    /// Something changed meanwhile: begin the run again.
    Again,
}

/// Who ends a task that was completed by its second node.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    /// Who takes its own node.
    Behind,
    /// The caller, who has the lane's reference.
    Caller,
}

impl<M: Machine> State<M> {
    /// The wake of a task that was idle, and whose own node is behind, or that is awaited from above.
    #[cold]
    pub(super) fn wake_boosted(before: u64) -> Wake {
        let boosted = before & BOOSTED != 0 && !M::breaks(Bug::TaskLendForgotten);
        match (before & BEHIND != 0, boosted) {
            (false, true) => Wake::LendAndSubmit,
            (false, false) => Wake::Submit,
            (true, true) => Wake::Lend,
            (true, false) => Wake::Nothing,
        }
    }

    /// The start of a run by the own node of a task that is not as whoever queued it left it.
    #[cold]
    pub(super) fn start_late(seen: u64) -> Start {
        if seen & BEHIND == 0 {
            debug_assert!(seen & SEIZED != 0, "a task was queued twice");
            Start::Seized
        } else if seen & COMPLETE != 0 {
            Start::Complete
        } else {
            Start::Behind
        }
    }

    /// The own node was taken from its queue and found behind. Only who took it.
    pub(super) fn catch_up(&self) -> CaughtUp {
        // ORDER: Relaxed; the exchange decides.
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            let queued = seen & (SCHEDULED | RUNNING) == SCHEDULED;
            if seen & COMPLETE != 0 || seen & BEHIND == 0 || queued {
                return CaughtUp::Again;
            }
            let order = if M::breaks(Bug::TaskCatchUpRelaxed) {
                Ordering::Relaxed
            } else {
                Ordering::Release
            };
            // ORDER: Release pairs with the Acquire of the next `start`, and of `complete` and
            // `pause_lent` of who polls it: the node has left its queue, and the home lane is
            // written.
            match self
                .0
                .compare_exchange(seen, seen & !BEHIND, order, Ordering::Relaxed)
            {
                Ok(_) => return CaughtUp::Yes,
                Err(now) => seen = now,
            }
        }
    }

    /// Somebody so far above waits for a lock that this task holds, as nobody did for that one yet if
    /// `first`. Whether the task is awaited from higher up than before.
    pub(super) fn boost_by_lock(&self, from: Above, first: bool) -> Raised {
        // ORDER: Relaxed; the exchange decides.
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            // Of too many locks the count stays, and so does the boost, until the task is complete.
            let more = first && seen & LOCKS != LOCKS;
            let counted = seen + if more { ONE_LOCK } else { 0 };
            let next = (counted & !LOCK_BOOST) | (seen & LOCK_BOOST).max(from.of_locks());
            // ORDER: Relaxed; only the bits count, and who raises them wakes the task next, which
            // orders the rest.
            match self
                .0
                .compare_exchange(seen, next, Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) if Above::of(next) > Above::of(seen) => return Raised::Yes,
                Ok(_) => return Raised::No,
                Err(now) => seen = now,
            }
        }
    }

    /// The task has let go of a lock for which it was boosted.
    pub(super) fn unboost_by_lock(&self) {
        // ORDER: Relaxed; the exchange decides.
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            let next = match seen & LOCKS {
                0 | LOCKS => return,
                ONE_LOCK => seen & !(LOCKS | LOCK_BOOST),
                _ => seen - ONE_LOCK,
            };
            // ORDER: Relaxed; whether it is lent once too often does not matter.
            match self
                .0
                .compare_exchange(seen, next, Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }

    /// Takes the second node, if the task waits in a queue and is awaited from above.
    pub(super) fn lend(&self) -> Lend {
        self.lend_by(Above::of)
    }

    /// Takes the second node for the crew so far above, or one further above that awaits the task, if it
    /// waits in a queue.
    pub(super) fn lend_to(&self, above: Above) -> Lend {
        self.lend_by(|word| Above::of(word).max(above))
    }

    fn lend_by(&self, above: impl Fn(u64) -> Above) -> Lend {
        // ORDER: Relaxed; the exchange decides.
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            let Some(to) = above(seen).index() else {
                return Lend::Nothing;
            };
            let lent = if M::breaks(Bug::TaskLentTwice) {
                0
            } else {
                LENT
            };
            if seen & (SCHEDULED | RUNNING | COMPLETE | lent) != SCHEDULED {
                return Lend::Nothing;
            }
            // ORDER: Acquire pairs with the Release of `start_lent` and `take_back`, which freed the
            // second node.
            match self.0.compare_exchange(
                seen,
                (seen | LENT) + ONE_REF,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Lend::To(to),
                Err(now) => seen = now,
            }
        }
    }

    /// The second node is in no queue: nobody took it, or its lane ends. Its reference is the
    /// caller's to drop.
    pub(super) fn take_back(&self) {
        // ORDER: Release pairs with the Acquire of the next `lend`.
        self.0.fetch_and(!LENT, Ordering::Release);
    }

    /// From queued to running, by the second node. Only who took that from its queue, and who has
    /// its reference from now on.
    pub(super) fn start_lent(&self) -> LentStart {
        // ORDER: Relaxed; the exchange decides.
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            let queued = seen & (SCHEDULED | RUNNING | COMPLETE) == SCHEDULED;
            let next = if queued {
                (seen & !(SCHEDULED | LENT)) | RUNNING | BEHIND
            } else {
                seen & !LENT
            };
            let order = if M::breaks(Bug::TaskStartLentRelaxed) {
                Ordering::Release
            } else {
                Ordering::AcqRel
            };
            // ORDER: Acquire pairs with the wakes' Release and with the last pause, as in `start`.
            // Release pairs with the Acquire of the next `lend`: the second node is free; this half is unshown
            // because what it orders are loads of the node's link, and in a model no store overtakes a load.
            match self
                .0
                .compare_exchange(seen, next, order, Ordering::Relaxed)
            {
                Ok(_) if !queued => return LentStart::Late,
                Ok(_) if seen & CANCELLED == 0 => return LentStart::Poll,
                Ok(_) => return LentStart::Cancel,
                Err(now) => seen = now,
            }
        }
    }

    /// From running to idle or queued, after a run by the second node.
    pub(super) fn pause_lent(&self) -> LentPause {
        // ORDER: Acquire pairs with the Release of `seize`, `cancel` and `catch_up`.
        let mut seen = self.0.load(Ordering::Acquire);
        loop {
            if seen & CANCELLED != 0 && !M::breaks(Bug::TaskPauseLentBlind) {
                // It may be that no lane of its own takes it any more.
                return LentPause::Cancel;
            }
            let order = if M::breaks(Bug::TaskPauseLentRelaxed) {
                Ordering::Relaxed
            } else {
                Ordering::Release
            };
            // ORDER: Release as in `pause`; Acquire on failure as above.
            match self
                .0
                .compare_exchange(seen, seen & !RUNNING, order, Ordering::Acquire)
            {
                Ok(_) if seen & SCHEDULED == 0 => return LentPause::Idle,
                Ok(_) => return LentPause::Woken(Self::wake_boosted(seen)),
                Err(now) => seen = now,
            }
        }
    }

    /// Whether its own node is still in a queue. Only who has completed it by the second node.
    pub(super) fn ends(&self) -> Ends {
        // ORDER: Relaxed; `complete`, before this, acquired a `catch_up`. It does not change any more:
        // who takes the own node of a complete task leaves the bit as it is.
        if self.0.load(Ordering::Relaxed) & BEHIND == 0 {
            Ends::Caller
        } else {
            Ends::Behind
        }
    }
}
