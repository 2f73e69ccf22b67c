//! The poll budget: how many ready operations one poll may complete.

use std::cell::Cell;

/// Operations per poll. One operation is, say, a read, a received message, or taking a free lock. The number is
/// tokio's.
const OPERATIONS: i32 = 128;

/// A poll that goes on after this many refusals gets a full budget again. It runs an executor of the user's, which
/// polls until it is ready, and would never end otherwise.
const REFUSALS: i32 = 128;

/// The operations that the current poll may still complete before it must yield to other tasks.
///
/// ```
/// use doorbell_core::worker::PollBudget;
///
/// let budget = PollBudget::default();
/// for _ in 0..128 {
///     let left = budget.begin().expect("a poll may complete so many");
///     budget.end(left);
/// }
/// assert_eq!(budget.begin(), None);
/// budget.refill();
/// assert_eq!(budget.begin(), Some(128));
/// ```
#[derive(Debug)]
pub struct PollBudget {
    /// Below zero: minus the number of refusals since the budget ran out.
    left: Cell<i32>,
}

impl Default for PollBudget {
    fn default() -> Self {
        PollBudget {
            left: Cell::new(OPERATIONS),
        }
    }
}

impl PollBudget {
    /// Restores the full budget, for a poll that begins.
    #[inline]
    pub fn refill(&self) {
        self.left.set(OPERATIONS);
    }

    /// Begins an operation. Returns what is left, to be passed to [`PollBudget::end`] if the operation completes.
    /// `None` if nothing is left: the operation is refused, and the poll must end.
    #[inline]
    pub fn begin(&self) -> Option<i32> {
        let left = self.left.get();
        if left > 0 {
            return Some(left);
        }
        self.refuse();
        None
    }

    #[cold]
    fn refuse(&self) {
        let left = self.left.get() - 1;
        let goes_on = left <= -REFUSALS;
        self.left.set(if goes_on { OPERATIONS } else { left });
    }

    /// Ends a completed operation, whose [`PollBudget::begin`] returned `before`. It costs one, or nothing if an
    /// operation inside it has cost one already.
    #[inline]
    pub fn end(&self, before: i32) {
        self.left.set(self.left.get().min(before - 1));
    }
}

#[cfg(test)]
mod tests {
    use super::{OPERATIONS, PollBudget, REFUSALS};

    #[test]
    fn an_operation_inside_another_costs_one_with_it() {
        let budget = PollBudget::default();
        let outer = budget.begin().unwrap();
        for _ in 0..3 {
            let inner = budget.begin().unwrap();
            budget.end(inner);
        }
        budget.end(outer);
        assert_eq!(budget.begin(), Some(OPERATIONS - 3));
        let outer = budget.begin().unwrap();
        budget.end(outer);
        assert_eq!(budget.begin(), Some(OPERATIONS - 4));
    }

    #[test]
    fn a_poll_that_goes_on_although_it_is_refused_gets_another_budget() {
        let budget = PollBudget::default();
        for round in 0..3 {
            for operation in 0..OPERATIONS {
                let left = budget.begin();
                assert_eq!(left, Some(OPERATIONS - operation), "round {round}");
                budget.end(left.unwrap());
            }
            for refusal in 0..REFUSALS {
                assert_eq!(budget.begin(), None, "{refusal} of round {round}");
            }
        }
    }
}
