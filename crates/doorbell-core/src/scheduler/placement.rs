//! Which idle worker is woken for work, and to which worker a task goes that comes from outside. See README.md in
//! the folder `idle`.

use crate::bell::{Look, WorkerState};
use crate::class::Standing;
use crate::scheduler::idle::Cost;
use crate::scheduler::{Scheduler, Turns};
use crate::worker::Remote;
use doorbell_machine::{Bug, Machine};

impl<M: Machine> Scheduler<M> {
    /// Whether the calling thread is of a lower class: it may lose its CPU at any time to what runs here.
    #[inline]
    pub(crate) fn is_above_caller(&self) -> bool {
        self.class().standing::<M>() == Standing::Below
    }

    /// Whether the caller may claim no worker, since it may lose its CPU to that worker before it has told it.
    fn must_not_claim(&self) -> bool {
        self.is_above_caller() && !M::breaks(Bug::PlaceClaimsFromBelow)
    }

    /// How dear it is to wake an idle worker: least where it spins, which takes no syscall, and more than
    /// any syscall where its core is busy with a higher class.
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

    /// There is work for one more worker than its owner: wakes an idle one if nobody searches.
    /// Directly behind the read-modify-write that published the work, and its fence.
    #[inline]
    pub fn offer(&self, from: usize) {
        let idle = self.idle();
        if idle.any() && (!idle.anyone_searches() || idle.lacks_watchdog()) {
            self.offer_now(from);
        }
    }

    /// There is one task that its worker runs next, unless the poll that it is in goes on for long. As
    /// [`Scheduler::offer`], directly behind the push and its fence: an idle worker takes it at once where tasks
    /// run by rank, elsewhere it looks after that poll.
    #[inline]
    pub(crate) fn offer_one(&self, from: usize) {
        if self.turns() == Turns::ByRank && !M::breaks(Bug::RtLeavesOneWaiting) {
            self.offer(from);
        } else {
            self.arm_watchdog(from);
        }
    }

    /// There is something that its worker will come to, unless the poll that it is in goes on for long:
    /// others are to look after that. As [`Scheduler::offer`], directly behind what made it known, and a fence.
    #[inline]
    pub fn arm_watchdog(&self, from: usize) {
        if self.idle().lacks_watchdog() && !self.must_not_claim() {
            self.wake_watchdogs(from);
        }
    }

    /// The same of what others are to look at by that time, unless somebody does: behind what makes it
    /// known to them and a fence.
    pub(crate) fn arm_watchdog_by(&self, from: usize, when_ns: u64) {
        if self.armed().is_unattended(when_ns) {
            self.arm_watchdog(from);
        }
    }

    /// Wakes workers until there are watchdogs enough: other ones than are watchdogs already, since one that
    /// gets no CPU must not be all of them.
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

    /// The worker that searches may get no CPU: the watchdogs notice, and look in its place.
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

    /// The same by a caller that claims nothing. A worker that is told, and finds nothing of its own, looks at the
    /// others before it sleeps again, and then looks after them if too few do: one that searches may get no CPU.
    fn tell_one(&self, from: usize) {
        if let Some(worker) = self.idle().find(from, |worker| self.cost(worker)) {
            self.remotes()[worker].request_pass();
        }
    }

    /// The worker for a task that comes from outside and would like to run on `prefer`: that one if
    /// it is idle and has got nothing yet, or if nobody else is; else an idle one, which a caller of a
    /// class that is not lower claims.
    pub(crate) fn place<'a>(&'a self, prefer: &'a Remote<M>) -> &'a Remote<M> {
        let prefer = self.nearest_on(prefer.worker());
        let is_idle = matches!(prefer.bell().look(), Look::Spinning | Look::ParkedUntold);
        let is_free = is_idle && !prefer.has_inbox() && !prefer.is_serving();
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
