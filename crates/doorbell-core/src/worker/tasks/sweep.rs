//! Tasks that a worker above runs while those of their own scheduler are stuck in long polls.
//!
//! Such a task is [rescuable](crate::task::About::rescuable). Its raised node is queued above, as that of a task that
//! is awaited from above. Its own node is queued as ever, so no wake is lost if no worker takes the raised node.
//! A worker above that rescues ([`Local::set_rescues`]) raises to itself what it wakes or spawns, and what it
//! finds behind a long poll ([`Sweep`]).

use super::place::place;
use crate::link::Node;
use crate::mailbox::Posted;
use crate::queue::{Chain, Greed, Queue};
use crate::scheduler::RemoteRef;
use crate::task::TaskRef;
use crate::task::queue_node;
use crate::task::state::Wake;
use crate::task::state_inheritance::Above;
use crate::worker::Local;
use doorbell_machine::{Bug, Machine, Mark};
use std::cell::Cell;
use std::fmt;
use std::ptr::NonNull;

/// A sweep raises at most this many tasks, so that their polls together do not delay urgent ones for long.
const RAISED_AT_ONCE: usize = 64;

/// What a worker records about tasks that were raised to it.
#[derive(Debug, Default)]
pub(in crate::worker) struct Raised {
    /// Whether the task that runs is of a scheduler below.
    of_below: Cell<bool>,
    /// Whether that task is left to its own workers from here on.
    is_declined: Cell<bool>,
    /// Whether the worker rescues.
    rescues: Cell<bool>,
}

impl<M: Machine> Local<M> {
    /// As [`Local::rank`], if the task under poll is of a scheduler below, which raised it to this worker.
    #[inline]
    pub fn raised_rank(&self) -> Option<u8> {
        self.raised.of_below.get().then(|| self.rank())
    }

    /// Runs a task that a scheduler below raised.
    pub(crate) fn as_raised(&self, run: impl FnOnce()) {
        let before = self.rank();
        self.raised.of_below.set(true);
        self.raised.is_declined.set(false);
        // Does not unwind: a task's panics are caught where its future is polled.
        run();
        self.raised.of_below.set(false);
        self.set_rank(before);
    }

    /// Whether the task under poll is run here only because its own workers may be stuck: no task above awaits it. Such
    /// a poll should leave to its own workers whatever may take long.
    #[inline]
    pub fn is_rescue(&self) -> bool {
        self.raised.of_below.get()
            && self
                .poll_refs()
                .task()
                .is_some_and(TaskRef::is_rescued_only)
    }

    /// Leaves the rest of the task under poll to its own workers: a wake in this poll does not raise it. The caller
    /// wakes it.
    pub fn decline_rescue(&self) {
        self.raised.is_declined.set(true);
    }

    /// Sets whether this worker rescues: whether rescuable tasks of schedulers below that it wakes or spawns are raised
    /// to it.
    pub fn set_rescues(&self, rescues: bool) {
        self.raised.rescues.set(rescues);
    }
}

/// Takes the tasks that wait at a ward, a worker of a scheduler below, and posts each to the ward's scheduler again, to
/// an idle worker if there is one. It raises rescuable tasks to the caller's worker.
pub struct Sweep<M: Machine> {
    ward: RemoteRef<M>,
    /// What was in the ward's inject queue.
    inject: Option<Chain<M>>,
    /// How many tasks of the ward's queue are left to take.
    queued: u64,
    taken: Queue<M>,
}

// SAFETY: it has the nodes that it took, which any thread may put into a queue.
unsafe impl<M: Machine> Send for Sweep<M> {}

impl<M: Machine> fmt::Debug for Sweep<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sweep")
            .field("queued", &self.queued)
            .finish_non_exhaustive()
    }
}

impl<M: Machine> Sweep<M> {
    /// A sweep of that ward.
    pub fn new(ward: RemoteRef<M>) -> Self {
        Sweep {
            ward,
            inject: None,
            queued: 0,
            taken: Queue::new(M::RING_CAPACITY),
        }
    }

    /// Takes what waits at the ward now, puts all of it back, and raises up to 64 rescuable tasks to the caller's
    /// worker, if that worker rescues. Does nothing if the scheduler has groups. No other worker can find a taken task,
    /// so all are put back before this returns.
    pub fn run(&mut self) {
        if self.ward.scheduler().groups().table().is_none() {
            self.take();
            self.put_all_back();
        }
    }

    /// Takes what waits there now. What is put back later goes into the inject queue.
    pub(crate) fn take(&mut self) {
        self.inject = self.ward.take_injected().map(|(chain, _)| chain);
        self.queued = self.ward.queue().len() + self.ward.deferred().len();
    }

    pub(crate) fn put_all_back(&mut self) {
        let mut raised = 0;
        while let Some(node) = self.next() {
            raised += usize::from(self.put_back(node, raised < RAISED_AT_ONCE));
            if raised > 0 && M::breaks(Bug::SweepKeepsRest) {
                return;
            }
        }
    }

    fn next(&mut self) -> Option<NonNull<Node<M>>> {
        // SAFETY: this thread is the only one that has the sweep.
        if let Some(node) = unsafe { self.taken.pop() } {
            return Some(node);
        }
        if self.queued > 0 {
            let queues = [self.ward.queue(), self.ward.deferred()];
            // SAFETY: as above; the ward's worker is another thread's.
            let take = |queue: &Queue<M>| unsafe { queue.steal_into(&self.taken, Greed::One) };
            if let Some(loot) = queues.into_iter().find_map(take) {
                self.queued = self.queued.saturating_sub(loot.count);
                return Some(loot.first);
            }
            self.queued = 0;
        }
        let chain = self.inject.take()?;
        // SAFETY: as above.
        unsafe { self.taken.take_over(chain) }.map(|loot| loot.first)
    }

    /// Queues a node as one from outside, and raises its task if `raises`. Returns whether it raised the task. The
    /// state word may refuse: the task may have run by its raised node since its own node was queued.
    fn put_back(&self, node: NonNull<Node<M>>, raises: bool) -> bool {
        // SAFETY: a node that was queued has a reference of its task.
        let own = unsafe { queue_node::own_of(node) };
        let raises = raises && !M::breaks(Bug::SweepRaisesNone);
        // The task may run, and be freed, as soon as it is queued.
        let task = own.filter(|task| raises && task.header().is_rescuable());
        if let Some(task) = task {
            task.header().state.retain();
        }
        // SAFETY: it has left its queue, and is one of a task that any worker of that scheduler may run.
        let raised = match unsafe { place(self.ward.scheduler(), &self.ward, node) } {
            Posted::Yes => task.is_some_and(TaskRef::rescue_now),
            Posted::Closed => {
                if !M::breaks(Bug::SweepForgetsRefused) {
                    // SAFETY: as above; refused, it is in no queue.
                    unsafe { Self::end(node) };
                }
                false
            }
        };
        if let Some(task) = task {
            task.release();
        }
        raised
    }
}

impl<M: Machine> Sweep<M> {
    /// The scheduler's workers have ended, and this node was in none of their queues: its task ends here.
    ///
    /// # Safety
    /// The node is that of a task, and is in no queue.
    unsafe fn end(node: NonNull<Node<M>>) {
        // SAFETY: passed on.
        let own = unsafe { queue_node::own_of(node) };
        Local::<M>::with_current(|local| match (own, local) {
            (Some(task), Some(local)) => {
                let rank = local.rank();
                task.end_queued(local);
                local.set_rank(rank);
            }
            // No worker drops what has one: it lies in the future of a task.
            (Some(task), None) => task.leave(),
            // SAFETY: passed on.
            (None, _) => unsafe { queue_node::refused(node) },
        });
    }
}

impl<M: Machine> TaskRef<M> {
    /// As [`TaskRef::rescue`], for a task that is rescuable. Returns whether it was raised.
    #[cold]
    pub(crate) fn rescue_now(self) -> bool {
        let rescuer = Local::<M>::with_current(|local| {
            let local = local.filter(|local| local.raised.rescues.get())?;
            Some(self.how_far(local.remote().scheduler().id()))
        });
        rescuer.is_some_and(|from| from != Above::default() && self.raise(from))
    }

    /// Queues and raises a task that was woken during a raised poll, which is over.
    #[cold]
    pub(crate) fn follow_above(self, woken: Wake, local: &Local<M>) {
        M::mark(Mark::TaskWokenInPoll);
        self.follow(woken, || self.submit());
        if !local.raised.is_declined.get() {
            self.rescue();
        }
    }
}
