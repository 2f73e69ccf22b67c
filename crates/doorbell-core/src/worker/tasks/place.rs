//! Finishes a placement: places again the tasks of a worker that was busy after all.

use crate::link::Node;
use crate::mailbox::Posted;
use crate::queue::Chain;
use crate::scheduler::{Member, Placed, Scheduler};
use crate::task::TaskRef;
use crate::task::queue_node;
use crate::task::state::{By, Start};
use crate::worker::Local;
use doorbell_machine::Machine;
use std::ptr::NonNull;

/// Places a task, by [`Scheduler::place_task`].
///
/// # Safety
/// As for [`Member::post_task`].
pub(crate) unsafe fn place<M: Machine>(
    scheduler: &Scheduler<M>,
    prefer: &Member<M>,
    node: NonNull<Node<M>>,
) -> Posted {
    // SAFETY: passed on.
    finish_placement(unsafe { scheduler.place_task(prefer, is_own_core(scheduler, prefer), node) })
}

/// Whether the calling thread is the worker of another class on the core of that worker.
fn is_own_core<M: Machine>(scheduler: &Scheduler<M>, prefer: &Member<M>) -> bool {
    Local::<M>::with_current(|local| {
        local.is_some_and(|local| {
            !local.is_of(scheduler) && local.remote().worker() == prefer.worker()
        })
    })
}

/// Finishes a placement.
#[allow(
    clippy::needless_pass_by_value,
    reason = "the placement is over afterwards"
)]
pub(in crate::worker) fn finish_placement<M: Machine>(placed: Placed<'_, M>) -> Posted {
    match placed {
        Placed::Yes => Posted::Yes,
        Placed::Behind(worker) => {
            spread(worker);
            Posted::Yes
        }
        Placed::Closed => Posted::Closed,
    }
}

/// Places anew each task of a worker's inject queue. No other worker can find them meanwhile.
#[cold]
fn spread<M: Machine>(from: &Member<M>) {
    if let Some((chain, _)) = from.take_injected() {
        if let Some(push) = from.scheduler().push() {
            let _ = from.scheduler().clear_overloaded(push, from.worker());
        }
        place_anew(from, chain);
    }
}

/// Places each of the tasks that were taken out of a worker's inject queue.
pub(in crate::worker) fn place_anew<M: Machine>(from: &Member<M>, chain: Chain<M>) {
    chain.drain(|node| {
        // SAFETY: a task that was posted, in no queue.
        match unsafe { from.scheduler().place_task(from, false, node) } {
            Placed::Yes => {}
            // A task is placed again only once. Then it waits like any task behind a poll.
            Placed::Behind(worker) => worker.scheduler().leave_behind(worker),
            // SAFETY: as above; refused.
            Placed::Closed => unsafe { end_unplaced(node) },
        }
    });
}

/// The scheduler's workers have ended, and this node was in none of their queues: its task ends here, unless a worker
/// ends it.
///
/// # Safety
/// The node is that of a task, and is in no queue.
pub(super) unsafe fn end_unplaced<M: Machine>(node: NonNull<Node<M>>) {
    // SAFETY: passed on.
    match unsafe { queue_node::own_of(node) } {
        // In the list of its home worker, which ends it.
        Some(task) if task.has_settled() => task.leave(),
        Some(task) => task.end_without_worker(),
        // SAFETY: passed on.
        None => unsafe { queue_node::refused(node) },
    }
}

impl<M: Machine> TaskRef<M> {
    /// Ends a task that no worker has ever got, on the caller's thread. The caller has the worker's reference.
    pub(super) fn end_without_worker(self) {
        // If a raised run polls the task, that run sees CANCELLED and ends it.
        let _ = self.header().state.cancel();
        match self.header().state.start(By::Own) {
            Start::Cancel => {
                self.drop_future();
                self.finish();
                self.leave_group();
                self.release();
            }
            Start::Over => {
                self.leave_group();
                self.release();
            }
            Start::Poll | Start::Late => {}
        }
    }
}
