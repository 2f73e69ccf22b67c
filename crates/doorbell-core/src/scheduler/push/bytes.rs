//! Where a worker's byte is, in the overloaded words and in the priority map. Both have one cache line for each group
//! of [`Cores`], with two words:
//!
//! | bits of a word | meaning |
//! |---|---|
//! | `8 * n` to `8 * n + 7`, n from 0 to 7 | the byte of slot n in the first word, of slot 8 + n in the second |

use crate::scheduler::idle::{Cores, GROUP_MAX, Place};
use doorbell_machine::Machine;

/// Slots per word, and words per group.
const WORD_SLOTS: usize = 8;
pub(super) const GROUP_WORDS: usize = GROUP_MAX / WORD_SLOTS;
const _: () = assert!(WORD_SLOTS * 8 == u64::BITS as usize && GROUP_WORDS * WORD_SLOTS == 16);

impl Place {
    /// The index, in the group's cache line, of the word with the worker's byte.
    pub(super) const fn word(self) -> usize {
        self.slot / WORD_SLOTS
    }

    /// The shift of the byte in that word.
    pub(super) const fn shift(self) -> u32 {
        8 * (self.slot % WORD_SLOTS) as u32
    }
}

/// The byte at that shift of a word.
pub(super) const fn byte(word: u64, shift: u32) -> u8 {
    (word >> shift) as u8
}

/// A word with that byte alone.
pub(super) const fn bits(byte: u8, shift: u32) -> u64 {
    (byte as u64) << shift
}

/// The workers of that group with their places, by slot from `first` on and then from the beginning.
pub(super) fn members<M: Machine>(
    cores: &Cores<M>,
    group: usize,
    first: usize,
) -> impl Iterator<Item = (usize, Place)> {
    let slots = cores.slots(group);
    (0..slots).map(move |step| {
        let slot = (first + step) % slots;
        (cores.worker(group, slot), Place { group, slot })
    })
}

#[cfg(test)]
mod tests {
    use super::{Cores, members};
    use doorbell_machine::Host;

    #[test]
    fn the_members_of_a_group_come_from_a_slot_on() {
        let cores =
            Cores::<Host>::of_one_class(6, |one, other| 1 + u32::from(one % 2 != other % 2));
        let from = |first| members(&cores, 1, first).map(|(worker, _)| worker);
        assert_eq!(from(2).collect::<Vec<_>>(), [5, 1, 3]);
        assert_eq!(
            from(4).collect::<Vec<_>>(),
            [3, 5, 1],
            "no slot has that number"
        );
    }
}
