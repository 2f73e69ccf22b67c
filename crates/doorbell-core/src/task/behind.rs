//! What lies behind the body of a task.

use super::cell::Header;
use doorbell_machine::Machine;

/// What lies behind the body of a task. One byte: with two the header would be a word longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Behind {
    Nothing,
    Extras,
    /// A second node: some crew is above its own.
    Second,
    Both,
}

impl Behind {
    pub(super) fn of(extras: bool, second: bool) -> Self {
        match (extras, second) {
            (false, false) => Behind::Nothing,
            (true, false) => Behind::Extras,
            (false, true) => Behind::Second,
            (true, true) => Behind::Both,
        }
    }
}

impl<M: Machine> Header<M> {
    /// Whether there are extras behind the body.
    #[inline(always)]
    pub(super) fn has_extras(&self) -> bool {
        matches!(self.behind, Behind::Extras | Behind::Both)
    }

    /// Whether there is a second node behind the body: some crew is above its own.
    #[inline(always)]
    pub(super) fn has_second(&self) -> bool {
        matches!(self.behind, Behind::Second | Behind::Both)
    }
}
