//! The transitions of a task that is awaited from above. The word is laid out in `state.rs`.

use super::state::{
    BEHIND, BUSY, By, COMPLETE, JOIN_ABOVE, LOCK_ABOVE, LOCKS, ONE_LOCK, ONE_REF, RAISED,
    SCHEDULED, SEIZED, Start, State,
};
use doorbell_machine::{Bug, Machine, Ordering, Word};

/// How far a scheduler is above a task's own: its number among those above, from 1, the highest last. 0: not above.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Above(u8);

impl Above {
    /// At most this many schedulers are above one.
    pub(crate) const MAX: usize = 3;

    /// That of the scheduler with this number, from 0, among those above.
    pub(crate) fn nth(above: usize) -> Self {
        debug_assert!(above < Self::MAX);
        Above(above as u8 + 1)
    }

    /// The scheduler's number, from 0, among those above; `None` for not above.
    pub(crate) fn index(self) -> Option<usize> {
        usize::from(self.0).checked_sub(1)
    }

    pub(crate) fn of_join(self) -> u64 {
        u64::from(self.0) << JOIN_ABOVE.trailing_zeros()
    }

    fn of_locks(self) -> u64 {
        u64::from(self.0) << LOCK_ABOVE.trailing_zeros()
    }

    /// The highest level from which the task is awaited.
    pub(crate) fn of(word: u64) -> Self {
        let join = (word & JOIN_ABOVE) >> JOIN_ABOVE.trailing_zeros();
        let locks = (word & LOCK_ABOVE) >> LOCK_ABOVE.trailing_zeros();
        Above(join.max(locks) as u8)
    }
}

// Two bits hold it.
const _: () = assert!(Above::MAX as u64 == JOIN_ABOVE >> JOIN_ABOVE.trailing_zeros());

impl<M: Machine> State<M> {
    /// The highest level from which the task is awaited now.
    pub(crate) fn awaited_from(&self) -> Above {
        // ORDER: Relaxed; a thread that raises the level wakes the task afterwards, and the poll that follows sees it.
        Above::of(self.0.load(Ordering::Relaxed))
    }

    /// (4) A run of a task that is not as whoever queued the node left it: it is not queued, or runs, or is complete. The
    /// word, if it changed meanwhile. The own node of one that is behind is free from here on, and the worker's
    /// reference is with the task, or with who polls it.
    #[cold]
    pub(crate) fn start_late(&self, by: By, seen: u64) -> Result<Start, u64> {
        if by == By::Raised {
            return Ok(Start::Late);
        }
        if seen & COMPLETE != 0 || seen & BEHIND == 0 {
            debug_assert!(seen & (SEIZED | BEHIND) != 0, "a task was queued twice");
            return Ok(Start::Over);
        }
        // ORDER: Release pairs with the Acquire of the next `start`, and of `complete` and `pause` of who polls it:
        // the node has left its queue, and the home worker is written.
        let caught_up =
            self.0
                .compare_exchange(seen, seen & !BEHIND, Ordering::Release, Ordering::Relaxed);
        caught_up.map(|_| Start::Late)
    }

    /// (12) Records that a task at level `from` waits for a lock that this task holds; `first`: the first such waiter of
    /// that lock. Returns whether the inherited level has risen.
    #[must_use]
    pub(crate) fn inherit_by_lock(&self, from: Above, first: bool) -> bool {
        // ORDER: Relaxed; the exchange decides.
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            // Of too many locks the count stays, and so does what is inherited, until the task is complete.
            let more = first && seen & LOCKS != LOCKS;
            let counted = seen + if more { ONE_LOCK } else { 0 };
            let next = (counted & !LOCK_ABOVE) | (seen & LOCK_ABOVE).max(from.of_locks());
            // ORDER: Relaxed; only the bits count, and who raises them wakes the task next, which
            // orders the rest.
            match self
                .0
                .compare_exchange(seen, next, Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => return Above::of(next) > Above::of(seen),
                Err(now) => seen = now,
            }
        }
    }

    /// (12) Records that the task has released a lock by which it inherited.
    pub(crate) fn disinherit_by_lock(&self) {
        // ORDER: Relaxed; the exchange decides.
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            let next = match seen & LOCKS {
                0 | LOCKS => return,
                ONE_LOCK => seen & !(LOCKS | LOCK_ABOVE),
                _ => seen - ONE_LOCK,
            };
            // ORDER: Relaxed; whether it is raised once too often does not matter.
            match self
                .0
                .compare_exchange(seen, next, Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }

    /// (9) Takes the raised node of a queued task that is awaited from above, unless it is taken already, and counts a
    /// reference for it. Returns the level whose scheduler is to queue the node.
    pub(crate) fn raise(&self) -> Option<Above> {
        // ORDER: Relaxed; the exchange decides.
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            let to = Above::of(seen);
            let raised = if M::breaks(Bug::TaskRaisedTwice) {
                0
            } else {
                RAISED
            };
            if to == Above::default() || seen & (BUSY | raised) != SCHEDULED {
                return None;
            }
            // ORDER: Acquire pairs with the Release of `take_back`, which freed the raised node.
            match self.0.compare_exchange(
                seen,
                (seen | RAISED) + ONE_REF,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Some(to),
                Err(now) => seen = now,
            }
        }
    }

    /// (9) Clears `RAISED`: the raised node is in no queue. The caller drops its reference.
    pub(crate) fn take_back(&self) {
        // ORDER: Release pairs with the Acquire of the next `raise`.
        self.0.fetch_and(!RAISED, Ordering::Release);
    }

    /// Whether the own node is still in a queue. Only the raised run that completed the task may ask.
    pub(crate) fn is_behind(&self) -> bool {
        // ORDER: Relaxed; `complete`, before this, acquired a `start_late`. It does not change any more:
        // who takes the own node of a complete task leaves the bit as it is.
        self.0.load(Ordering::Relaxed) & BEHIND != 0
    }
}
