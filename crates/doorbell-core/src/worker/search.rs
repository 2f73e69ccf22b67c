//! How a worker without work finds some at other workers, and how workers with work find an idle one.

use super::Worker;
use crate::queue::Greed;
use crate::scheduler::Member;
use crate::scheduler::idle::{Left, Search, Searching, Seen};
use crate::switches::IdleClaim;
use doorbell_machine::{Bug, Counter, Machine, Mark};
use std::cell::Cell;

/// What a worker knows of its looks for work, and of its place in the idle set.
#[derive(Debug)]
pub(super) struct Looking {
    /// Which workers may have had work at the last look.
    seen: Seen,
    /// The worker is in the idle set, or was until a waker claimed it.
    in_idle_set: Cell<bool>,
    /// It is counted as searching.
    counted: Cell<bool>,
    /// Since when posts and requests have kept it from looking at other workers; 0 if they have not.
    unlooked_ns: Cell<u64>,
}

impl Looking {
    pub(super) fn new(seen: Seen) -> Self {
        Looking {
            seen,
            in_idle_set: Cell::new(false),
            counted: Cell::new(false),
            unlooked_ns: Cell::new(0),
        }
    }

    /// Whether the worker is counted as searching: it searches, or a waker has claimed it for that.
    pub(super) fn is_counted(&self) -> bool {
        self.counted.get()
    }

    /// Whether the worker is in the idle set, or was until a waker claimed it.
    pub(super) fn is_in_idle_set(&self) -> bool {
        self.in_idle_set.get()
    }

    /// The worker looks at the others, or has work of its own.
    pub(super) fn note_look(&self) {
        self.unlooked_ns.set(0);
    }

    /// How long posts and requests have kept this idle worker from looking at others.
    pub(super) fn unlooked_for_ns(&self, now_ns: u64) -> u64 {
        let since_ns = self.unlooked_ns.get();
        if since_ns == 0 {
            self.unlooked_ns.set(now_ns.max(1));
            return 0;
        }
        now_ns.saturating_sub(since_ns)
    }

    /// As if the worker were counted as searching.
    #[cfg(test)]
    pub(super) fn set_counted(&self) {
        self.counted.set(true);
    }

    /// As if the worker had entered the idle set.
    #[cfg(test)]
    pub(super) fn set_in_idle_set(&self) {
        self.in_idle_set.set(true);
    }
}

impl<M: Machine> Worker<M> {
    /// Whether there are workers to share tasks with.
    pub(super) fn has_others(&self) -> bool {
        self.watch.has_others() && !self.local.is_off()
    }

    /// A worker that was claimed for work looks for it. Returns whether it found some.
    pub(super) fn search_if_claimed(&self) -> bool {
        self.looking.counted.get() && self.search()
    }

    /// Looks for work at the other workers, unless enough workers search. From its first look around on a
    /// spinning worker can be claimed. Returns whether it found some.
    pub(super) fn look_around(&self) -> bool {
        if !self.has_others() {
            return false;
        }
        self.looking.note_look();
        self.enter_idle_set();
        let remote = self.shared.remote();
        match remote.scheduler().idle().begin_search(remote.worker()) {
            Search::Begun => self.looking.counted.set(true),
            Search::Enough => return false,
        }
        self.search()
    }

    /// Reads which workers may have work. A caller that must miss none has a fence before this.
    pub(super) fn look_at_list(&self) {
        self.shared
            .remote()
            .scheduler()
            .work()
            .look(&self.looking.seen);
    }

    /// The other workers that may have had work at the last look, nearest first.
    pub(super) fn listed(&self) -> impl Iterator<Item = &Member<M>> {
        let (remote, seen) = (self.shared.remote(), &self.looking.seen);
        let work = remote.scheduler().work();
        seen.any()
            .then(|| remote.scheduler().others(remote.worker()))
            .into_iter()
            .flatten()
            .filter(|other| work.held(seen, other.worker()))
    }

    /// Whether another worker has a task in its queue or inject queue.
    pub(super) fn others_have_work(&self) -> bool {
        self.look_at_list();
        self.listed().any(Member::has_work)
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

    /// Before mail is delivered: a call in it may be long. If tasks, or anything in the common mailbox, wait here, asks
    /// for another worker or a watchdog to look after them. Sleepers that leave their timers to this worker from now on
    /// find it listed.
    ///
    /// A watchdog that leaves nothing to others stays one during the calls, which are to be short.
    #[inline]
    pub(super) fn leave_behind_calls(&self) {
        let remote = self.shared.remote();
        if !self.local.is_empty() || remote.has_injected() || self.has_common_mail() {
            self.leave_now();
        }
        self.list_for_sleepers();
    }

    #[cold]
    fn leave_now(&self) {
        if !self.has_others() {
            return;
        }
        self.local.share_stolen();
        self.say_all_wait();
        let remote = self.shared.remote();
        if remote.has_work() || self.has_common_mail() {
            self.leave_idle_set();
            // While it is in the calls it looks at no worker. Before the fence: one that falls asleep takes its place.
            self.resign();
            remote.queue().show_stored();
            remote.scheduler().offer_one(remote.worker());
        }
    }

    fn has_common_mail(&self) -> bool {
        !self.shared.remote().scheduler().common().is_empty()
    }

    /// Looks for work at every other worker, and ends the search that this worker is counted for.
    fn search(&self) -> bool {
        let found = !self.local.is_off() && self.scan_others();
        self.end_search();
        // The end of the search may have found what the search did not.
        found || !self.local.is_empty()
    }

    /// Takes from the nearest worker that has more than it can run at once, or that is stuck. Returns whether it
    /// took anything.
    pub(super) fn scan_others(&self) -> bool {
        self.shared.tally.searches.add_owned(1);
        self.look_at_list();
        let shares_one = self.local.turns().shares_one::<M>();
        let now_ns = M::now_ns();
        self.listed().any(|victim| {
            let seen = self.observe(victim, now_ns);
            let greed = if seen.stood_still || (shares_one && seen.is_inside) {
                Greed::One
            } else {
                Greed::Half
            };
            self.rob(victim, greed) || self.expire_for(victim, seen)
        })
    }

    /// Steals from one worker. Returns whether there was something to take.
    pub(super) fn rob(&self, victim: &Member<M>, greed: Greed) -> bool {
        if greed != Greed::Single && victim.idle_claim() == IdleClaim::Base {
            return false;
        }
        // What came to a worker that makes progress is that worker's to run.
        let inject = greed != Greed::Half && victim.has_injected();
        if !victim.has_queued() && !inject {
            return false;
        }
        let Some(count) = self.local.steal(victim, greed, inject) else {
            return false;
        };
        self.note_theft(count);
        true
    }

    pub(super) fn note_theft(&self, count: u64) {
        self.shared.tally.thefts.add_owned(1);
        self.shared.tally.stolen.add_owned(count);
    }

    /// Ends this worker's search, successful or not. The last searcher looks again on behalf of the wakers that
    /// relied on it: they had work, and woke no worker.
    pub(super) fn end_search(&self) {
        if !self.looking.counted.replace(false) {
            return;
        }
        let remote = self.shared.remote();
        let scheduler = remote.scheduler();
        if scheduler.idle().end_search(remote.worker()) == Searching::Others {
            return;
        }
        // Behind the count: either the wakers see that no worker searches, or this worker sees their work.
        M::fence_announce();
        if self.local.is_empty() && !self.local.is_off() && !self.scan_others() {
            return;
        }
        // Also for a single task: whose worker needed help may be inside a long poll. That may be this worker before
        // long, and what came to its inject queue since its pass woke nobody.
        if self.local.has_surplus() || remote.has_injected() || self.others_have_work() {
            M::mark(Mark::IdleLastSearch);
            scheduler.offer(remote.worker());
        }
    }

    /// From here on a thread that has work for others finds this worker idle.
    pub(super) fn enter_idle_set(&self) {
        // Also if it is in the idle set already: a task it got meanwhile listed it, and may have been stolen since.
        self.local.unlist();
        if !self.looking.in_idle_set.replace(true) {
            let remote = self.shared.remote();
            remote.scheduler().idle().enter(remote.worker());
        }
    }

    /// The worker has something to do: it leaves the idle set, and learns whether it was claimed.
    pub(super) fn leave_idle_set(&self) {
        if !self.looking.in_idle_set.replace(false) {
            return;
        }
        let remote = self.shared.remote();
        match remote.scheduler().idle().leave(remote.worker()) {
            Left::ByItself => {}
            Left::Settled => self.watch.note_claimed(),
            Left::Claimed => {
                self.watch.note_claimed();
                self.shared.tally.claims.add_owned(1);
                self.looking.counted.set(true);
            }
        }
    }
}
