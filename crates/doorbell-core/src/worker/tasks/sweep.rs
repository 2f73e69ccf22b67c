//! Tasks that a worker above runs while those of their own scheduler are stuck in long polls.
//!
//! Such a task is [rescuable](crate::task::About::rescuable). It is raised by its raised node, as one that is awaited from
//! above: its own node is queued as ever, so a raise that nobody takes costs an empty run, and no wake.
//! It is raised to the worker that wakes or spawns it, if that is a worker above which rescues
//! ([`Local::set_rescues`]), or that finds it behind a long poll ([`Sweep`]).

use crate::link::Node;
use crate::mailbox::Posted;
use crate::queue::{Chain, Greed, Queue};
use crate::scheduler::Origin;
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

/// A sweep raises so many tasks at most: their polls are brief together beside what is urgent.
const RAISED_AT_ONCE: usize = 64;

/// What a worker notes of tasks that were raised to it.
#[derive(Debug, Default)]
pub(in crate::worker) struct Raised {
    /// The task that runs is of a scheduler below.
    of_below: Cell<bool>,
    /// What is left of that one is for its own workers.
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

    /// Whether the task under poll is one that is run here because its own workers may be stuck, and nobody above
    /// awaits it: what is not certain to be brief is to be left to them.
    #[inline]
    pub fn is_rescue(&self) -> bool {
        self.raised.of_below.get()
            && self
                .poll_refs()
                .task()
                .is_some_and(TaskRef::is_rescued_only)
    }

    /// The task under poll is not to be raised for what wakes it in this poll: the rest is for its own
    /// workers. The caller wakes it.
    pub fn decline_rescue(&self) {
        self.raised.is_declined.set(true);
    }

    /// Whether rescuable tasks of schedulers below that this worker wakes and spawns are raised to it from here on.
    pub fn set_rescues(&self, rescues: bool) {
        self.raised.rescues.set(rescues);
    }
}

/// Goes through what waits at a ward, a worker of a scheduler below: rescuable tasks are raised to the caller's worker,
/// and all of it goes to the ward's scheduler again, to an idle worker if there is one.
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
    /// Of that ward.
    pub fn new(ward: RemoteRef<M>) -> Self {
        Sweep {
            ward,
            inject: None,
            queued: 0,
            taken: Queue::new(M::RING_CAPACITY),
        }
    }

    /// Goes through what waits at the ward now, and raises some rescuable tasks of it to the caller's worker, if that
    /// rescues. Nothing where the scheduler has groups. Nobody else finds what was taken, so all is put back at once.
    pub fn run(&mut self) {
        if self.ward.scheduler().groups().table().is_none() {
            self.take();
            self.put_all_back();
        }
    }

    /// Takes what waits there now. What is put back later goes into the inject queue.
    pub(crate) fn take(&mut self) {
        self.inject = self.ward.take_injected().map(|(chain, _)| chain);
        self.queued = self.ward.queue().len();
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
            let queue = self.ward.queue();
            // SAFETY: as above; the ward's worker is another thread's.
            if let Some(loot) = unsafe { queue.steal_into(&self.taken, Greed::One) } {
                self.queued = self.queued.saturating_sub(loot.count);
                return Some(loot.first);
            }
            self.queued = 0;
        }
        let chain = self.inject.take()?;
        // SAFETY: as above.
        unsafe { self.taken.take_over(chain) }.map(|loot| loot.first)
    }

    /// Queues a node as one from outside, and raises its task if it `raises`. Whether it did: one that has run here
    /// since it was queued is not raised for the node that it left.
    fn put_back(&self, node: NonNull<Node<M>>, raises: bool) -> bool {
        // SAFETY: a node that was queued has a reference of its task.
        let own = unsafe { queue_node::own_of(node) };
        let raises = raises && !M::breaks(Bug::SweepRaisesNone);
        // The task may run, and be freed, as soon as it is queued.
        let task = own.filter(|task| raises && task.header().is_rescuable());
        if let Some(task) = task {
            task.header().state.retain();
        }
        let place = self.ward.scheduler().place(&self.ward);
        // SAFETY: it has left its queue, and is one of a task that any worker of that scheduler may run.
        let raised = match unsafe { place.post_task(node, Origin::Outside) } {
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
    /// As [`TaskRef::rescue`], of a task that is rescuable. Whether it was raised.
    #[cold]
    pub(crate) fn rescue_now(self) -> bool {
        let rescuer = Local::<M>::with_current(|local| {
            let local = local.filter(|local| local.raised.rescues.get())?;
            Some(self.how_far(local.remote().scheduler().id()))
        });
        rescuer.is_some_and(|from| from != Above::default() && self.raise(from))
    }

    /// Its poll above is over, and it was woken meanwhile.
    #[cold]
    pub(crate) fn follow_above(self, woken: Wake, local: &Local<M>) {
        M::mark(Mark::TaskWokenInPoll);
        self.follow(woken, || self.submit());
        if !local.raised.is_declined.get() {
            self.rescue();
        }
    }
}
