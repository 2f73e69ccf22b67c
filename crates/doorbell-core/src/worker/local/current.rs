//! The poll under way, as its worker knows it.

use super::{Local, PollBudget};
use crate::task::TaskRef;
use crate::task::poll_refs::PollRefs;
use doorbell_machine::Machine;
use std::cell::Cell;

/// What a worker knows of the poll under way.
#[derive(Debug)]
pub(super) struct Current<M: Machine> {
    /// The rank of the task or call, or of the last one.
    rank: Cell<u8>,
    /// Whether the task is a raised one, of a scheduler below.
    runs_below: Cell<bool>,
    /// How many ready operations the poll may still complete.
    budget: PollBudget,
    refs: PollRefs<M>,
}

impl<M: Machine> Current<M> {
    pub(super) fn new() -> Self {
        Current {
            rank: Cell::new(0),
            runs_below: Cell::new(false),
            budget: PollBudget::default(),
            refs: PollRefs::new(),
        }
    }

    /// A poll is about to begin.
    #[inline(always)]
    pub(super) fn begin(&self) {
        self.budget.refill();
    }
}

impl<M: Machine> Local<M> {
    /// The rank of the task under poll: the one that it was launched with, or that a call has
    /// [set](Local::set_rank) since.
    #[inline]
    pub fn rank(&self) -> u8 {
        self.current.rank.get()
    }

    /// As [`Local::rank`], if the task under poll is of a scheduler below, which raised it to this worker.
    #[inline]
    pub fn raised_rank(&self) -> Option<u8> {
        self.current.runs_below.get().then(|| self.rank())
    }

    /// Sets whether the worker runs a task that a scheduler below raised.
    pub(in crate::worker) fn set_runs_below(&self, runs_below: bool) {
        self.current.runs_below.set(runs_below);
    }

    /// Sets the rank of the call that runs now.
    pub fn set_rank(&self, rank: u8) {
        self.current.rank.set(rank);
    }

    /// The references that the worker owes to the state word of the task under poll.
    #[inline]
    pub(crate) fn poll_refs(&self) -> &PollRefs<M> {
        &self.current.refs
    }

    /// The number of the task under poll; `None` between polls.
    pub fn task_id(&self) -> Option<u64> {
        self.poll_refs().task().map(TaskRef::id)
    }

    /// A number that changes when a poll begins, and when it ends.
    pub fn poll_number(&self) -> u64 {
        let in_poll = u64::from(self.poll_refs().is_in_poll());
        self.remote().pulse().wrapping_mul(2) + in_poll
    }

    /// The budget of the current poll. `None` outside of a poll, as in calls and hooks: no operation is refused there.
    #[inline]
    pub fn budget(&self) -> Option<&PollBudget> {
        self.poll_refs()
            .is_in_poll()
            .then_some(&self.current.budget)
    }
}
