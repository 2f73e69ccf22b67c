//! How a worker runs a task that it took from a queue, and what it does when the task is complete.

use crate::group::DEFAULT;
use crate::link::Node;
use crate::mailbox::Posted;
use crate::task::queue_node::find;
use crate::task::state::{By, Left, OwnNode, Pause, Seized, Start};
use crate::task::{Kind, TaskRef};
use crate::wheel::Base;
use crate::worker::Local;
use doorbell_machine::{Machine, Mark, Ordering, PtrWord};
use std::ptr::NonNull;
use std::task::Poll;

/// Runs the task that was taken from a queue of this worker.
///
/// # Safety
/// The node is one of a task, and has left its queue.
#[inline]
pub(in crate::worker) unsafe fn run<M: Machine>(node: NonNull<Node<M>>, local: &Local<M>) {
    // SAFETY: a node that was queued has a reference of its task.
    match unsafe { find(node) } {
        (task, By::Own) => task.run(local),
        (task, By::Raised) => task.run_above(local),
    }
}

/// Ends the task that was taken from a queue of a worker that closes.
///
/// # Safety
/// As for [`run`].
pub(in crate::worker) unsafe fn end_queued<M: Machine>(node: NonNull<Node<M>>, local: &Local<M>) {
    // SAFETY: as in `run`.
    match unsafe { find(node) } {
        (task, By::Own) => task.end_queued(local),
        // Its own node is in a queue too.
        (task, By::Raised) => task.take_back(),
    }
}

/// A worker has taken the task of this node from its mailbox.
///
/// # Safety
/// The node's delivery said that it is a task's, just now on this worker's thread.
#[inline]
pub(in crate::worker) unsafe fn take_delivered<M: Machine>(
    node: NonNull<Node<M>>,
    local: &Local<M>,
) {
    // SAFETY: the node is that of a task, which is alive while its worker's reference is held.
    let task = unsafe { TaskRef::<M>::from_node(node) };
    if task.header().state.is_complete() {
        // Completed elsewhere and sent home to leave the list.
        task.leave_list(local);
    } else if task.adopt(local) {
        // SAFETY: as above, on the worker that it is pinned to.
        unsafe { local.push_pinned(node) };
    } else {
        task.end_queued(local);
    }
}

impl<M: Machine> TaskRef<M> {
    /// Runs a task whose own node was taken from a queue.
    #[inline]
    pub(in crate::worker) fn run(self, local: &Local<M>) {
        if self.adopt(local) {
            self.run_by(By::Own, local);
        } else {
            self.end_queued(local);
        }
    }

    /// Runs a task whose node `by` was taken from a queue.
    #[inline(always)]
    pub(in crate::worker) fn run_by(self, by: By, local: &Local<M>) {
        match self.header().state.start(by) {
            Start::Poll => self.poll_by(by, local),
            Start::Cancel => self.end_running(by, local),
            Start::Over => self.dispose(local),
            Start::Late => {}
        }
    }

    #[inline(always)]
    fn poll_by(self, by: By, local: &Local<M>) {
        if by == By::Own {
            self.move_to(local);
        }
        let base = match self.header().kind {
            Kind::Pinned => Base::Local,
            Kind::Task | Kind::Call => Base::Global,
        };
        local.set_base(base);
        local.set_rank(self.header().rank);
        let poll = || {
            if self.header().has_extras() {
                self.poll_recorded(local)
            } else {
                self.poll_plain(local)
            }
        };
        let polled = match by {
            By::Own => {
                let before = self.length();
                let (polled, after) = local.measured(before, poll);
                if after != before {
                    self.set_length(after);
                }
                polled
            }
            By::Raised => poll(),
        };
        local.set_base(Base::Global);
        if polled.is_ready() {
            return self.end(by, local);
        }
        match self.header().state.pause() {
            Pause::Idle => {}
            Pause::Cancel => self.end_running(by, local),
            Pause::Woken(woken) => match by {
                By::Own => self.follow(woken, || self.push_again(local)),
                By::Raised => {
                    M::mark(Mark::TaskWokenInPoll);
                    self.follow(woken, || self.submit());
                }
            },
        }
    }

    /// Ends a task whose own node was taken from a queue of a worker that closes. It does not adopt the task.
    pub(in crate::worker) fn end_queued(self, local: &Local<M>) {
        // If a raised run polls the task, that run sees CANCELLED and ends it.
        let _ = self.header().state.cancel();
        self.run_by(By::Own, local);
    }

    /// Cancelled, and RUNNING is this worker's.
    fn end_running(self, by: By, local: &Local<M>) {
        // Tasks that the drop spawns get the rank of this task.
        local.set_rank(self.header().rank);
        self.drop_future();
        self.end(by, local);
    }

    /// Its output is stored, and RUNNING is this worker's.
    #[inline]
    fn end(self, by: By, local: &Local<M>) {
        self.finish();
        // Otherwise the worker that takes the own node disposes.
        if by == By::Own || !self.header().state.is_behind() {
            self.dispose(local);
        }
    }

    /// Records this worker as the last one. The caller has RUNNING.
    #[inline]
    fn move_to(self, local: &Local<M>) {
        let here = local.remote().as_ptr();
        // ORDER: Relaxed, as in `last`.
        if self.header().last.load(Ordering::Relaxed) != here {
            // ORDER: Relaxed, as in `last`.
            self.header().last.store(here, Ordering::Relaxed);
        }
    }

    /// Polls it once. The caller has RUNNING.
    #[inline]
    pub(crate) fn poll_plain(self, local: &Local<M>) -> Poll<()> {
        local.poll_refs().during(self, |waker| self.poll(waker))
    }

    /// Its output is stored.
    pub(in crate::worker) fn finish(self) {
        if self.header().has_extras() {
            self.note_finish();
        }
        self.complete();
    }

    /// Enters the worker's list, if it is in none yet. The caller has taken its own node from a queue, or is about to
    /// put it into one of this worker. `false` if a visitor has the list: the runtime ends, and the task with it.
    #[inline]
    pub(in crate::worker) fn adopt(self, local: &Local<M>) -> bool {
        let remote = local.remote();
        self.has_settled() || remote.task_list().enter(self, remote.worker() as u16)
    }

    /// A complete task leaves the list of its home worker, which this is, and the worker's reference goes. If a visitor
    /// seizes the task at this moment, of the two the one that comes second drops that reference.
    fn leave_list(self, local: &Local<M>) {
        if local.remote().task_list().remove(self) {
            self.release();
        } else {
            self.leave();
        }
    }

    /// A complete task leaves its group and its home worker's list, and the worker's reference goes.
    fn dispose(self, local: &Local<M>) {
        self.leave_group();
        let Some(home) = self.home() else {
            return self.release();
        };
        // A raised run's worker is of another scheduler than the home worker.
        let home = &self.last().scheduler().remotes()[home];
        if local.is(home) {
            return self.leave_list(local);
        }
        // Only that worker may touch its list.
        // SAFETY: the node is in no queue, and the reference goes with it.
        match unsafe { local.send_home(home, self.node()) } {
            Posted::Yes => {}
            Posted::Closed => self.leave(),
        }
    }

    /// A task that has ended does not count in its group any more. The caller has the worker's reference, and the own
    /// node is in no queue.
    pub(in crate::worker) fn leave_group(self) {
        let group = self.header().group;
        if group == DEFAULT {
            return;
        }
        let table = self.last().scheduler().groups().table();
        if let Some(slot) = table.and_then(|table| table.slot(group)) {
            slot.leave();
        }
    }

    /// Leaves the worker's reference, which the caller has and cannot hand on, to the home worker, or drops it.
    pub(crate) fn leave(self) {
        match self.header().state.leave() {
            Left::ToHome => {}
            Left::ToCaller => self.release(),
        }
    }

    /// Ends a task of a worker that closes. It has left the list.
    pub(in crate::worker) fn end_at_close(self) {
        self.end_seized(self.header().state.seize());
    }

    /// Ends a task that was seized, as far as that is the caller's.
    pub(in crate::worker) fn end_seized(self, seized: Seized) {
        match seized {
            Seized::Elsewhere => {}
            Seized::ElsewhereAndLeft => self.release(),
            Seized::Mine(own_node) => {
                self.drop_future();
                self.finish();
                // Otherwise the worker that takes the own node disposes.
                if own_node == OwnNode::Free {
                    self.leave_group();
                }
                self.release();
            }
        }
    }
}
