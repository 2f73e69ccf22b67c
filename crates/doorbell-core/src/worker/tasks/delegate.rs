//! Wakes and raises from below. A thread of a lower class than the workers that are to run the task does not
//! queue it itself: it may lose its CPU in the midst of that. Whatever else wakes the task would then find it
//! queued. It sends a parcel to one of those workers, which does the rest.

use crate::bell::Look;
use crate::call::post;
use crate::scheduler::Member;
use crate::scheduler::Scheduler;
use crate::task::state_delegate::{Delegated, For};
use crate::task::state_inheritance::Above;
use crate::task::{Kind, TaskRef};
use crate::worker::Local;
use doorbell_machine::{Machine, Mark};

/// A task on its way in a parcel, with a reference.
struct InParcel<M: Machine>(TaskRef<M>);

// SAFETY: a task is woken and let go by any thread, as by its wakers.
unsafe impl<M: Machine> Send for InParcel<M> {}

impl<M: Machine> InParcel<M> {
    fn arrive(self, then: impl FnOnce(TaskRef<M>)) {
        Local::<M>::bring_mail(|| then(self.0));
        self.0.release();
    }
}

impl<M: Machine> TaskRef<M> {
    #[cold]
    pub(crate) fn delegate(self, scheduler: &Scheduler<M>, to: For) {
        match self.header().state.delegate(to) {
            Delegated::Nothing => {}
            Delegated::Send => self.send_wake(scheduler),
        }
    }

    /// Has a worker of the scheduler that awaits the task from above take its raise.
    #[cold]
    pub(crate) fn send_raise(self, scheduler: &Scheduler<M>) {
        self.header().state.retain();
        let raise = |task: Self| {
            let _ = task.raise(Above::default());
        };
        // A scheduler that is gone polls nothing.
        if self.send(scheduler, raise).is_err() {
            self.release();
        }
    }

    /// Sends the parcel. The reference is its own.
    pub(crate) fn send_wake(self, scheduler: &Scheduler<M>) {
        M::mark(Mark::TaskDelegated);
        let wake = |task: Self| task.follow(task.header().state.wake_delegated(), || task.submit());
        // The worker is gone: as if nobody were above.
        self.send(scheduler, wake).unwrap_or_else(|arrive| arrive());
    }

    /// Posts a parcel that does so on a worker of that scheduler, and releases the reference that it comes with.
    /// Refused, it is the caller's to do.
    fn send<F>(self, scheduler: &Scheduler<M>, then: F) -> Result<(), impl FnOnce() + use<M, F>>
    where
        F: FnOnce(Self) + Send + 'static,
    {
        let in_parcel = InParcel(self);
        post(self.worker_to_ask(scheduler), move || {
            in_parcel.arrive(then);
        })
    }

    /// Where a parcel is taken soon: no other worker than this one can take it. The worker that ran the task last, if
    /// it is idle and its core runs no higher class; that of the caller's core, by the same rule; any other idle one,
    /// the cheapest to wake. If none is idle, that of the caller's core: where the OS lets it run before the caller, it
    /// is not inside a poll that computes. None is claimed: the task may be found queued, and the caller may lose its
    /// CPU.
    fn worker_to_ask<'a>(&'a self, scheduler: &'a Scheduler<M>) -> &'a Member<M> {
        let last = self.last();
        let workers = scheduler.remotes();
        let of_core = |core: usize| &workers[core % workers.len()];
        let is_own = std::ptr::eq(last.scheduler(), scheduler);
        if is_own && self.header().kind != Kind::Task {
            return last;
        }
        let last = if is_own { last } else { of_core(last.worker()) };
        let own = Local::<M>::with_current(|local| local.map(|local| local.remote().worker()));
        let near = own.map_or(last, of_core);
        if takes_at_once(last) {
            last
        } else if takes_at_once(near) {
            near
        } else {
            let idle = scheduler
                .idle()
                .find(near.worker(), |worker| scheduler.cost(worker));
            idle.map_or(near, of_core)
        }
    }
}

/// Whether it takes what comes at once: it is idle, and its core runs no higher class.
fn takes_at_once<M: Machine>(remote: &Member<M>) -> bool {
    let is_idle = matches!(remote.bell().look(), Look::Spinning | Look::Parked);
    is_idle && !remote.is_serving() && !remote.scheduler().is_outranked(remote.worker())
}

#[cfg(test)]
impl<M: Machine> TaskRef<M> {
    /// The first half of a wake by one of a lower class, who is then suspended. The second half is to
    /// follow if it says so.
    pub(crate) fn delegate_and_stall(self) -> Delegated {
        self.header().state.delegate(For::Poll)
    }
}
