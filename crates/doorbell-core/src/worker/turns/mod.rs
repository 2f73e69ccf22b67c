//! Turns: all that differs between workers that run tasks by arrival, by rank, and by share. The loop asks the functions
//! of this page, and knows none of the three.
//!
//! A scheduler is by rank (class Rt) or by arrival ([`Turns`]). A worker by arrival goes over to turns by share while
//! tasks of groups are about.
//!
//! | question | by arrival (`arrival.rs`) | by rank (`rank.rs`) | by share (`share.rs`) |
//! |---|---|---|---|
//! | which task is next? | the stolen one, the oldest ready one, a deferred one | that of the highest rank | the stolen one, else one of the group that has had the least; in the default group as by arrival |
//! | where does a task go that yields, or makes long polls? | it is deferred | behind its equals | behind its group; in the default group it is deferred |
//! | before a poll? | nothing | take what waits above that task at others | nothing |
//! | when is the clock read? | after at most 8 polls | after each poll | after each poll, which its group is charged for |
//! | who takes a single task that waits? | its worker, unless the present poll goes on for long | any idle worker, at once | as by arrival |
//! | what does a theft take? | half; the first runs next | the one of the highest rank | a part of each group's; the first runs next |
//! | who gets a task, if no worker is idle? | the worker that ran it last | the worker that runs the lowest rank below its own (`scheduler/push/`) | as by arrival |
//! | who looks for a worker that parks? | itself | the holder of the push token, in a large scheduler | itself |
//!
//! Which of them it is, is asked at run time. A static parameter of [`Worker`] could not say it: a waker finds the worker
//! of its thread without knowing of which kind it is.

mod arrival;
mod rank;
mod share;
mod shuffle;

use super::local::Ran;
use super::{Local, Worker};
use crate::group::WorkerGroups;
use crate::link::Node;
use crate::queue::{Chain, Greed, Round};
use crate::scheduler::{Member, Turns};
use doorbell_machine::{Bug, Machine};
use shuffle::Shuffle;
use std::cell::Cell;
use std::ptr::NonNull;

/// What a worker keeps for its turns, beside its queues.
#[derive(Debug)]
pub(in crate::worker) struct OwnTurns<M: Machine> {
    /// A task that the worker stole and runs next.
    stolen: Cell<Option<NonNull<Node<M>>>>,
    /// Whose turn it is when pinned and movable tasks are ready.
    round: Round,
    /// With it, tasks are not taken in order.
    shuffle: Option<Shuffle>,
    /// What the worker knows about groups.
    groups: WorkerGroups,
}

impl<M: Machine> OwnTurns<M> {
    pub(in crate::worker) fn of(remote: &Member<M>) -> Self {
        let seed = remote.scheduler().shuffle();
        OwnTurns {
            stolen: Cell::new(None),
            round: Round::default(),
            shuffle: seed.map(|seed| Shuffle::of(seed, remote.worker())),
            groups: WorkerGroups::default(),
        }
    }
}

impl<M: Machine> Local<M> {
    /// Whether the worker has stolen a task that it runs next.
    #[inline]
    pub(in crate::worker) fn has_stolen(&self) -> bool {
        self.turns.stolen.get().is_some()
    }

    /// Takes out that task.
    #[inline]
    pub(in crate::worker) fn take_stolen(&self) -> Option<NonNull<Node<M>>> {
        self.turns.stolen.take()
    }

    /// A stolen task is to run next. None waits for that yet.
    pub(in crate::worker) fn set_stolen(&self, node: NonNull<Node<M>>) {
        self.turns.stolen.set(Some(node));
    }

    /// The order in which this worker runs its tasks.
    #[inline]
    pub fn turns(&self) -> Turns {
        match self.ready().order() {
            None => Turns::ByArrival,
            Some(_) => Turns::ByRank,
        }
    }

    /// Runs the next task once, unless the worker is to make a pass before.
    #[inline]
    pub(in crate::worker) fn run_next(&self) -> Ran {
        if self.turns.groups.is_on() {
            return self.run_next_by_share();
        }
        match self.ready().order() {
            None => self.run_next_by_arrival(),
            Some(order) => self.run_next_by_rank(order),
        }
    }

    /// Takes out the next task.
    pub(in crate::worker) fn next(&self) -> Option<NonNull<Node<M>>> {
        if let Some(stolen) = self.take_stolen() {
            return Some(stolen);
        }
        if self.turns.groups.is_on() {
            return self.next_by_share();
        }
        self.next_of_default()
    }

    /// Takes out the next task of the default group: what is ready, else what is deferred. While the deferred queue has a
    /// slice, what is deferred goes first.
    fn next_of_default(&self) -> Option<NonNull<Node<M>>> {
        if self.has_slice() {
            return self.next_deferred();
        }
        self.next_ready().or_else(|| self.next_deferred())
    }

    /// Takes out the next task of the default group that is ready.
    pub(in crate::worker) fn next_ready(&self) -> Option<NonNull<Node<M>>> {
        match self.ready().order() {
            None => self.next_by_arrival(),
            Some(order) => self.next_by_rank(order),
        }
    }

    /// Appends tasks that came together, from an inject queue.
    pub(in crate::worker) fn push_chain(&self, chain: Chain<M>) {
        if self.remote().scheduler().groups().table().is_some() {
            return self.push_chain_by_group(chain);
        }
        // SAFETY: this worker owns its remote half's queue, and the chain is of tasks for it.
        unsafe { self.remote().queue().push_chain(chain) };
        self.list();
    }

    /// Steals tasks from another worker of the scheduler. With `inject`, also from that worker's inject queue.
    /// Returns how many. `None` if it stole none. A worker that has something to run steals only with
    /// [`Greed::Single`].
    pub fn steal(&self, victim: &Member<M>, greed: Greed, inject: bool) -> Option<u64> {
        if greed != Greed::Single && !self.is_empty() && !M::breaks(Bug::SpinStealsFull) {
            return None;
        }
        if self.has_stolen() {
            return None;
        }
        if self.turns() == Turns::ByRank {
            self.steal_by_rank(victim, greed, inject)
        } else if self.remote().scheduler().groups().table().is_some() {
            self.steal_by_share(victim, greed, inject)
        } else {
            self.steal_by_arrival(victim, greed, inject)
        }
    }
}

impl<M: Machine> Worker<M> {
    /// Before each poll.
    #[inline(always)]
    pub(super) fn before_poll(&self) {
        if let Some(own) = &self.own_rank
            && self.has_others()
        {
            self.before_poll_by_rank(own);
        }
    }

    /// After each poll: whether it is time to read the clock.
    #[inline(always)]
    pub(super) fn is_time_to_read(&self) -> bool {
        self.local.pace().count() || self.local.times_polls()
    }
}
