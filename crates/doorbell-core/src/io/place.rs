//! A place: where one future waits for a descriptor, apart from all others that wait for it.

use super::cell::{CellTurn, HeldCell, WaitCell};
use crate::quiet::drop_quietly;
use doorbell_machine::{Machine, Readiness};
use std::fmt::Debug;
use std::task::Waker;

/// A cell without the type of its machine.
pub(super) trait AnyCell: Debug + Send + Sync {
    /// Arms it again if it still is as it was armed; `None` if an event has taken it, or has ended the wait
    /// meanwhile.
    fn arm_again(&self, turn: CellTurn, wanted: Readiness, waker: &Waker) -> Option<CellTurn>;

    /// Takes the waker back. `false` if an event has taken it.
    fn disarm(&self, turn: CellTurn) -> bool;
}

impl<M: Machine> AnyCell for WaitCell<M> {
    fn arm_again(&self, turn: CellTurn, wanted: Readiness, waker: &Waker) -> Option<CellTurn> {
        let armed = self.hold_turn(turn)?.arm(turn.number(), wanted, waker);
        if armed.is_missed {
            self.disarm(armed.turn);
            return None;
        }
        Some(armed.turn)
    }

    fn disarm(&self, turn: CellTurn) -> bool {
        let held = self.hold_turn(turn);
        let was_armed = held.is_some();
        drop_quietly(held.and_then(HeldCell::take));
        was_armed
    }
}

/// Where one task waits for a descriptor, independently of all others. It is for one wait, and keeps its turn
/// until it goes: so a task that is woken too late for what there was stays the older one. Its drop leaves no
/// waker behind.
#[derive(Debug, Default)]
pub struct Place<'a> {
    /// Where the source lies, which stays there as long as this is borrowed, and the turn of the wait there.
    turn: Option<(usize, u64)>,
    armed: Option<ArmedCell<'a>>,
}

#[derive(Debug)]
struct ArmedCell<'a> {
    source: usize,
    cell: &'a dyn AnyCell,
    turn: CellTurn,
}

/// What has become of a wait.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// It has not begun.
    New,
    /// It goes on, with the waker of this poll.
    Pending,
    /// An event has ended it.
    Ended,
}

impl<'a> Place<'a> {
    /// Lets this waker go on with the wait of this place for the source at that address. If it has ended, or
    /// was for another source, the place waits for nothing until [`Place::begin`].
    pub(super) fn go_on(&mut self, source: usize, wanted: Readiness, waker: &Waker) -> Wait {
        let Some(armed) = &mut self.armed else {
            return Wait::New;
        };
        if armed.source != source {
            return if self.disarm() {
                Wait::New
            } else {
                Wait::Ended
            };
        }
        let Some(turn) = armed.cell.arm_again(armed.turn, wanted, waker) else {
            return Wait::Ended;
        };
        armed.turn = turn;
        Wait::Pending
    }

    /// The turn in which it has waited for the source at that address.
    pub(super) fn turn(&self, source: usize) -> Option<u64> {
        let (_, turn) = self.turn.filter(|(at, _)| *at == source)?;
        Some(turn)
    }

    /// Notes that it waits for the source at that address, in this cell.
    pub(super) fn begin(&mut self, source: usize, (cell, turn): (&'a dyn AnyCell, CellTurn)) {
        self.turn = Some((source, turn.number()));
        self.armed = Some(ArmedCell { source, cell, turn });
    }

    /// Stops waiting. `false` if an event had ended the wait.
    pub(super) fn disarm(&mut self) -> bool {
        let armed = self.armed.take();
        armed.is_none_or(|armed| armed.cell.disarm(armed.turn))
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.disarm();
    }
}
