//! What lies behind the body of a task, and what is fixed of it besides.

use super::cell::Header;
use super::schedule::Schedule;

/// What lies behind the body of a task, and whether it is rescuable. One byte: with two the header would be a
/// word longer.
///
/// | bit | name | meaning |
/// |---|---|---|
/// | 0 | `EXTRAS` | extras lie behind the body |
/// | 1 | `RAISED_NODE` | a raised node does: some scheduler is above the task's own |
/// | 2 | `RESCUABLE` | workers above may run it while its own are stuck; only with `RAISED_NODE` |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Behind(u8);

const EXTRAS: u8 = 1 << 0;
const RAISED_NODE: u8 = 1 << 1;
const RESCUABLE: u8 = 1 << 2;
const _: () = assert!(EXTRAS + RAISED_NODE + RESCUABLE == 0b111);

impl Behind {
    pub(crate) fn of(extras: bool, raised_node: bool, rescuable: bool) -> Self {
        let bit = |is_set, bit| if is_set { bit } else { 0 };
        let rescuable = bit(raised_node && rescuable, RESCUABLE);
        Behind(bit(extras, EXTRAS) | bit(raised_node, RAISED_NODE) | rescuable)
    }
}

impl<M: Schedule> Header<M> {
    /// Whether there are extras behind the body.
    #[inline(always)]
    pub(crate) fn has_extras(&self) -> bool {
        self.behind.0 & EXTRAS != 0
    }

    /// Whether there is a raised node behind the body: some scheduler is above its own.
    #[inline(always)]
    pub(crate) fn has_raised_node(&self) -> bool {
        self.behind.0 & RAISED_NODE != 0
    }

    /// Whether workers above may run it while its own are stuck.
    #[inline(always)]
    pub(crate) fn is_rescuable(&self) -> bool {
        self.behind.0 & RESCUABLE != 0
    }
}
