//! Raising: a task that is awaited from a scheduler above is queued there by its raised node.

use super::place::place;
use crate::mailbox::Posted;
use crate::scheduler::Scheduler;
use crate::task::state::By;
use crate::task::state_inheritance::Above;
use crate::task::{SchedulerId, TaskRef};
use crate::worker::Local;
use doorbell_machine::Machine;
use std::ptr::NonNull;

/// The scheduler on whose behalf the caller waits: that of its worker, or a higher one that awaits the task
/// under poll. So inheritance passes along a chain of awaiting tasks also if a task's own worker polls it. Null on a
/// thread that is no worker.
pub(crate) fn scheduler_that_waits<M: Machine>() -> SchedulerId {
    Local::<M>::with_current(|local| {
        let Some(local) = local else {
            return std::ptr::null();
        };
        let worker = local.remote().scheduler().id();
        let Some(task) = local
            .poll_refs()
            .task()
            .filter(|it| it.header().has_raised_node())
        else {
            return worker;
        };
        let awaited = task.header().state.awaited_from();
        task.scheduler_at(awaited.max(task.how_far(worker))).id()
    })
}

impl<M: Machine> TaskRef<M> {
    /// How far above the task's scheduler that one is.
    pub(crate) fn how_far(self, scheduler: SchedulerId) -> Above {
        let mut above = self.last().scheduler().above().iter();
        let from = above.position(|remote| remote.scheduler().id() == scheduler);
        from.map_or(Above::default(), Above::nth)
    }

    /// The scheduler `above` the task's own; the task's own for 0.
    pub(crate) fn scheduler_at(&self, above: Above) -> &Scheduler<M> {
        let own = self.last().scheduler();
        above
            .index()
            .map_or(own, |above| own.above()[above].scheduler())
    }

    /// Call it when the inherited level has risen. Wakes the task and raises it: the poll that follows raises the
    /// tasks that it awaits.
    #[cold]
    pub(crate) fn hasten(self) {
        let woken = self.header().state.wake();
        self.follow(woken, || self.submit());
        self.raise();
    }

    /// Raises the task to the scheduler that awaits it, if the task is queued and its raised node is in no queue. A
    /// lower-class caller has a worker of that scheduler do that. The caller holds a reference.
    #[cold]
    pub(crate) fn raise(self) {
        if let Some(scheduler) = self.scheduler_above() {
            return self.send_raise(scheduler);
        }
        let Some(above) = self.header().state.raise() else {
            return;
        };
        let own = self.last();
        let scheduler = self.scheduler_at(above);
        let raised_node = self.raised_node().as_ptr();
        // SAFETY: inside of the task.
        let node = unsafe { NonNull::new_unchecked(&raw mut (*raised_node).node) };
        let posted = Local::<M>::with_current(|local| match local {
            Some(local) if local.is_of(scheduler) && !local.is_closed() => {
                // SAFETY: a reference was counted for the node, and it is in no queue.
                unsafe { local.push(node) };
                Posted::Yes
            }
            _ => {
                let workers = scheduler.remotes();
                // SAFETY: as above.
                unsafe { place(scheduler, &workers[own.worker() % workers.len()], node) }
            }
        });
        match posted {
            Posted::Yes => {}
            Posted::Closed => self.take_back(),
        }
    }

    /// Runs a task of a scheduler below by its raised node, which the caller took from a queue.
    #[cold]
    pub(crate) fn run_above(self, local: &Local<M>) {
        self.header().state.take_back();
        let before = local.rank();
        local.set_runs_below(true);
        // Does not unwind: a task's panics are caught where its future is polled.
        self.run_by(By::Raised, local);
        local.set_runs_below(false);
        local.set_rank(before);
        self.release();
    }
}
