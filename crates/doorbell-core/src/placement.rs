//! Which idle lane is woken for work, and to which lane a task goes that comes from outside. See README.md in
//! the folder `idle`.

use crate::bell::{LaneState, Look};
use crate::class::Standing;
use crate::crew::{Crew, Turns};
use crate::idle::Cost;
use crate::mailbox::Front;
use doorbell_machine::{Bug, Machine};

impl<M: Machine> Crew<M> {
    /// Whether the calling thread is of a lower class: it may lose its CPU at any time to what runs here.
    #[inline]
    pub(crate) fn is_above_caller(&self) -> bool {
        self.class().standing::<M>() == Standing::Below
    }

    /// Whether the caller may claim no lane, since it may lose its CPU to that lane before it has told it.
    fn must_not_claim(&self) -> bool {
        self.is_above_caller() && !M::BUG.is(Bug::PlaceClaimsFromBelow)
    }

    /// How dear it is to wake an idle lane: least where it watches, which takes no syscall, and more than
    /// any syscall where its core is busy with a higher class.
    pub(crate) fn cost(&self, lane: usize) -> Cost {
        let watches = self.fronts()[lane].bell().look() == Look::Watching;
        match (watches, self.is_outranked(lane)) {
            (true, false) => Cost::Store,
            (false, false) => Cost::Ring,
            (_, true) => Cost::Outranked,
        }
    }

    /// Whether a lane of a higher class has something to do on the lane's core.
    pub(crate) fn is_outranked(&self, lane: usize) -> bool {
        self.above().iter().any(|above| {
            let fronts = above.crew().fronts();
            fronts[lane % fronts.len()].state() != LaneState::Parked
        })
    }

    /// There is work for one more lane than its owner: wakes an idle one if nobody searches.
    /// Directly behind the read-modify-write that published the work, and its fence.
    #[inline]
    pub fn offer(&self, from: usize) {
        let idle = self.idle();
        if idle.any() && (!idle.anyone_searches() || idle.lacks_sentinel()) {
            self.offer_now(from);
        }
        // Also where all are awake, or a lane searches: each of them may get no CPU, or be inside a long poll.
        if let Some(dog) = self.watchdog() {
            dog.arm();
        }
    }

    /// There is one task that its lane runs next, unless the poll that it is in goes on for long. As
    /// [`Crew::offer`], directly behind the push and its fence: an idle lane takes it at once where tasks
    /// run by rank, elsewhere it looks after that poll.
    #[inline]
    pub(crate) fn offer_one(&self, from: usize) {
        if self.turns() == Turns::ByRank && !M::BUG.is(Bug::RtLeavesOneWaiting) {
            self.offer(from);
        } else {
            self.watch_over(from);
        }
    }

    /// There is something that its lane will come to, unless the poll that it is in goes on for long:
    /// others are to look after that. As [`Crew::offer`], directly behind what made it known, and a fence.
    #[inline]
    pub fn watch_over(&self, from: usize) {
        if let Some(dog) = self.watchdog() {
            if !M::BUG.is(Bug::CrewPushUnoffered) {
                dog.arm();
            }
        } else if self.idle().lacks_sentinel() && !self.must_not_claim() {
            self.wake_sentinels(from);
        }
    }

    /// The same of what others are to look at by that time, unless somebody does: behind what makes it
    /// known to them and a fence.
    pub(crate) fn watch_over_by(&self, from: usize, when_ns: u64) {
        if let Some(dog) = self.watchdog() {
            return dog.arm_for(when_ns);
        }
        if self.alert().is_unwatched(when_ns) {
            self.watch_over(from);
        }
    }

    /// Wakes lanes until there are sentinels enough: other ones than are sentinels already, since one that
    /// gets no CPU must not be all of them.
    #[cold]
    fn wake_sentinels(&self, from: usize) {
        let cost = |lane: usize| {
            if self.fronts()[lane].is_sentinel() {
                Cost::Never
            } else {
                self.cost(lane)
            }
        };
        while self.idle().lacks_sentinel() {
            let Some(lane) = self.idle().want_sentinel(from, cost) else {
                return;
            };
            self.fronts()[lane].request_pass();
        }
    }

    /// The lane that searches may get no CPU: the sentinels notice, and look in its place.
    #[cold]
    fn offer_now(&self, from: usize) {
        if self.must_not_claim() {
            return self.tell_one(from);
        }
        if !self.idle().anyone_searches()
            && let Some(lane) = self.idle().claim_as_first(from, |lane| self.cost(lane))
        {
            self.fronts()[lane].request_pass();
        }
        self.wake_sentinels(from);
    }

    /// The same by a caller that claims nothing. A lane that is told, and finds nothing of its own, looks at the
    /// others before it sleeps again, and then looks after them if too few do: one that searches may get no CPU.
    fn tell_one(&self, from: usize) {
        if let Some(lane) = self.idle().find(from, |lane| self.cost(lane)) {
            self.fronts()[lane].request_pass();
        }
    }

    /// The lane for a task that comes from outside and would like to run on `prefer`: that one if
    /// it is idle and has got nothing yet, or if nobody else is; else an idle one, which a caller of a
    /// class that is not lower claims.
    pub(crate) fn place<'a>(&'a self, prefer: &'a Front<M>) -> &'a Front<M> {
        let prefer = self.nearest_on(prefer.lane());
        let is_idle = matches!(prefer.bell().look(), Look::Watching | Look::ParkedUntold);
        let is_free = is_idle && !prefer.has_inbox() && !prefer.is_serving();
        let stays = is_free && !self.is_outranked(prefer.lane());
        let cost = |lane| self.cost(lane);
        let claimed = if stays {
            None
        } else if self.must_not_claim() {
            self.idle().find(prefer.lane(), cost)
        } else {
            self.idle().claim(prefer.lane(), cost)
        };
        claimed.map_or(prefer, |lane| &self.fronts()[lane])
    }
}
