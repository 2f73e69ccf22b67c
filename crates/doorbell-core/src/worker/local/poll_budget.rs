//! How many operations that are ready at once one poll may complete.

use std::cell::Cell;

/// So many: a read, a message, a lock that is free. As in tokio.
const OPERATIONS: i32 = 128;

/// A poll that was refused so often and goes on is inside an executor of the user's, which polls until
/// it is ready: it is given a full budget again, because it would never end otherwise.
const REFUSALS: i32 = 128;

/// What is left to one poll of the operations that it may complete before it gives the others a turn.
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
    /// Below zero: how often the poll was refused since nothing was left.
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
    /// Another poll begins.
    #[inline]
    pub fn refill(&self) {
        self.left.set(OPERATIONS);
    }

    /// What is left, for [`PollBudget::end`] if the operation that begins completes. `None` if nothing
    /// is: the poll is to end.
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

    /// An operation is complete before which so much was left. It costs one, and nothing where an
    /// operation inside it has cost that already.
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
