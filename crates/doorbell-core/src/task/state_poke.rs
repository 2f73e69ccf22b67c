//! The transitions of a wake by a thread of a lower class. The word is laid out in `state.rs`.

use super::state::{BUSY, CANCELLED, ONE_REF, POKED, SCHEDULED, State, Wake};
use doorbell_machine::{Bug, Machine, Ordering, Word};

/// What a task is woken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum For {
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
pub(super) enum Poke {
    /// Send a worker a parcel that wakes the task. A reference is counted for it.
    Send,
    /// Nothing: who has the task sees it, or a parcel is on its way, or the task is complete.
    Nothing,
}

impl<M: Machine> State<M> {
    /// Notes that the task is to be woken by one of its workers, unless somebody has it already. Nobody
    /// who finds that relies on it, but who would do no more himself.
    pub(super) fn poke(&self, to: For) -> Poke {
        // ORDER: Relaxed; the exchange decides.
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            let (next, poke) = if seen & BUSY != 0 {
                // One step: nothing is left to do after it.
                (seen | SCHEDULED | to.bits(), Poke::Nothing)
            } else if seen & POKED != 0 {
                (seen | to.bits(), Poke::Nothing)
            } else if M::breaks(Bug::TaskNotedFromBelow) {
                ((seen | SCHEDULED | to.bits()) + ONE_REF, Poke::Send)
            } else {
                ((seen | POKED | to.bits()) + ONE_REF, Poke::Send)
            };
            let publish = if M::breaks(Bug::TaskPokeRelaxed) {
                Ordering::Relaxed
            } else {
                Ordering::Release
            };
            // ORDER: Release pairs with the Acquire of `start` as in `wake`, for which `wake_poked` keeps
            // it going: the poll sees what the waker did before, also if the parcel is another one's.
            match self
                .0
                .compare_exchange(seen, next, publish, Ordering::Relaxed)
            {
                Ok(_) => return poke,
                Err(now) => seen = now,
            }
        }
    }

    /// A parcel has come, on a worker that is not below: a wake of its own. In one step with the end of
    /// the other: who pokes the task later sends a parcel, or finds it queued.
    pub(super) fn wake_poked(&self) -> Wake {
        // ORDER: Relaxed; the exchange decides.
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            // ORDER: Acquire as in `wake`. The Release is that of `poke`.
            match self.0.compare_exchange(
                seen,
                (seen & !POKED) | SCHEDULED,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Self::submit_if_idle(seen),
                Err(now) => seen = now,
            }
        }
    }
}
