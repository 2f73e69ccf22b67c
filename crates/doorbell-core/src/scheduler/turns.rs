//! The two orders in which the workers of a scheduler run their tasks, and what follows from each. What a worker does in
//! either, and by share, is in worker/turns/.

use crate::queue::RankOf;
use crate::task::TaskRef;
use doorbell_machine::{Bug, Machine};

/// The order in which a worker runs its tasks.
///
/// ```
/// use doorbell_core::scheduler::Turns;
///
/// assert!(Turns::ByRank.is_exact() && !Turns::ByArrival.is_exact());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turns {
    /// In the order in which they became ready; pinned and movable tasks in rounds. Tasks of groups by the groups' shares.
    ByArrival,
    /// The highest [rank](crate::worker::Local::rank) first; equal ranks in the order in which they became ready.
    ByRank,
}

impl Turns {
    /// Whether late timers would change which task is next: they need an exact clock.
    #[inline]
    pub fn is_exact(self) -> bool {
        self == Turns::ByRank
    }

    /// Whether tasks that yield, or that make long polls, are deferred.
    #[inline]
    pub(crate) fn defers(self) -> bool {
        self == Turns::ByArrival
    }

    /// Whether an idle worker takes a single task that waits, although its worker may run it next: no task waits for the
    /// end of a poll of lower rank. By arrival it takes one only if that poll goes on for long.
    #[inline]
    pub(crate) fn shares_one<M: Machine>(self) -> bool {
        self == Turns::ByRank && !M::breaks(Bug::RtLeavesOneWaiting)
    }

    /// How a queue sorts its tasks; `None` if it does not.
    pub(crate) fn rank_of<M: Machine>(self) -> Option<RankOf<M>> {
        (self == Turns::ByRank).then_some(TaskRef::rank_of)
    }
}
