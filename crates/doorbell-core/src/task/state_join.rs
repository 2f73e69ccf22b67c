//! The transitions of the join handle. The word is laid out in `state.rs`.

use super::state::{COMPLETE, JOIN, JOIN_ABOVE, JOIN_WAKER, State};
use super::state_inheritance::Above;
use doorbell_machine::{Bug, Machine, Ordering, Word};

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
