//! The transitions of a task that is awaited from above. The word is laid out in `state.rs`.

use super::state::{
    BEHIND, BUSY, By, COMPLETE, JOIN_ABOVE, LOCK_ABOVE, LOCKS, ONE_LOCK, ONE_REF, RAISED,
    SCHEDULED, SEIZED, Start, State,
};
use doorbell_machine::{Bug, Machine, Ordering, Word};

/// How far above a task's own scheduler somebody is: 0 for not above, else the number, from 1, of a scheduler
/// among those above it, the highest last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Above(u8);

impl Above {
    /// More schedulers are not above one.
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

    /// The highest from where anybody awaits it.
    pub(crate) fn of(word: u64) -> Self {
        let join = (word & JOIN_ABOVE) >> JOIN_ABOVE.trailing_zeros();
        let locks = (word & LOCK_ABOVE) >> LOCK_ABOVE.trailing_zeros();
        Above(join.max(locks) as u8)
    }
}

// Two bits hold it.
const _: () = assert!(Above::MAX as u64 == JOIN_ABOVE >> JOIN_ABOVE.trailing_zeros());

impl<M: Machine> State<M> {
    /// The highest from where anybody awaits it now.
    pub(crate) fn awaited_from(&self) -> Above {
        // ORDER: Relaxed; who raises it wakes the task behind that, and the poll that follows sees it.
        Above::of(self.0.load(Ordering::Relaxed))
    }

    /// A run of a task that is not as whoever queued the node left it: it is not queued, or runs, or is complete. The
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
        let order = if M::breaks(Bug::TaskCatchUpRelaxed) {
            Ordering::Relaxed
        } else {
            Ordering::Release
        };
        // ORDER: Release pairs with the Acquire of the next `start`, and of `complete` and `pause` of who polls it:
        // the node has left its queue, and the home worker is written.
        let caught_up = self
            .0
            .compare_exchange(seen, seen & !BEHIND, order, Ordering::Relaxed);
        caught_up.map(|_| Start::Late)
    }

    /// Somebody so far above waits for a lock that this task holds, as nobody did for that one yet if
    /// `first`. Whether the task is awaited from higher up than before.
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

    /// The task has let go of a lock by which it inherited.
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

    /// Takes the raised node, if the task waits in a queue, for the scheduler so far above, or the one further above
    /// that awaits it. Which of them: the node is to be put into a queue of that scheduler, with a reference that is
    /// counted.
    pub(crate) fn raise(&self, above: Above) -> Option<Above> {
        // ORDER: Relaxed; the exchange decides.
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            let to = Above::of(seen).max(above);
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

    /// The raised node has left its queue, or is to be in none. Its reference is the caller's to drop.
    pub(crate) fn take_back(&self) {
        // ORDER: Release pairs with the Acquire of the next `raise`.
        self.0.fetch_and(!RAISED, Ordering::Release);
    }

    /// Whether its own node is still in a queue. Only who has completed it by the raised node.
    pub(crate) fn is_behind(&self) -> bool {
        // ORDER: Relaxed; `complete`, before this, acquired a `start_late`. It does not change any more:
        // who takes the own node of a complete task leaves the bit as it is.
        self.0.load(Ordering::Relaxed) & BEHIND != 0
    }
}
