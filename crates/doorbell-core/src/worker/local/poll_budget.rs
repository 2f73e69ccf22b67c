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
/// assert!((0..128).all(|_| budget.take()));
/// assert!(budget.is_spent() && !budget.take());
/// budget.refill();
/// assert!(budget.take());
/// ```
#[derive(Debug)]
pub struct PollBudget {
    /// Below zero: minus the number of refusals since the budget ran out.
    left: Cell<i32>,
    /// Whether an operation that began with nothing left has completed.
    is_overdrawn: Cell<bool>,
}

/// What was left of a budget whose limit was lifted.
#[derive(Clone, Copy, Debug)]
pub struct Lifted {
    left: i32,
    is_overdrawn: bool,
}

impl Default for PollBudget {
    fn default() -> Self {
        PollBudget {
            left: Cell::new(OPERATIONS),
            is_overdrawn: Cell::new(false),
        }
    }
}

impl PollBudget {
    /// Restores the full budget, for a poll that begins.
    #[inline]
    pub fn refill(&self) {
        self.left.set(OPERATIONS);
        self.is_overdrawn.set(false);
    }

    /// Whether nothing is left.
    #[inline]
    pub fn is_spent(&self) -> bool {
        self.left.get() <= 0
    }

    /// Takes one for an operation that is about to complete. `false` if nothing is left: the operation must not
    /// complete, and the poll must end.
    #[inline]
    pub fn take(&self) -> bool {
        if self.is_spent() {
            self.refuse();
            return false;
        }
        self.left.set(self.left.get() - 1);
        true
    }

    #[cold]
    fn refuse(&self) {
        self.left.set(self.left.get() - 1);
        if self.left.get() <= -REFUSALS {
            self.refill();
        }
    }

    /// Lifts the limit for a while: until [`PollBudget::restore`] gets what this returns.
    pub fn lift(&self) -> Lifted {
        Lifted {
            left: self.left.replace(i32::MAX),
            is_overdrawn: self.is_overdrawn.replace(false),
        }
    }

    /// Ends [`PollBudget::lift`].
    pub fn restore(&self, lifted: Lifted) {
        self.left.set(lifted.left);
        self.is_overdrawn.set(lifted.is_overdrawn);
    }

    /// Begins an operation that cannot be kept from completing once it is polled. Returns what is left, to be passed
    /// to [`PollBudget::end`] if it completes. Where nothing is left, one such operation may complete all the same:
    /// only its poll shows whether it has to wait, and gives it its place in a queue. Then this returns `None`: the
    /// operation is refused, and the poll must end.
    #[inline]
    pub fn begin(&self) -> Option<i32> {
        if self.is_overdrawn.get() {
            self.refuse();
            return None;
        }
        Some(self.left.get())
    }

    /// Ends a completed operation, whose [`PollBudget::begin`] returned `before`. It costs one, or nothing if an
    /// operation inside it has cost one already.
    #[inline]
    pub fn end(&self, before: i32) {
        if before <= 0 {
            self.is_overdrawn.set(true);
        }
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
            assert!(budget.take());
        }
        budget.end(outer);
        assert_eq!(budget.begin(), Some(OPERATIONS - 3));
        let outer = budget.begin().unwrap();
        budget.end(outer);
        assert_eq!(budget.begin(), Some(OPERATIONS - 4));
    }

    #[test]
    fn one_operation_that_is_only_known_by_its_poll_goes_beyond_the_budget() {
        let budget = PollBudget::default();
        while budget.take() {}
        let waits = budget.begin();
        assert!(waits.is_some(), "it is polled, and has to wait");
        let before = budget.begin().unwrap();
        budget.end(before);
        assert_eq!(budget.begin(), None);
        budget.refill();
        assert_eq!(budget.begin(), Some(OPERATIONS));
    }

    #[test]
    fn a_poll_that_goes_on_although_it_is_refused_gets_another_budget() {
        let budget = PollBudget::default();
        for round in 0..3 {
            for operation in 0..OPERATIONS {
                assert!(budget.take(), "{operation} of round {round}");
            }
            for refusal in 0..REFUSALS {
                assert!(!budget.take(), "{refusal} of round {round}");
            }
        }
    }

    #[test]
    fn a_poll_that_goes_on_with_operations_of_others_gets_another_budget() {
        let budget = PollBudget::default();
        for round in 0..3 {
            let completes = || {
                let before = budget.begin();
                before.is_some_and(|before| {
                    budget.end(before);
                    true
                })
            };
            for operation in 0..=OPERATIONS {
                assert!(completes(), "{operation} of round {round}");
            }
            let refused = (0..=REFUSALS).take_while(|_| !completes()).count();
            assert!(refused < 200, "round {round}");
            budget.refill();
        }
    }
}
