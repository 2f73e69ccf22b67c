//! Placement: which idle worker is woken for work, and which worker gets a task from outside. See
//! README.md in this folder.

use crate::bell::{Look, WorkerState};
use crate::class::Standing;
use crate::scheduler::Member;
use crate::scheduler::idle::Cost;
use crate::scheduler::{Scheduler, Turns};
use doorbell_machine::{Bug, Machine};

impl<M: Machine> Scheduler<M> {
    /// Whether the calling thread is below this scheduler's class: it may lose its CPU to a worker of this
    /// scheduler at any time.
    #[inline]
    pub(crate) fn is_above_caller(&self) -> bool {
        self.class().standing::<M>() == Standing::Below
    }

    /// Whether the caller must not claim a worker, because it may lose its CPU before it has told that worker.
    fn must_not_claim(&self) -> bool {
        self.is_above_caller() && !M::breaks(Bug::PlaceClaimsFromBelow)
    }

    /// The cost of waking an idle worker: lowest if it spins, which takes no syscall; higher than any syscall if
    /// its core is busy with a higher class.
    pub(crate) fn cost(&self, worker: usize) -> Cost {
        let spins = self.remotes()[worker].bell().look() == Look::Spinning;
        match (spins, self.is_outranked(worker)) {
            (true, false) => Cost::Store,
            (false, false) => Cost::Ring,
            (_, true) => Cost::Outranked,
        }
    }

    /// Whether a worker of a higher class has something to do on the worker's core.
    pub(crate) fn is_outranked(&self, worker: usize) -> bool {
        self.above().iter().any(|above| {
            let remotes = above.scheduler().remotes();
            remotes[worker % remotes.len()].state() != WorkerState::Parked
        })
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
        if self.turns() == Turns::ByRank && !M::breaks(Bug::RtLeavesOneWaiting) {
            self.offer(from);
        } else {
            self.arm_watchdog(from);
        }
    }

    /// There is something that its worker will do next, unless its current poll goes on for long: wakes workers to
    /// be watchdogs if there are too few, unless the caller must not claim. Call it as [`Scheduler::offer`], directly after what made it known, and
    /// a fence.
    #[inline]
    pub fn arm_watchdog(&self, from: usize) {
        if self.idle().lacks_watchdog() && !self.must_not_claim() {
            self.wake_watchdogs(from);
        }
    }

    /// As [`Scheduler::arm_watchdog`], for what has to be looked at by `when_ns`; does nothing if a worker will
    /// look by then.
    pub(crate) fn arm_watchdog_by(&self, from: usize, when_ns: u64) {
        if self.armed().is_unattended(when_ns) {
            self.arm_watchdog(from);
        }
    }

    /// Wakes workers until there are enough watchdogs. It takes workers that are not watchdogs yet, because the
    /// present one may get no CPU.
    #[cold]
    fn wake_watchdogs(&self, from: usize) {
        let cost = |worker: usize| {
            if self.remotes()[worker].is_watchdog() {
                Cost::Never
            } else {
                self.cost(worker)
            }
        };
        while self.idle().lacks_watchdog() {
            let Some(worker) = self.idle().want_watchdog(from, cost) else {
                return;
            };
            self.remotes()[worker].request_pass();
        }
    }

    /// The slow path of [`Scheduler::offer`]. A worker that searches may get no CPU; watchdogs notice that, and
    /// look in its place.
    #[cold]
    fn offer_now(&self, from: usize) {
        if self.must_not_claim() {
            return self.tell_one(from);
        }
        if !self.idle().anyone_searches()
            && let Some(worker) = self.idle().claim_as_first(from, |worker| self.cost(worker))
        {
            self.remotes()[worker].request_pass();
        }
        self.wake_watchdogs(from);
    }

    /// As [`Scheduler::offer_now`], for a caller that must not claim. The worker that is told, if it has nothing of
    /// its own, looks at the others before it sleeps again. Then it becomes a watchdog if there are too few, because
    /// a worker that searches may get no CPU.
    fn tell_one(&self, from: usize) {
        if let Some(worker) = self.idle().find(from, |worker| self.cost(worker)) {
            self.remotes()[worker].request_pass();
        }
    }

    /// Chooses the worker for a task from outside that prefers `prefer`: that worker, or the nearest one that is on, if
    /// it is idle with an empty inject queue, serves no call, and its core is free of higher classes, or if no other worker is idle.
    /// Otherwise another idle worker, which the caller claims unless it must not.
    pub(crate) fn place<'a>(&'a self, prefer: &'a Member<M>) -> &'a Member<M> {
        let prefer = self.nearest_on(prefer.worker());
        let is_idle = matches!(prefer.bell().look(), Look::Spinning | Look::Parked);
        let is_free = is_idle && !prefer.has_injected() && !prefer.is_serving();
        let stays = is_free && !self.is_outranked(prefer.worker());
        let cost = |worker| self.cost(worker);
        let claimed = if stays {
            None
        } else if self.must_not_claim() {
            self.idle().find(prefer.worker(), cost)
        } else {
            self.idle().claim(prefer.worker(), cost)
        };
        claimed.map_or(prefer, |worker| &self.remotes()[worker])
    }
}
