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

/// What a wake by one of a lower class has to do.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delegated {
    /// Send a worker a parcel that wakes the task. A reference is counted for it.
    Send,
    /// Nothing: who has the task sees it, or a parcel is on its way, or the task is complete.
    Nothing,
}

impl<M: Machine> State<M> {
    /// Notes that the task is to be woken by one of its workers, unless somebody has it already. Nobody
    /// who finds that relies on it, but who would do no more himself.
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
            let publish = if M::breaks(Bug::TaskDelegateRelaxed) {
                Ordering::Relaxed
            } else {
                Ordering::Release
            };
            // ORDER: Release pairs with the Acquire of `start` as in `wake`, for which `wake_delegated` keeps
            // it going: the poll sees what the waker did before, also if the parcel is another one's.
            match self
                .0
                .compare_exchange(seen, next, publish, Ordering::Relaxed)
            {
                Ok(_) => return then,
                Err(now) => seen = now,
            }
        }
    }

    /// A parcel has come, on a worker that is not below: a wake of its own. In one step with the end of
    /// the other: who delegates a wake later sends a parcel, or finds it queued.
    pub(crate) fn wake_delegated(&self) -> Wake {
        // ORDER: Relaxed; the exchange decides.
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
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
