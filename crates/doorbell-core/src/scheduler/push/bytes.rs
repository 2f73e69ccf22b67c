//! Where a worker's byte is, in the overloaded words and in the priority map. Both have one cache line for each group
//! of [`Cores`], with two words:
//!
//! | bits of a word | meaning |
//! |---|---|
//! | `8 * n` to `8 * n + 7`, n from 0 to 7 | the byte of slot n in the first word, of slot 8 + n in the second |

use crate::scheduler::idle::{BitPlace, GROUP_MAX};

/// Slots per word, and words per group.
const WORD_SLOTS: usize = 8;
pub(super) const GROUP_WORDS: usize = GROUP_MAX / WORD_SLOTS;
const _: () = assert!(WORD_SLOTS * 8 == u64::BITS as usize && GROUP_WORDS * WORD_SLOTS == 16);

impl BitPlace {
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
