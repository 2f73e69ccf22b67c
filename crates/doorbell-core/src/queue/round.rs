//! Whose turn it is between two queues that are each first in, first out.

use std::cell::Cell;

/// Turns between the pinned tasks and the movable tasks of one worker, in rounds. A round has as many turns of each kind
/// as tasks of that kind waited at its begin.
///
/// Contract: *`p` pinned and `m` movable tasks wait, and their worker runs on ⇒ each of them runs among the next
/// `2 (p + m)` turns*, however often others become ready meanwhile. A queue counts its backlog as one task.
#[derive(Debug, Default)]
pub(crate) struct Round {
    pinned: Cell<u64>,
    movable: Cell<u64>,
}

impl Round {
    /// Whether the next turn is a pinned task's. `waiting`: how many pinned tasks wait, at least one, and how many
    /// movable ones.
    pub(crate) fn is_pinned(&self, waiting: impl FnOnce() -> (u64, u64)) -> bool {
        if self.pinned.get() == 0 && self.movable.get() == 0 {
            let (pinned, movable) = waiting();
            self.pinned.set(pinned);
            self.movable.set(movable);
        }
        let is_pinned = self.movable.get() == 0;
        let kind = if is_pinned {
            &self.pinned
        } else {
            &self.movable
        };
        kind.set(kind.get().saturating_sub(1));
        is_pinned
    }
}

#[cfg(test)]
mod tests {
    use super::Round;

    #[test]
    fn a_round_has_a_turn_for_each_task_that_waited_at_its_begin() {
        let round = Round::default();
        let turns = |(pinned, movable): (u64, u64), count| -> Vec<bool> {
            (0..count)
                .map(|_| round.is_pinned(|| (pinned, movable)))
                .collect()
        };
        assert_eq!(turns((2, 3), 5), [false, false, false, true, true]);
        // One pinned task that is always ready, beside 50.
        let taken = turns((1, 50), 102);
        assert_eq!(taken.iter().filter(|pinned| **pinned).count(), 2);
        assert_eq!(turns((1, 0), 3), [true; 3]);
    }
}
