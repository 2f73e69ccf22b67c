//! Whose turn it is between two queues that are each first in, first out.

use super::Ready;
use crate::link::Node;
use doorbell_machine::Machine;
use std::cell::Cell;
use std::ptr::NonNull;

/// Turns between the pinned and the movable tasks of one worker, in rounds. A round has as many turns of each kind as
/// tasks of that kind waited when it began; fewer if some of them are gone.
///
/// Contract: *`p` pinned and `m` movable tasks wait, and their worker runs on ⇒ each of them runs among the next
/// `2 (p + m)` turns*, however often others become ready meanwhile. Of a queue with a backlog, `m` counts the ring buffer
/// and one more; a task in the backlog waits for further rounds.
#[derive(Debug, Default)]
pub(crate) struct Round {
    pinned: Cell<u64>,
    movable: Cell<u64>,
}

impl Round {
    /// Takes out the task whose turn it is: one of `pinned`, or what `pop` takes from the movable ones, of which about
    /// `len` wait. Says whether it is pinned.
    #[inline]
    pub(crate) fn pop<M: Machine>(
        &self,
        pinned: &Ready<M>,
        len: impl FnOnce() -> u64,
        pop: impl FnOnce() -> Option<NonNull<Node<M>>>,
    ) -> Option<(NonNull<Node<M>>, bool)> {
        if !pinned.is_empty()
            && self.is_pinned((pinned.len() as u64, len()))
            && let Some(node) = pinned.pop()
        {
            return Some((node, true));
        }
        match pop() {
            Some(node) => Some((node, false)),
            None => Some((pinned.pop()?, true)),
        }
    }

    /// Whether the next turn is a pinned task's. `waiting`: how many pinned tasks wait, at least one, and how many
    /// movable ones.
    fn is_pinned(&self, waiting: (u64, u64)) -> bool {
        let left = (
            self.pinned.get().min(waiting.0),
            self.movable.get().min(waiting.1),
        );
        let (pinned, movable) = if left == (0, 0) { waiting } else { left };
        let is_pinned = movable == 0;
        self.pinned.set(pinned - u64::from(is_pinned));
        self.movable.set(movable - u64::from(!is_pinned));
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
                .map(|_| round.is_pinned((pinned, movable)))
                .collect()
        };
        assert_eq!(turns((2, 3), 5), [false, false, false, true, true]);
        // One pinned task that is always ready, beside 50.
        let taken = turns((1, 50), 102);
        assert_eq!(taken.iter().filter(|pinned| **pinned).count(), 2);
        assert_eq!(turns((1, 0), 3), [true; 3]);
        // Thieves take what a round has counted.
        assert_eq!(turns((1, 200), 1), [false]);
        assert_eq!(turns((1, 1), 4), [false, true, false, true]);
    }
}
