//! A place: where one future waits for a descriptor, apart from all others that wait for it.

use super::cell::{CellTurn, HeldCell, WaitCell};
use crate::quiet::drop_quietly;
use doorbell_machine::{Machine, Readiness};
use std::fmt::Debug;
use std::task::Waker;

/// A cell without the type of its machine.
pub(super) trait AnyCell: Debug + Send + Sync {
    /// Arms it again if it still is as it was armed; `None` if an event has taken it.
    fn arm_again(&self, turn: CellTurn, wanted: Readiness, waker: &Waker) -> Option<CellTurn>;

    /// Takes the waker back, unless an event has.
    fn disarm(&self, turn: CellTurn);
}

impl<M: Machine> AnyCell for WaitCell<M> {
    fn arm_again(&self, turn: CellTurn, wanted: Readiness, waker: &Waker) -> Option<CellTurn> {
        let (_, turn) = self.hold_turn(turn)?.arm(wanted, waker);
        Some(turn)
    }

    fn disarm(&self, turn: CellTurn) {
        drop_quietly(self.hold_turn(turn).and_then(HeldCell::take));
    }
}

/// Where one task waits for a descriptor, independently of all others. Its drop leaves no waker behind.
#[derive(Debug, Default)]
pub struct Place<'a> {
    armed: Option<ArmedCell<'a>>,
}

#[derive(Debug)]
struct ArmedCell<'a> {
    /// Where the source lies, which stays there as long as this is borrowed.
    source: usize,
    cell: &'a dyn AnyCell,
    turn: CellTurn,
}

impl<'a> Place<'a> {
    /// Lets this waker wait for the source at that address: in the cell that the place has of that source, if
    /// no event has taken it, else in one that `spare` arms.
    pub(super) fn arm(
        &mut self,
        source: usize,
        (wanted, waker): (Readiness, &Waker),
        spare: impl FnOnce() -> (&'a dyn AnyCell, CellTurn),
    ) {
        if self.armed.as_ref().is_some_and(|it| it.source != source) {
            self.disarm();
        }
        if let Some(armed) = &mut self.armed
            && let Some(turn) = armed.cell.arm_again(armed.turn, wanted, waker)
        {
            armed.turn = turn;
            return;
        }
        let (cell, turn) = spare();
        self.armed = Some(ArmedCell { source, cell, turn });
    }

    /// Stops waiting.
    pub(super) fn disarm(&mut self) {
        if let Some(armed) = self.armed.take() {
            armed.cell.disarm(armed.turn);
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.disarm();
    }
}
