//! The transitions of a wake by a thread of a lower class. The word is laid out in `state.rs`.

use super::state::{BUSY, CANCELLED, DELEGATED, ONE_REF, SCHEDULED, State, Wake};
use doorbell_machine::{Bug, Machine, Ordering, Word};

/// What a task is woken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum For {
    /// To be polled.
    Poll,
    /// To be ended.
    Cancel,
}

impl For {
    fn bits(self) -> u64 {
        match self {
            For::Poll => 0,
            For::Cancel => CANCELLED,
        }
    }
}

/// What a lower-class waker has to do.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delegated {
    /// Send a worker a parcel that wakes the task. A reference is counted for it.
    Send,
    /// Nothing: the task is queued, or its worker sees the mark, or a parcel is on its way, or the task is complete.
    Nothing,
}

impl<M: Machine> State<M> {
    /// (10) Marks a task that is queued or runs. Otherwise sets `DELEGATED`: one of the task's workers is to wake it. Only
    /// lower-class wakers leave a task to that bit.
    pub(crate) fn delegate(&self, to: For) -> Delegated {
        // ORDER: Relaxed; the exchange decides.
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            let (next, then) = if seen & BUSY != 0 {
                // One step: nothing is left to do after it.
                (seen | SCHEDULED | to.bits(), Delegated::Nothing)
            } else if seen & DELEGATED != 0 {
                (seen | to.bits(), Delegated::Nothing)
            } else if M::breaks(Bug::TaskNotedFromBelow) {
                ((seen | SCHEDULED | to.bits()) + ONE_REF, Delegated::Send)
            } else {
                ((seen | DELEGATED | to.bits()) + ONE_REF, Delegated::Send)
            };
            // ORDER: Release pairs with the Acquire of `start` as in `wake`, for which `wake_delegated` keeps
            // it going: the poll sees what the waker did before, also if the parcel is another one's.
            match self
                .0
                .compare_exchange(seen, next, Ordering::Release, Ordering::Relaxed)
            {
                Ok(_) => return then,
                Err(now) => seen = now,
            }
        }
    }

    /// (11) Wakes the task for a parcel, on one of the task's workers, unless another parcel has. Clears `DELEGATED` in the
    /// same step, so a later delegated wake finds the task busy or sends a parcel of its own.
    pub(crate) fn wake_delegated(&self) -> Wake {
        // ORDER: Relaxed; the exchange decides.
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            if seen & DELEGATED == 0 && !M::breaks(Bug::TaskNotedFromBelow) {
                return Wake::Nothing;
            }
            // ORDER: Acquire as in `wake`. The Release is that of `delegate`.
            match self.0.compare_exchange(
                seen,
                (seen & !DELEGATED) | SCHEDULED,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Self::submit_if_idle(seen),
                Err(now) => seen = now,
            }
        }
    }
}
