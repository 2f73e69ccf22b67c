//! A worker as a member of its scheduler: its remote half, and what other workers do with it.

use super::offline::OffWord;
use super::{RemoteRef, Scheduler};
use crate::group;
use crate::link::Node;
use crate::mailbox::{Post, Posted, Pushed};
use crate::queue::Queue;
use crate::task::home::TaskList;
use crate::wheel::{Gate, SharedGate, Visited};
use crate::worker::remote::{Remote, RemoteSpec, posted_twice};
use doorbell_machine::{Bug, Line, Machine};
use std::ptr::NonNull;
use std::sync::Arc;

/// A worker as a member of its scheduler. It is the worker's [remote half](Remote), and leads to the scheduler.
pub struct Member<M: Machine> {
    remote: Remote<M>,
    gate: SharedGate<M, RemoteRef<M>>,
    scheduler: NonNull<Scheduler<M>>,
    off: OffWord<M>,
    tasks: M::Line<TaskList<M>>,
}

// SAFETY: the pointer leads to the scheduler that the member is part of, which lives as long.
unsafe impl<M: Machine> Sync for Member<M> {}
// SAFETY: as for Sync.
unsafe impl<M: Machine> Send for Member<M> {}

impl<M: Machine> std::fmt::Debug for Member<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.remote.fmt(f)
    }
}

impl<M: Machine> std::ops::Deref for Member<M> {
    type Target = Remote<M>;

    #[inline(always)]
    fn deref(&self) -> &Remote<M> {
        &self.remote
    }
}

impl<M: Machine> Member<M> {
    /// A new member of the scheduler at that address.
    pub(crate) fn new(spec: RemoteSpec<M>, scheduler: NonNull<Scheduler<M>>) -> Self {
        Member {
            remote: Remote::new(spec),
            gate: Arc::new(M::Line::new(Gate::default)),
            scheduler,
            off: OffWord::default(),
            tasks: M::Line::new(TaskList::default),
        }
    }

    /// The tasks whose home is this worker.
    #[inline(always)]
    pub(crate) fn task_list(&self) -> &TaskList<M> {
        &self.tasks
    }

    /// Whether the worker was taken off; see [`Scheduler::take_off`].
    #[inline(always)]
    pub fn is_off(&self) -> bool {
        self.off.is_off()
    }

    pub(crate) fn off_word(&self) -> &OffWord<M> {
        &self.off
    }

    /// The scheduler that the worker is part of.
    #[inline(always)]
    pub fn scheduler(&self) -> &Scheduler<M> {
        // SAFETY: the member is part of it.
        unsafe { self.scheduler.as_ref() }
    }

    /// The scheduler's address, as it was allocated. Only this pointer may free it, not one made from a reference.
    #[inline(always)]
    pub(crate) fn scheduler_ptr(&self) -> NonNull<Scheduler<M>> {
        self.scheduler
    }

    /// The worker's queue of a group's tasks that may run anywhere; `None` if the group is not open.
    #[inline]
    pub(crate) fn queue_of(&self, group: u8) -> Option<&Queue<M>> {
        if group == group::DEFAULT {
            return Some(self.queue());
        }
        let table = self.scheduler().groups().table()?;
        Some(&table.place(group, self.worker())?.queue)
    }

    /// Whether other workers may find a task in a queue of this worker.
    #[inline]
    pub(crate) fn has_queued(&self) -> bool {
        !self.queue().is_empty()
            || !self.deferred().is_empty()
            || self.scheduler().groups().has_queued(self.worker())
    }

    /// About how many tasks of this worker others can take.
    pub fn queued_len(&self) -> u64 {
        let grouped = self.scheduler().groups().queued_len(self.worker());
        self.queue().len() + self.deferred().len() + grouped
    }

    /// The gate, which decides who may touch the worker's wheel.
    #[inline(always)]
    pub(crate) fn gate(&self) -> &SharedGate<M, RemoteRef<M>> {
        &self.gate
    }

    /// Whether the worker sleeps and has left its timers to others. For oracles.
    pub fn has_left_timers(&self) -> bool {
        self.gate.is_lent()
    }

    /// Posts a task that any worker of the scheduler may run. If this worker is running, it may be inside a long
    /// poll, so the task is offered to an idle worker.
    ///
    /// # Panics
    /// As for [`Remote::post`].
    ///
    /// # Safety
    /// As for [`Remote::post`]; the node is one of a task that any worker of the scheduler may run.
    pub(crate) unsafe fn post_task(&self, node: NonNull<Node<M>>) -> Posted {
        // SAFETY: passed on from the caller.
        unsafe { self.post_task_then(node) }.0
    }

    /// As [`Member::post_task`]. Returns what the push found, too.
    ///
    /// # Safety
    /// As for [`Member::post_task`].
    pub(super) unsafe fn post_task_then(&self, node: NonNull<Node<M>>) -> (Posted, Pushed) {
        // SAFETY: passed on from the caller.
        let pushed = unsafe { self.push_injected(node) };
        let posted = self.make_known(pushed);
        if posted == Posted::Yes && self.is_inside() && !M::breaks(Bug::SchedulerPostUnoffered) {
            self.scheduler().offer(self.worker());
        }
        (posted, pushed)
    }

    /// Posts a task to this worker, which the caller has found idle, unless another task lies there: `None` then, and
    /// the task is the caller's still.
    ///
    /// # Panics
    /// As for [`Remote::post`].
    ///
    /// # Safety
    /// As for [`Member::post_task`].
    pub(crate) unsafe fn post_first(&self, node: NonNull<Node<M>>) -> Option<Posted> {
        // SAFETY: passed on from the caller.
        let pushed = unsafe { self.push_injected_first(node) };
        match pushed {
            Pushed::First => {
                // First, because other callers write the word of the work set at the same moment.
                self.tell(pushed);
                self.scheduler().work().add(self.worker());
                Some(Posted::Yes)
            }
            Pushed::Behind => None,
            Pushed::Closed => Some(Posted::Closed),
            Pushed::Twice => posted_twice(),
        }
    }

    /// After a push to the inject queue of a worker that may not take it soon: lists the worker, and tells it. Behind
    /// the fence of that, other workers find the task.
    fn make_known(&self, pushed: Pushed) -> Posted {
        match pushed {
            Pushed::First | Pushed::Behind => {
                // The worker may have become idle meanwhile.
                M::fence_recheck();
                self.scheduler().work().add(self.worker());
                self.tell(pushed);
                Posted::Yes
            }
            Pushed::Closed => Posted::Closed,
            Pushed::Twice => posted_twice(),
        }
    }

    /// Whether this worker has tasks that another worker may take.
    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        self.has_queued() || self.has_injected()
    }
}

impl<M: Machine> Visited<M> for Member<M> {
    fn parker(&self) -> &M::Parker {
        Remote::parker(self)
    }

    fn polls(&self) -> u64 {
        self.pulse_seen()
    }

    fn publish_next_global(&self, when_ns: u64) {
        Remote::publish_next_global(self, when_ns);
        if let Some(tree) = self.scheduler().tree() {
            tree.note(self.worker(), when_ns);
        }
    }
}

// SAFETY: each node in the mailbox is delivered once, by the worker whose mailbox it is.
unsafe impl<M: Machine> Post<M> for Member<M> {
    #[inline]
    unsafe fn post(&self, node: NonNull<Node<M>>) -> Posted {
        // SAFETY: passed on from the caller.
        unsafe { Remote::post(self, node) }
    }

    #[inline]
    unsafe fn post_entered(&self, node: NonNull<Node<M>>) -> Posted {
        // SAFETY: passed on from the caller.
        unsafe { Remote::post_entered(self, node) }
    }
}
