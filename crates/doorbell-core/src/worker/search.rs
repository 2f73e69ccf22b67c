//! How a worker without work of its own finds some at the others, and is found by those who have.

use super::timed_check::NextCheck;
use super::{
    LOOK_AROUND_NS, SPIN_ALONE_NS, WATCHDOG_MAX_NS, WATCHDOG_MIN_NS, WATCHDOG_STAYS_NS, Worker,
};
use crate::queue::Greed;
use crate::scheduler::Turns;
use crate::scheduler::idle::{Declined, Left, STUCK_NS, Search, Searching, Watchdog};
use crate::worker::Remote;
use doorbell_machine::{Bug, Counter, Machine, Mark};

impl<M: Machine> Worker<M> {
    /// Whether there are workers to share tasks with.
    pub(super) fn has_others(&self) -> bool {
        self.pulses.len() > 1 && !self.local.is_off()
    }

    /// Whether its core has other workers.
    fn has_beside(&self) -> bool {
        self.shared.remote().scheduler().core_use().is_some()
    }

    /// How long to spin before the next look at the others.
    pub(super) fn slice_ns(&self, quiet_ns: u64, spin_ns: u64) -> u64 {
        let left_ns = spin_ns - quiet_ns;
        match quiet_ns {
            _ if !self.has_others() && !self.has_beside() && !self.has_sources() => left_ns,
            0 => left_ns.min(SPIN_ALONE_NS),
            _ => left_ns.min(LOOK_AROUND_NS),
        }
    }

    /// A worker that was woken because somebody had work looks for it. Whether it found some.
    pub(super) fn search_if_claimed(&self) -> bool {
        self.searching.get() && self.search()
    }

    /// A spinning worker can be claimed from its first look around on. It looks for work at the
    /// others, unless enough workers do.
    pub(super) fn look_around(&self) -> bool {
        if !self.has_others() {
            return false;
        }
        self.unlooked_ns.set(0);
        self.enter_idle_set();
        let remote = self.shared.remote();
        match remote.scheduler().idle().begin_search(remote.worker()) {
            Search::Begun => self.searching.set(true),
            Search::Enough => return false,
        }
        self.search()
    }

    /// The look before the worker sleeps: from here on whoever has work for one more worker knows of
    /// this one; what there was before is seen now. Whether it must not sleep.
    pub(super) fn look_for_the_last_time(&self) -> bool {
        if !self.has_others() {
            self.local.unlist();
            return false;
        }
        self.unlooked_ns.set(0);
        self.enter_idle_set();
        let remote = self.shared.remote();
        // Claimed while it spun: what it was claimed for may be gone, but the claim is to be
        // consumed. One that comes later finds the worker parked, and tells it.
        if !remote.scheduler().idle().holds(remote.worker()) {
            M::mark(Mark::IdleClaimedBeforePark);
            return true;
        }
        if remote.is_watchdog() {
            self.end_lapsed_searches();
        }
        // Whoever has posted them may have found no worker idle.
        self.take_timers();
        let found = self.visit_others();
        if found {
            self.offer_new_surplus();
        }
        // A waker of the user's that is dropped with a timer may have woken a task here.
        found || !self.local.is_empty()
    }

    /// A worker that is counted as searching since this watchdog's last look, [`WATCHDOG_MIN_NS`] ago at least,
    /// gets no CPU, and is counted no more. If it was the last that searched, those who relied on it have woken
    /// nobody: behind this the watchdog looks at them. When it takes something it stops being one, and others are
    /// woken for the rest.
    pub(super) fn end_lapsed_searches(&self) {
        let now_ns = M::now_ns();
        if now_ns.saturating_sub(self.searchers_ns.get()) < WATCHDOG_MIN_NS {
            return;
        }
        self.searchers_ns.set(now_ns);
        let remote = self.shared.remote();
        let idle = remote.scheduler().idle();
        if idle.lapse_since(&self.searchers, remote.worker()) == Searching::None {
            M::fence_announce();
        }
    }

    /// When a worker that parks looks at the others again: if one of them has a single task waiting,
    /// which is that worker's to run unless its poll turns out to be long, or if somebody has asked
    /// for that. One worker of the scheduler at a time is the watchdog, for a while at least: so that
    /// whoever pushes one task, wakes nobody and then takes long is looked after too.
    pub(super) fn watchdog_until_ns(&self) -> Option<u64> {
        if !self.has_others() {
            // One that was taken off leaves it to another.
            self.end_watchdog();
            return None;
        }
        let remote = self.shared.remote();
        let idle = remote.scheduler().idle();
        let now_ns = M::now_ns();
        let mut wish_ns = self.wish_ns(now_ns);
        if idle.wants_watchdog() {
            wish_ns = Some(WATCHDOG_MIN_NS);
        }
        // What is far away is no reason to look all the time until then.
        let far_ns = wish_ns.take_if(|wish_ns| *wish_ns > WATCHDOG_MAX_NS);
        if wish_ns.is_some() {
            // In a model such a sleep ends at once, and 20 more in which nothing comes would show nothing.
            let stays_ns = if M::MODEL { 1 } else { WATCHDOG_STAYS_NS };
            self.watchdog_end_ns.set(now_ns.saturating_add(stays_ns));
        }
        if now_ns >= self.watchdog_end_ns.get() {
            match self.rely_until(now_ns, far_ns) {
                NextCheck::At(looks_ns) => return looks_ns,
                NextCheck::Soon(after_ns) => wish_ns = Some(after_ns),
            }
        }
        if self.relies.replace(false) {
            // Before it leaves that to a watchdog: no look of this worker stands behind the time.
            remote.scheduler().armed().end_to_rely();
        }
        if !remote.is_watchdog() {
            if idle.begin_watchdog() == Watchdog::Taken {
                return None;
            }
            self.searchers.forget();
            remote.set_watchdog(true);
            self.shared.tally.watchdogs.add_owned(1);
        }
        let longer_ns = (2 * self.watchdog_ns.get()).min(WATCHDOG_MAX_NS);
        let after_ns = wish_ns.unwrap_or(longer_ns);
        self.watchdog_ns.set(after_ns);
        Some(now_ns.saturating_add(after_ns))
    }

    /// Reads which workers may have work. Behind a fence of the caller's, where none may be missed.
    pub(super) fn look_at_list(&self) {
        self.shared.remote().scheduler().work().look(&self.seen);
    }

    /// The other workers that may have had work at the last look, nearest first.
    pub(super) fn listed(&self) -> impl Iterator<Item = &Remote<M>> {
        let (remote, seen) = (self.shared.remote(), &self.seen);
        seen.any()
            .then(|| remote.scheduler().others(remote.worker()))
            .into_iter()
            .flatten()
            .filter(|other| seen.holds(other.worker()))
    }

    /// Whether another worker has a task in its queue or inject queue.
    pub(super) fn others_have_work(&self) -> bool {
        self.look_at_list();
        self.listed().any(Remote::has_work)
    }

    /// After how long a watchdog should look again for the sake of those that run now and have a
    /// task waiting, timers, or descriptors.
    pub(super) fn wish_ns(&self, now_ns: u64) -> Option<u64> {
        self.look_at_list();
        let inside = self.listed().filter(|other| other.is_inside());
        let wish_ns = inside.filter_map(|other| {
            let waits = other.has_work().then_some(WATCHDOG_MIN_NS);
            let blind = || self.is_blind(other).then_some(STUCK_NS);
            let overdue_ns = || self.overdue_in_ns(other, now_ns);
            waits.or_else(|| [blind(), overdue_ns()].into_iter().flatten().min())
        });
        wish_ns.min()
    }

    /// Tells an idle worker, if there is one, that this one has more than it can run next.
    #[inline]
    pub(super) fn offer_surplus(&self) {
        let remote = self.shared.remote();
        if self.has_others() && self.local.has_surplus() {
            remote.scheduler().offer(remote.worker());
        }
    }

    /// The same, of what this worker has just got from its inject queue or from another worker: one that falls
    /// asleep now sees it, or is seen here.
    pub(super) fn offer_new_surplus(&self) {
        let remote = self.shared.remote();
        if self.has_others() && self.local.has_surplus() {
            if !M::breaks(Bug::IdleNoSurplusFence) {
                remote.queue().show_stored();
            }
            remote.scheduler().offer(remote.worker());
        }
    }

    /// Mail is about to be taken, and a call in it may be long: somebody is to look after what others may do
    /// that waits here meanwhile.
    #[inline]
    pub(super) fn leave_behind_calls(&self) {
        let remote = self.shared.remote();
        if remote.has_mail()
            && (!self.local.is_empty() || remote.has_injected() || self.has_scheduler_timers())
        {
            self.leave_now();
        }
    }

    #[cold]
    fn leave_now(&self) {
        if !self.has_others() {
            return;
        }
        self.local.share_stolen();
        let remote = self.shared.remote();
        if remote.has_work() || self.has_scheduler_timers() {
            remote.queue().show_stored();
            remote.scheduler().offer_one(remote.worker());
        }
    }

    fn has_scheduler_timers(&self) -> bool {
        !self.shared.remote().scheduler().timers().is_empty()
    }

    /// Looks for work at every other worker; the search that this worker is counted for is over then.
    fn search(&self) -> bool {
        let found = !self.local.is_off() && self.visit_others();
        self.end_search();
        // The end of a search may have found what the search has not.
        found || !self.local.is_empty()
    }

    /// Takes from the nearest worker that has more than it can run at once, or that is stuck.
    fn visit_others(&self) -> bool {
        self.shared.tally.searches.add_owned(1);
        self.look_at_list();
        let by_rank = self.local.turns() == Turns::ByRank;
        let found = self.listed().any(|victim| {
            let stood_still = self.note_pulse(victim);
            // Where tasks run by rank none waits for the end of another's poll.
            let waits = by_rank && victim.is_inside() && !M::breaks(Bug::RtLeavesOneWaiting);
            let greed = if stood_still || waits {
                Greed::One
            } else {
                Greed::Half
            };
            self.rob(victim, greed)
                || self.expire_for(victim, stood_still)
                || self.look_for(victim, stood_still)
        });
        // What gets its first task before the next look may have been stuck since this one.
        let remote = self.shared.remote();
        if !found && remote.is_watchdog() {
            let others = remote.scheduler().others(remote.worker());
            for other in others.filter(|other| !self.seen.holds(other.worker())) {
                let _ = self.note_pulse(other);
            }
        }
        found
    }

    /// Notes what a worker's pulse is. Whether it was so at the last look.
    pub(super) fn note_pulse(&self, of: &Remote<M>) -> bool {
        let pulse = of.pulse();
        self.pulses[of.worker()].replace(pulse) == pulse
    }

    /// Takes from one worker. Whether there was something.
    pub(super) fn rob(&self, victim: &Remote<M>, greed: Greed) -> bool {
        // What came to a worker that makes progress is that worker's to run.
        let inject = greed != Greed::Half && victim.has_injected();
        if !victim.has_queued() && !inject {
            return false;
        }
        let Some(count) = self.local.steal(victim, greed, inject) else {
            return false;
        };
        self.shared.tally.thefts.add_owned(1);
        self.shared.tally.stolen.add_owned(count);
        true
    }

    /// The search is over, successful or not. The last one to end it sees to those who relied on
    /// it: they had work, and woke nobody.
    pub(super) fn end_search(&self) {
        let (searches, was_settled) = (self.searching.replace(false), self.settled.replace(false));
        if !searches && !was_settled {
            return;
        }
        let remote = self.shared.remote();
        let scheduler = remote.scheduler();
        // Claimed to be the watchdog, and has got something to do instead: somebody else is to be it.
        if !self.local.is_empty() && scheduler.idle().decline_watchdog() == Declined::Yes {
            M::fence_announce();
            self.leave_spin();
        }
        if !searches || scheduler.idle().end_search(remote.worker()) == Searching::Others {
            return;
        }
        // Behind the count: either they see that nobody searches, or this worker sees their work.
        M::fence_announce();
        if self.local.is_empty() && !self.local.is_off() && !self.visit_others() {
            return;
        }
        // Also for a single task: whose worker needed help may be inside a long poll. That may be this worker before
        // long, and what came to its inject queue since its pass woke nobody.
        if self.local.has_surplus() || remote.has_injected() || self.others_have_work() {
            M::mark(Mark::IdleLastSearch);
            scheduler.offer(remote.worker());
        }
    }

    fn enter_idle_set(&self) {
        // Also if it is in the set already: what it got meanwhile may have been stolen at once.
        self.local.unlist();
        if !self.in_idle_set.replace(true) {
            let remote = self.shared.remote();
            remote.scheduler().idle().enter(remote.worker());
        }
    }

    /// The worker has something to do.
    pub(super) fn leave_idle_set(&self) {
        if !self.in_idle_set.replace(false) {
            return;
        }
        let remote = self.shared.remote();
        match remote.scheduler().idle().leave(remote.worker()) {
            Left::ByItself => {}
            Left::Settled => self.settled.set(true),
            Left::Claimed => {
                self.shared.tally.claims.add_owned(1);
                self.searching.set(true);
            }
        }
    }
}
