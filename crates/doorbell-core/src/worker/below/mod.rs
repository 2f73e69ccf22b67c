//! Wakes, cancels and raises by lower-class threads. See README.md in this folder.
//!
//! Such a thread does not queue the task itself: it may lose its CPU halfway, and other wakers would then find the task
//! queued and leave it alone. It sends a parcel to one of the task's workers, and that worker does the rest.

use crate::parcel::post;
use crate::scheduler::{IsBehind, Scheduler};
use crate::task::state_delegate::{Delegated, For};
use crate::task::{Kind, TaskRef};
use crate::worker::Local;
use doorbell_machine::{Machine, Mark};

/// A task on its way in a parcel, with a reference.
struct InParcel<M: Machine>(TaskRef<M>);

// SAFETY: any thread may wake a task and release a reference, as its wakers do.
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

    /// Has a worker of `scheduler`, which awaits the task, raise it.
    #[cold]
    pub(crate) fn send_raise(self, scheduler: &Scheduler<M>) {
        self.header().state.retain();
        // A scheduler that has ended polls nothing.
        if self.send(scheduler, Self::raise).is_err() {
            self.release();
        }
    }

    /// Sends the parcel. The reference is its own.
    pub(crate) fn send_wake(self, scheduler: &Scheduler<M>) {
        M::mark(Mark::TaskDelegated);
        let wake = |task: Self| task.follow(task.header().state.wake_delegated(), || task.submit());
        // The worker has ended, so the caller does what the parcel would have done.
        self.send(scheduler, wake).unwrap_or_else(|arrive| arrive());
    }

    /// Posts a parcel that calls `then` on a worker of that scheduler and then releases a reference of the task. If the
    /// post is refused, returns a closure that does the same. The caller holds another reference.
    ///
    /// The parcel of a pinned task goes to its own worker. Otherwise it goes to an idle one: the last worker, that of
    /// the caller's core, or another. None is claimed, because the caller may lose its CPU before the post. If none is
    /// idle, it goes to the common mailbox, and the worker of the caller's core, or the last one, is asked for a pass.
    fn send<F>(
        self,
        scheduler: &Scheduler<M>,
        then: F,
    ) -> Result<(), impl FnOnce() + Send + use<M, F>>
    where
        F: FnOnce(Self) + Send + Copy + 'static,
    {
        let parcel = || {
            let parcel = InParcel(self);
            move || parcel.arrive(then)
        };
        let last = self.last();
        let is_own = std::ptr::eq(last.scheduler(), scheduler);
        if is_own && self.header().kind != Kind::Task {
            return post(last, parcel());
        }
        let workers = scheduler.remotes();
        let of_core = |core: usize| &workers[core % workers.len()];
        let last = if is_own { last } else { of_core(last.worker()) };
        let own = Local::<M>::with_current(|local| local.map(|local| local.remote().worker()));
        let near = own.map_or(last, of_core);
        let prefer = if scheduler.takes_at_once(last.worker()) {
            last
        } else {
            near
        };
        let IsBehind(is_behind) = scheduler.place_call(prefer, near, parcel())?;
        if is_behind {
            // The worker may run something else first. A second parcel does no harm: the first that arrives does what is
            // to be done.
            M::mark(Mark::TaskDelegatedTwice);
            self.header().state.retain();
            if scheduler.place_call(near, near, parcel()).is_err() {
                self.release();
            }
        }
        Ok(())
    }
}

#[cfg(test)]
impl<M: Machine> TaskRef<M> {
    /// The first half of a wake by a lower-class thread that then loses its CPU. On `Send` the caller owes the
    /// second half.
    pub(crate) fn delegate_and_stall(self) -> Delegated {
        self.header().state.delegate(For::Poll)
    }
}
