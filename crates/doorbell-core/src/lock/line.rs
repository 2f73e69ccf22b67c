//! The line: the turns of the tasks that wait for a lock. It belongs to the keeper.

use super::turn::Half;
use crate::task::{Above, TaskRef};
use doorbell_machine::Machine;
use std::collections::VecDeque;

pub(super) struct Line<M: Machine> {
    /// In order of arrival.
    waiting: VecDeque<Half<M>>,
    /// From how far above the holder has inherited by this lock.
    inherited: Above,
}

impl<M: Machine> Line<M> {
    pub(super) fn new() -> Self {
        Line {
            waiting: VecDeque::new(),
            inherited: Above::default(),
        }
    }

    pub(super) fn append(&mut self, turn: Half<M>) {
        self.waiting.push_back(turn);
    }

    /// Whether no task waits. Drops the turns of futures that are gone.
    pub(super) fn is_empty(&mut self) -> bool {
        self.waiting.retain(|turn| !turn.is_withdrawn());
        self.waiting.is_empty()
    }

    /// Takes out the most urgent turn, the oldest among equals.
    pub(super) fn take_next(&mut self) -> Option<Half<M>> {
        let waiting = self.waiting.iter().enumerate();
        // `max_by_key` returns the last maximum, and in reverse order that is the oldest.
        let (at, _) = waiting.rev().max_by_key(|(_, turn)| turn.urgency())?;
        self.waiting.remove(at)
    }

    /// Makes the holder inherit from the schedulers for which the tasks in the line wait.
    pub(super) fn inherit(&mut self, holder: Option<TaskRef<M>>) {
        let Some(holder) = holder else { return };
        let waiting = self.waiting.iter();
        self.inherited = waiting.fold(self.inherited, |inherited, turn| {
            holder.inherit_by_lock(turn.scheduler(), inherited)
        });
    }

    /// Ends what the holder inherited by this lock: it has let go, or no task waits.
    pub(super) fn disinherit(&mut self, holder: Option<TaskRef<M>>) {
        let inherited = std::mem::take(&mut self.inherited);
        if let Some(task) = holder.filter(|_| inherited != Above::default()) {
            task.disinherit_by_lock();
        }
    }
}
