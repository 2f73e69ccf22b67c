//! What lies behind the body of a task, and what is fixed of it besides.

use super::cell::Header;
use doorbell_machine::Machine;

/// What lies behind the body of a task, and whether it is rescuable. One byte: with two the header would be a
/// word longer.
///
/// | bit | name | meaning |
/// |---|---|---|
/// | 0 | `EXTRAS` | extras lie behind the body |
/// | 1 | `SECOND` | a second node does: some scheduler is above the task's own |
/// | 2 | `RESCUABLE` | workers above may run it while its own are stuck; only with `SECOND` |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Behind(u8);

const EXTRAS: u8 = 1 << 0;
const SECOND: u8 = 1 << 1;
const RESCUABLE: u8 = 1 << 2;
const _: () = assert!(EXTRAS + SECOND + RESCUABLE == 0b111);

impl Behind {
    pub(super) fn of(extras: bool, second: bool, rescuable: bool) -> Self {
        let bit = |is_set, bit| if is_set { bit } else { 0 };
        let rescuable = bit(second && rescuable, RESCUABLE);
        Behind(bit(extras, EXTRAS) | bit(second, SECOND) | rescuable)
    }
}

impl<M: Machine> Header<M> {
    /// Whether there are extras behind the body.
    #[inline(always)]
    pub(super) fn has_extras(&self) -> bool {
        self.behind.0 & EXTRAS != 0
    }

    /// Whether there is a second node behind the body: some scheduler is above its own.
    #[inline(always)]
    pub(super) fn has_second(&self) -> bool {
        self.behind.0 & SECOND != 0
    }

    /// Whether workers above may run it while its own are stuck.
    #[inline(always)]
    pub(super) fn is_rescuable(&self) -> bool {
        self.behind.0 & RESCUABLE != 0
    }
}
