//! Where others find the worker: in the work set, if it may have tasks for them, and for sleepers that leave their timers.

use super::Local;
use doorbell_machine::Machine;
use std::cell::Cell;

/// What the worker knows of its own lists.
#[derive(Debug)]
pub(super) struct Listing {
    /// It has listed itself in the work set, and not unlisted itself since.
    in_work_set: Cell<bool>,
    /// It has idled since it listed itself for the sleepers that leave their timers to it.
    unlisted: Cell<bool>,
}

impl Listing {
    pub(super) fn new() -> Self {
        Listing {
            in_work_set: Cell::new(false),
            unlisted: Cell::new(true),
        }
    }
}

impl<M: Machine> Local<M> {
    /// Lists the worker in the work set: there is something in its run queue.
    #[inline]
    pub(in crate::worker) fn list(&self) {
        if !self.listing.in_work_set.get() {
            self.list_now();
        }
    }

    #[cold]
    fn list_now(&self) {
        self.listing.in_work_set.set(true);
        self.remote().scheduler().work().add(self.remote().worker());
    }

    /// As [`Local::list`], but with a read-modify-write even if the worker is listed already. A fence of the machine
    /// may follow it.
    pub(crate) fn list_anew(&self) {
        self.listing.in_work_set.set(true);
        let work = self.remote().scheduler().work();
        work.add_anew(self.remote().worker());
    }

    /// Lists this worker. A thread that looks for stuck workers then finds it, or this worker sees what that one left.
    pub(in crate::worker) fn list_behind_fence(&self) {
        self.list_anew();
        M::fence_recheck();
    }

    /// Takes the worker out of the work set: it idles and has nothing for others.
    pub(crate) fn unlist(&self) {
        self.listing.in_work_set.set(false);
        let remote = self.remote();
        let work = remote.scheduler().work();
        work.remove(remote.worker(), || remote.has_work());
    }

    /// Whether the worker has idled since it listed itself for sleepers.
    #[inline(always)]
    pub(in crate::worker) fn is_unlisted(&self) -> bool {
        self.listing.unlisted.get()
    }

    pub(in crate::worker) fn set_unlisted(&self, unlisted: bool) {
        self.listing.unlisted.set(unlisted);
    }
}
