//! Offers: a worker has something for others, and wakes one that is idle. See README.md in this folder.

use crate::class::Standing;
use crate::scheduler::Scheduler;
use crate::scheduler::idle::Wish;
use crate::switches::IdleClaim;
use doorbell_machine::{Bug, Machine};

impl<M: Machine> Scheduler<M> {
    /// Whether the calling thread is below this scheduler's class: it may lose its CPU to a worker of this
    /// scheduler at any time.
    #[inline]
    pub(crate) fn is_above_caller(&self) -> bool {
        self.class().standing::<M>() == Standing::Below
    }

    /// Whether the caller may claim a worker: it does not lose its CPU to that worker before it has told it.
    pub(super) fn may_claim(&self) -> bool {
        !self.is_above_caller() || M::breaks(Bug::PlaceClaimsFromBelow)
    }

    /// There is work for one more worker than its owner: wakes an idle worker if none searches, and others to be
    /// watchdogs if there are too few. Call it directly after the read-modify-write that published the work, and
    /// its fence.
    #[inline]
    pub fn offer(&self, from: usize) {
        let idle = self.idle();
        if idle.any() && (!idle.anyone_searches() || idle.lacks_watchdog()) {
            self.offer_now(from);
        }
    }

    /// There is one task that its worker runs next, unless its current poll goes on for long. Call it as
    /// [`Scheduler::offer`], directly after the push and its fence. Where tasks run by rank, an idle worker takes
    /// the task at once; elsewhere a watchdog looks whether that poll goes on.
    #[inline]
    pub(crate) fn offer_one(&self, from: usize) {
        if self.turns().shares_one::<M>() {
            self.offer(from);
        } else {
            self.arm_watchdog(from);
        }
    }

    /// There is something that its worker will do next, unless its current poll goes on for long: wakes workers to
    /// be watchdogs if there are too few, unless the caller must not claim. Call it as [`Scheduler::offer`], directly
    /// after what made it known, and a fence.
    #[inline]
    pub fn arm_watchdog(&self, from: usize) {
        if self.idle().lacks_watchdog() && self.may_claim() {
            self.wake_watchdogs(from);
        }
    }

    /// Before a poll that is expected to be long, after a fence: wakes an idle worker, unless there are enough watchdogs. It
    /// becomes one if the poll goes on when it looks.
    pub(crate) fn ask_for_look(&self, from: usize) {
        if !self.idle().lacks_watchdog() || !self.may_claim() {
            return;
        }
        let is_none = |worker: usize| !self.remotes()[worker].is_watchdog();
        if let Some(worker) = self.idle().claim(Wish::of(from), is_none) {
            self.remotes()[worker].request_pass();
        }
    }

    /// Wakes workers until there are enough watchdogs. It takes workers that are not watchdogs yet, because the
    /// present one may get no CPU.
    #[cold]
    fn wake_watchdogs(&self, from: usize) {
        let is_none = |worker: usize| !self.remotes()[worker].is_watchdog();
        while self.idle().lacks_watchdog() {
            let Some(worker) = self.idle().want_watchdog(Wish::of(from), is_none) else {
                return;
            };
            self.remotes()[worker].request_pass();
        }
    }

    /// The slow path of [`Scheduler::offer`]. A worker that searches may get no CPU; watchdogs notice that, and
    /// look in its place.
    #[cold]
    fn offer_now(&self, from: usize) {
        if !self.may_claim() {
            return self.tell_one(from);
        }
        if self.remotes()[from].idle_claim() == IdleClaim::Base {
            // Nobody steals from a worker that makes progress.
            return self.arm_watchdog(from);
        }
        if !self.idle().anyone_searches()
            && let Some(worker) = self.idle().claim_as_first(Wish::of(from), |_| true)
        {
            self.remotes()[worker].request_pass();
        }
        self.wake_watchdogs(from);
    }

    /// Asks an idle worker for a pass, if there is one, and claims none. That worker, if it has nothing of its own, looks at
    /// the others before it sleeps again, and sleeps in the poller if nobody does. It becomes a watchdog if there are too few:
    /// a worker that searches may get no CPU.
    pub(crate) fn tell_one(&self, from: usize) {
        if let Some(worker) = self.idle().find(Wish::of(from), |_| true) {
            self.remotes()[worker].request_pass();
        }
    }
}
