//! Those that wait for a lock. Of who keeps it.

use super::turn::Half;
use crate::task::{Above, TaskRef};
use doorbell_machine::Machine;
use std::collections::VecDeque;

pub(super) struct Line<M: Machine> {
    /// In the order in which they came.
    waiting: VecDeque<Half<M>>,
    /// From how far above the holder inherited for this lock.
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

    pub(super) fn is_empty(&mut self) -> bool {
        self.waiting.retain(|turn| !turn.is_withdrawn());
        self.waiting.is_empty()
    }

    /// The most urgent one, of equals the oldest.
    pub(super) fn take_next(&mut self) -> Option<Half<M>> {
        let waiting = self.waiting.iter().enumerate();
        // The last of the highest from behind is the oldest of them.
        let (at, _) = waiting.rev().max_by_key(|(_, turn)| turn.urgency())?;
        self.waiting.remove(at)
    }

    /// The holder is awaited from where those in the line wait.
    pub(super) fn inherit(&mut self, holder: Option<TaskRef<M>>) {
        let Some(holder) = holder else { return };
        let waiting = self.waiting.iter();
        self.inherited = waiting.fold(self.inherited, |inherited, turn| {
            holder.inherit_by_lock(turn.scheduler(), inherited)
        });
    }

    /// The holder has let go, or is awaited by nobody any more.
    pub(super) fn disinherit(&mut self, holder: Option<TaskRef<M>>) {
        let inherited = std::mem::take(&mut self.inherited);
        if let Some(task) = holder.filter(|_| inherited != Above::default()) {
            task.disinherit_by_lock();
        }
    }
}
