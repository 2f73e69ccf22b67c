//! Store buffers: under [`Memory::Tso`](super::Memory::Tso), the stores of a thread that others do not see
//! yet.

use super::words::Core;
use std::collections::VecDeque;

/// A store that others do not see yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    /// The atomic. It is alive, because the drop of an atomic removes its stores from all buffers first.
    pub(super) core: *const Core,
    pub(super) value: *mut (),
    pub(super) line: u32,
    pub(super) due_ns: u64,
}

/// The stores of one thread, oldest first.
#[derive(Debug, Default)]
pub(super) struct Buffer {
    stores: VecDeque<Pending>,
    /// Incremented whenever the buffer becomes empty: a drain that was scheduled before is void then.
    pub(super) turn: u32,
}

impl Buffer {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.stores.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.stores.len()
    }

    /// The value of the newest store to an atomic, which the thread itself sees.
    #[inline]
    pub(super) fn newest(&self, core: *const Core) -> Option<*mut ()> {
        let mut newer = self.stores.iter().rev();
        newer
            .find(|pending| pending.core == core)
            .map(|pending| pending.value)
    }

    pub(super) fn push(&mut self, pending: Pending) {
        self.stores.push_back(pending);
    }

    pub(super) fn pop(&mut self) -> Option<Pending> {
        let oldest = self.stores.pop_front();
        if self.stores.is_empty() {
            self.turn = self.turn.wrapping_add(1);
        }
        oldest
    }

    /// When the oldest store drains at the latest.
    pub(super) fn first_ns(&self) -> Option<u64> {
        self.stores.front().map(|pending| pending.due_ns)
    }

    pub(super) fn last_ns(&self) -> u64 {
        self.stores.back().map_or(0, |pending| pending.due_ns)
    }

    /// Removes the stores to an atomic. Returns whether there were any.
    pub(super) fn forget(&mut self, core: *const Core) -> bool {
        let before = self.stores.len();
        self.stores.retain(|pending| pending.core != core);
        if self.stores.is_empty() {
            self.turn = self.turn.wrapping_add(1);
        }
        self.stores.len() != before
    }
}
