//! How a worker without work finds some at other workers, and how workers with work find an idle one.

use super::timed_check::NextCheck;
use super::{
    LOOK_AROUND_NS, SPIN_ALONE_NS, WATCHDOG_MAX_NS, WATCHDOG_MIN_NS, WATCHDOG_STAYS_NS, Worker,
};
use crate::queue::Greed;
use crate::scheduler::Member;
use crate::scheduler::Turns;
use crate::scheduler::idle::{Declined, Left, STUCK_NS, Search, Searching, Watchdog};
use doorbell_machine::{Bug, Counter, Machine, Mark};

impl<M: Machine> Worker<M> {
    /// Whether there are workers to share tasks with.
    pub(super) fn has_others(&self) -> bool {
        self.pulses.len() > 1 && !self.local.is_off()
    }

    /// Whether the workers of its core tell each other when they use the core.
    fn has_beside(&self) -> bool {
        self.shared.remote().core_use().is_some()
    }

    /// How long to spin before the next look at the other workers.
    pub(super) fn slice_ns(&self, quiet_ns: u64, spin_ns: u64) -> u64 {
        let left_ns = spin_ns - quiet_ns;
        match quiet_ns {
            _ if !self.has_others() && !self.has_beside() && !self.has_sources() => left_ns,
            0 => left_ns.min(SPIN_ALONE_NS),
            _ => left_ns.min(LOOK_AROUND_NS),
        }
    }

    /// A worker that was claimed for work looks for it. Returns whether it found some.
    pub(super) fn search_if_claimed(&self) -> bool {
        self.searching.get() && self.search()
    }

    /// Looks for work at the other workers, unless enough workers search. From its first look around on a
    /// spinning worker can be claimed. Returns whether it found some.
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

    /// The look before the worker sleeps: it sees earlier work; later work finds this worker in the idle set.
    /// Returns whether the worker must stay awake.
    pub(super) fn look_for_the_last_time(&self) -> bool {
        if !self.has_others() {
            self.local.unlist();
            return false;
        }
        self.unlooked_ns.set(0);
        self.enter_idle_set();
        let remote = self.shared.remote();
        // Claimed while it spun: the work may be gone, but the claim must be consumed. A later claimer
        // finds the worker parked, and notifies it.
        if !remote.scheduler().idle().holds(remote.worker()) {
            M::mark(Mark::IdleClaimedBeforePark);
            return true;
        }
        if remote.is_watchdog() {
            self.end_lapsed_searches();
        }
        // The thread that posted them may have found no worker idle.
        self.take_timers();
        let found = self.visit_others();
        if found {
            self.offer_new_surplus();
        }
        // A user's waker that is dropped with a timer may have woken a task here.
        found || !self.local.is_empty()
    }

    /// Ends the search of each worker that has been counted as searching since this watchdog's last look, at least
    /// [`WATCHDOG_MIN_NS`] ago: that worker seems to get no CPU. If it was the last to search, wakers that relied on
    /// it woke no worker, so the watchdog visits the others after this. If it takes something, it stops being a
    /// watchdog, and wakes another worker for the rest.
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

    /// When a worker that parks looks at the others again; `None` if it need not. It becomes a watchdog if another
    /// worker has a task waiting behind a poll that may turn out to be long, or if a watchdog was asked for, and
    /// if too few workers are watchdogs. It stays one for [`WATCHDOG_STAYS_NS`]: meanwhile a worker that pushes a
    /// single task wakes no worker, and the watchdog finds the task if the poll takes long.
    pub(super) fn watchdog_until_ns(&self) -> Option<u64> {
        if !self.has_others() {
            // A worker that was taken off leaves this to another.
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
        // A timer that is due late needs one timed check, not looks all the time until then.
        let far_ns = wish_ns.take_if(|wish_ns| *wish_ns > WATCHDOG_MAX_NS);
        if wish_ns.is_some() {
            // In a model such a sleep ends at once; 20 more sleeps in which nothing comes would show nothing.
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
            // Before it relies on a watchdog: this worker no longer makes the timed check.
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

    /// Reads which workers may have work. A caller that must miss none has a fence before this.
    pub(super) fn look_at_list(&self) {
        self.shared.remote().scheduler().work().look(&self.seen);
    }

    /// The other workers that may have had work at the last look, nearest first.
    pub(super) fn listed(&self) -> impl Iterator<Item = &Member<M>> {
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
        self.listed().any(Member::has_work)
    }

    /// After how long a watchdog should look again, because workers inside a poll have a task waiting, timers,
    /// or descriptors; `None` if there is no such worker.
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

    /// Offers an idle worker, if there is one, what exceeds this worker's next task.
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

    /// Before mail is taken: a call in it may be long. If tasks or timers that others may run wait here, asks for
    /// another worker or a watchdog to look after them.
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

    /// Looks for work at every other worker, and ends the search that this worker is counted for.
    fn search(&self) -> bool {
        let found = !self.local.is_off() && self.visit_others();
        self.end_search();
        // The end of the search may have found what the search did not.
        found || !self.local.is_empty()
    }

    /// Takes from the nearest worker that has more than it can run at once, or that is stuck. Returns whether it
    /// took anything.
    fn visit_others(&self) -> bool {
        self.shared.tally.searches.add_owned(1);
        self.look_at_list();
        let by_rank = self.local.turns() == Turns::ByRank;
        let found = self.listed().any(|victim| {
            let stood_still = self.note_pulse(victim);
            // Where tasks run by rank, a task does not wait for the end of another task's poll.
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
        // A worker that gets its first task before the next look may have been stuck since this look.
        let remote = self.shared.remote();
        if !found && remote.is_watchdog() {
            let others = remote.scheduler().others(remote.worker());
            for other in others.filter(|other| !self.seen.holds(other.worker())) {
                let _ = self.note_pulse(other);
            }
        }
        found
    }

    /// Notes the pulse of a worker. Returns whether it is the same as at the last look.
    pub(super) fn note_pulse(&self, of: &Member<M>) -> bool {
        let pulse = of.pulse();
        self.pulses[of.worker()].replace(pulse) == pulse
    }

    /// Steals from one worker. Returns whether there was something to take.
    pub(super) fn rob(&self, victim: &Member<M>, greed: Greed) -> bool {
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

    /// Ends this worker's search, successful or not. The last searcher looks again on behalf of the wakers that
    /// relied on it: they had work, and woke no worker.
    pub(super) fn end_search(&self) {
        let (searches, was_settled) = (self.searching.replace(false), self.settled.replace(false));
        if !searches && !was_settled {
            return;
        }
        let remote = self.shared.remote();
        let scheduler = remote.scheduler();
        // Claimed to be a watchdog, but it has got something to run: another worker must be one.
        if !self.local.is_empty() && scheduler.idle().decline_watchdog() == Declined::Yes {
            M::fence_announce();
            self.leave_spin();
        }
        if !searches || scheduler.idle().end_search(remote.worker()) == Searching::Others {
            return;
        }
        // Behind the count: either the wakers see that no worker searches, or this worker sees their work.
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
        // Also if it is in the idle set already: a task it got meanwhile listed it, and may have been stolen since.
        self.local.unlist();
        if !self.in_idle_set.replace(true) {
            let remote = self.shared.remote();
            remote.scheduler().idle().enter(remote.worker());
        }
    }

    /// The worker has something to do: it leaves the idle set, and learns whether it was claimed.
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
