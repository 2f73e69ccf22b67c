//! How a lane without work of its own finds some at the others, and is found by those who have.

use super::{LOOK_AROUND_NS, Lane, WATCH_ALONE_NS};
use crate::bell::Look;
use crate::idle::{Left, Search, Searching};
use crate::mailbox::Front;
use crate::queue::{Greed, is_shareable};
use doorbell_machine::{Counter, Machine};

impl<M: Machine> Lane<M> {
    /// Whether there are lanes to share tasks with.
    fn has_others(&self) -> bool {
        self.pulses.len() > 1
    }

    /// How long to watch before the next look at the others.
    pub(super) fn slice_ns(&self, quiet_ns: u64, watch_ns: u64) -> u64 {
        let left_ns = watch_ns - quiet_ns;
        match quiet_ns {
            _ if !self.has_others() => left_ns,
            0 => left_ns.min(WATCH_ALONE_NS),
            _ => left_ns.min(LOOK_AROUND_NS),
        }
    }

    /// A lane that was woken because somebody had work looks for it. Whether it found some.
    pub(super) fn search_if_claimed(&self) -> bool {
        self.searching.get() && self.search()
    }

    /// A watching lane can be claimed from its first look around on. It looks for work at the
    /// others, unless enough lanes do.
    pub(super) fn look_around(&self) -> bool {
        if !self.has_others() {
            return false;
        }
        self.enter_idle_set();
        match self.shared.front().crew().idle().begin_search() {
            Search::Begun => self.searching.set(true),
            Search::Enough => return false,
        }
        self.search()
    }

    /// The look before the lane sleeps: from here on whoever has work for one more lane knows of
    /// this one; what there was before is seen now.
    pub(super) fn look_for_the_last_time(&self) -> bool {
        if !self.has_others() {
            return false;
        }
        self.enter_idle_set();
        self.visit_others()
    }

    /// Looks for work at every other lane; the search that this lane is counted for is over then.
    fn search(&self) -> bool {
        let found = self.visit_others();
        self.end_search();
        found
    }

    /// Takes from the nearest lane that has more than it can run at once, or that is stuck.
    fn visit_others(&self) -> bool {
        self.shared.tally.searches.add_owned(1);
        let front = self.shared.front();
        front.crew().others(front.lane()).any(|victim| {
            let pulse = victim.pulse();
            let stood_still = self.pulses[victim.lane()].replace(pulse) == pulse;
            let greed = if stood_still { Greed::One } else { Greed::Half };
            self.rob(victim, greed)
        })
    }

    /// Takes from one lane. Whether there was something.
    fn rob(&self, victim: &Front<M>, greed: Greed) -> bool {
        // What comes to a lane that watches is that lane's to run.
        if victim.queue().is_empty()
            && (!victim.has_inbox() || victim.bell().look() == Look::Watching)
        {
            return false;
        }
        let Some((count, _more)) = self.local.steal(victim, greed) else {
            return false;
        };
        self.shared.tally.thefts.add_owned(1);
        self.shared.tally.stolen.add_owned(count);
        true
    }

    /// The search is over, successful or not. The last one to end it sees to those who relied on
    /// it: they had work, and woke nobody.
    pub(super) fn end_search(&self) {
        if !self.searching.replace(false) {
            return;
        }
        let front = self.shared.front();
        let crew = front.crew();
        if crew.idle().end_search() == Searching::Others {
            return;
        }
        // One that has nothing to run looks once more itself, before it idles.
        if self.local.is_empty() {
            return;
        }
        // Also for a single task: whose lane needed help may be inside a long poll.
        let has_work = |front: &Front<M>| !front.queue().is_empty() || front.has_inbox();
        if is_shareable(front.queue().len()) || crew.others(front.lane()).any(has_work) {
            crew.offer(front.lane());
        }
    }

    fn enter_idle_set(&self) {
        if !self.in_idle_set.replace(true) {
            let front = self.shared.front();
            front.crew().idle().enter(front.lane());
        }
    }

    /// The lane has something to do.
    pub(super) fn leave_idle_set(&self) {
        if !self.in_idle_set.replace(false) {
            return;
        }
        let front = self.shared.front();
        match front.crew().idle().leave(front.lane()) {
            Left::ByItself => {}
            Left::Claimed => {
                self.shared.tally.claims.add_owned(1);
                self.searching.set(true);
            }
        }
    }
}
