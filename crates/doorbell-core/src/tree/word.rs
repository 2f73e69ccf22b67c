//! The word of a branch.

use super::FANOUT_MAX;

/// The word of a branch: which children are active, which of them looks after the others, and how often the word
/// was exchanged.
///
/// | bits | name | meaning |
/// |---|---|---|
/// | 0 to 7 | `ACTIVE` | the active children |
/// | 8 to 15 | `MIGRATOR` | the bit of the active child that looks after the inactive ones; 0 if and only if no child is active |
/// | 16 to 63 | `SEQUENCE` | one more with each exchange, also with one that changes nothing else; it wraps around |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct State(pub(super) u64);

const ACTIVE: u64 = 0xff;
const MIGRATOR_SHIFT: u32 = 8;
const SEQUENCE: u64 = 1 << 16;
const _: () = assert!(ACTIVE.count_ones() as usize == FANOUT_MAX);
const _: () = assert!(SEQUENCE == (ACTIVE + 1) << MIGRATOR_SHIFT);

impl State {
    /// A branch without an active child.
    pub(super) const INACTIVE: State = State(0);

    /// The active children, one bit each.
    pub(super) const fn active(self) -> u64 {
        self.0 & ACTIVE
    }

    /// Whether no child is active.
    pub(super) const fn is_empty(self) -> bool {
        self.active() == 0
    }

    /// Whether the child is active.
    pub(super) const fn holds(self, child: usize) -> bool {
        self.active() >> child & 1 != 0
    }

    /// The child that looks after the inactive ones.
    pub(super) fn migrator(self) -> Option<usize> {
        let bit = self.0 >> MIGRATOR_SHIFT & ACTIVE;
        (bit != 0).then(|| bit.trailing_zeros() as usize)
    }

    /// The next state, in which the child is active or not. The migrator stays if it still is active; else it is
    /// the first active child.
    pub(super) fn next(self, child: usize, is_active: bool) -> State {
        let active = self.active() & !(1 << child) | u64::from(is_active) << child;
        let first = active & active.wrapping_neg();
        let kept = self.0 >> MIGRATOR_SHIFT & active;
        let migrator = if kept != 0 { kept } else { first };
        let sequence = (self.0 & !(SEQUENCE - 1)).wrapping_add(SEQUENCE);
        State(sequence | migrator << MIGRATOR_SHIFT | active)
    }

    /// How often the word was exchanged.
    pub(super) const fn sequence(self) -> u64 {
        self.0 / SEQUENCE
    }

    /// The same state under the sequence of `before`, for a mutant.
    pub(super) const fn under_the_sequence_of(self, before: State) -> State {
        State(self.0 & (SEQUENCE - 1) | before.0 & !(SEQUENCE - 1))
    }
}
