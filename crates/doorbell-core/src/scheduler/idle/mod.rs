//! The idle set: which workers have nothing to do, and who wakes one. See ../README.md.
//!
//! The words are in `cores.rs`, the order in which idle workers are chosen in `choice.rs`, and the set of workers that
//! may have work in `work.rs`. Only a worker sets its own idle bit. A waker or the worker itself clears it; one
//! read-modify-write decides which of them.

mod choice;
mod cores;
mod lapse;
#[cfg(test)]
pub(super) mod loom;
#[cfg(test)]
mod loom_search;
#[cfg(test)]
pub(super) mod tests;
mod watchdogs;
mod work;

pub use choice::Wish;
pub use cores::Cores;
pub(super) use cores::{BitPlace, GROUP_MAX};
pub(crate) use lapse::Searchers;
pub use work::{Seen, WorkSet};

use crate::class::Class;
use choice::{Choice, Which};
use cores::{COUNTED, IDLE, STARTED};
use doorbell_machine::{Bug, Line, Machine, Mark, Ordering, Word};
use std::sync::Arc;

/// What a look at the words says of a worker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sight {
    /// It is in the idle set.
    pub(crate) is_idle: bool,
    /// No worker of another class runs on its core.
    pub(crate) has_core: bool,
}

/// How a worker left the set.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// By itself: no waker had claimed it.
    ByItself,
    /// A waker had claimed it: it is counted as searching, and owes [`IdleSet::end_search`].
    Claimed,
    /// A waker had claimed it, but it owes no search: it has searched since, or the claim has
    /// [lapsed](IdleSet::lapse).
    Settled,
}

/// Whether a worker may search.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Search {
    /// It is counted, and owes [`IdleSet::end_search`].
    Begun,
    /// Enough workers search already.
    Enough,
}

/// Whether other workers still search when a worker ends its search.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Searching {
    /// Others still search, or this search had ended already.
    Others,
    /// It was the last. Posters that relied on it woke no worker.
    None,
}

/// Whether a worker became a watchdog of the scheduler.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watchdog {
    /// It became one, and owes [`IdleSet::end_watchdog`].
    Begun,
    /// Enough others are watchdogs.
    Taken,
}

/// Whether a request for a watchdog was taken back.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Declined {
    /// One was. The caller looks whether there still is a reason for a watchdog.
    Yes,
    /// There was no request.
    Nobody,
}

/// Which workers of a scheduler are idle, and how many search for work.
pub struct IdleSet<M: Machine> {
    cores: Arc<Cores<M>>,
    class: Class,
    searching: M::Line<M::U32>,
    searching_max: u32,
    watchdogs: M::Line<M::U32>,
    watchdogs_max: u32,
    /// When a worker with work of its own last looked at the others.
    looked_ns: M::Line<M::U64>,
}

impl<M: Machine> std::fmt::Debug for IdleSet<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IdleSet")
            .field("any", &self.any())
            .field("anyone_searches", &self.anyone_searches())
            .finish_non_exhaustive()
    }
}

impl<M: Machine> IdleSet<M> {
    /// The set of a scheduler of that class, which has a worker on each of these cores. No worker is idle yet.
    pub fn new(cores: &Arc<Cores<M>>, class: Class) -> Self {
        let workers = cores.workers();
        let others = u32::try_from(workers.saturating_sub(1)).unwrap_or(u32::MAX);
        IdleSet {
            cores: Arc::clone(cores),
            class,
            searching: M::Line::new(|| M::U32::new(0)),
            searching_max: u32::try_from(workers.div_ceil(2)).unwrap_or(u32::MAX),
            watchdogs: M::Line::new(|| M::U32::new(0)),
            // A stuck worker cannot be the watchdog that finds it.
            watchdogs_max: others.clamp(1, watchdogs::MAX),
            looked_ns: M::Line::new(|| M::U64::new(0)),
        }
    }

    /// The worker's word, and the shift of its bits from those of the first worker of that word.
    fn word(&self, worker: usize) -> (&M::U64, usize) {
        let BitPlace { group, slot } = self.cores.place(worker);
        (self.cores.word(group, self.class), slot)
    }

    /// The worker begins to run: from here on other classes see whether its core is free.
    pub fn start(&self, worker: usize) {
        let (word, at) = self.word(worker);
        // ORDER: Relaxed; a hint.
        word.fetch_or(STARTED << at, Ordering::Relaxed);
    }

    /// The worker is idle from here on and may be claimed. It looks for work once more after this; only after
    /// that look does it rely on being woken.
    pub fn enter(&self, worker: usize) {
        let (word, at) = self.word(worker);
        // Store buffering, with the push of a waker and its fence_recheck: either the waker sees the bit, or this
        // worker sees what was pushed.
        // ORDER: AcqRel; redundant because of that fence. It leaves the model checker less to try.
        word.fetch_or(IDLE << at, Ordering::AcqRel);
        if !M::breaks(Bug::IdleNoAnnounceFence) {
            M::fence_announce();
        }
    }

    /// The worker has something to do: clears its idle bit.
    pub fn leave(&self, worker: usize) -> Left {
        let (word, at) = self.word(worker);
        // ORDER: Acquire pairs with the Release of `win`, here and below: a worker that was claimed sees what it was
        // claimed for before it is rung. Only this worker sets the bit, so a clear one stays clear.
        let seen = word.load(Ordering::Acquire);
        let before = if seen & (IDLE << at) == 0 {
            seen
        } else {
            // ORDER: Acquire, as above; the word has one order, so of this worker and the claimers one finds the bit
            // set.
            word.fetch_and(!(IDLE << at), Ordering::Acquire)
        };
        if before & (IDLE << at) != 0 {
            Left::ByItself
        } else if before & (COUNTED << at) != 0 {
            Left::Claimed
        } else {
            Left::Settled
        }
    }

    /// Whether any worker is idle and can be claimed.
    #[inline]
    pub fn any(&self) -> bool {
        (0..self.cores.groups()).any(|group| {
            // ORDER: Relaxed; after the poster's fence, or a hint.
            let word = self.cores.word(group, self.class).load(Ordering::Relaxed);
            word as u16 & !((word / COUNTED) as u16) != 0
        })
    }

    /// An idle worker, in the order of `choice.rs`. It is not claimed: a moment later it may be busy.
    pub fn find(&self, wish: Wish, fits: impl Fn(usize) -> bool) -> Option<usize> {
        self.choice(wish, Which::Resting, &fits).make(&mut |_| true)
    }

    fn choice<'a>(
        &'a self,
        wish: Wish,
        which: Which,
        fits: &'a dyn Fn(usize) -> bool,
    ) -> Choice<'a, M> {
        let set = self;
        Choice {
            set,
            wish,
            which,
            fits,
        }
    }

    /// Takes the worker out of the set for a task that the caller posts to it next, if it is in the set, as the caller
    /// has seen just now. One read-modify-write decides who takes it. It owes no search.
    #[must_use]
    pub(crate) fn take(&self, worker: usize) -> bool {
        let (word, at) = self.word(worker);
        if M::breaks(Bug::IdleTakeBlind) {
            // ORDER: Relaxed; the mutant; two wakers may both believe that they took the worker.
            let seen = word.load(Ordering::Relaxed);
            // ORDER: Relaxed; the mutant, as for the load above.
            word.store(seen & !(IDLE << at), Ordering::Relaxed);
            return seen & (IDLE << at) != 0;
        }
        // ORDER: Relaxed; the word has one order, so of those that take or claim the worker one finds the bit set.
        let took = word.fetch_and(!(IDLE << at), Ordering::Relaxed) & (IDLE << at) != 0;
        if !took {
            M::mark(Mark::IdleTakeLost);
        }
        took
    }

    /// Calls `takes` with one idle worker after the other until it returns `true`: those that search are idle too.
    pub(crate) fn each_idle(
        &self,
        wish: Wish,
        mut takes: impl FnMut(usize) -> bool,
    ) -> Option<usize> {
        self.choice(wish, Which::Idle, &|_| true).make(&mut takes)
    }

    /// The worker of the wish; but if another worker runs on its core, the nearest idle one on whose core nothing runs,
    /// if there is one. It is not claimed.
    pub(crate) fn beside_nobody(&self, wish: Wish) -> usize {
        let found = self.choice(wish, Which::Idle, &|_| true).find_whole();
        found.unwrap_or(wish.near)
    }

    /// Whether the worker is in the set, and whether no worker of another class runs on its core, as far as is known.
    pub(crate) fn sight(&self, worker: usize) -> Sight {
        let BitPlace { group, slot } = self.cores.place(worker);
        let free = self.cores.free(group, self.class);
        Sight {
            is_idle: free.idle & 1 << slot != 0,
            has_core: free.others & 1 << slot == 0,
        }
    }

    /// The nearest other worker that has begun to run, is not idle, and fits. A guess: a moment later it may be idle.
    pub(crate) fn nearest_awake(&self, near: usize, fits: impl Fn(usize) -> bool) -> Option<usize> {
        let own = self.cores.place(near);
        self.cores.order(own.group).iter().find_map(|&group| {
            let awake = self.cores.awake(group, self.class);
            // From the caller's own place on, so that callers of one group choose different workers.
            let mut members = self.cores.members(group, own.slot);
            let found = members.find(|(worker, place)| {
                awake & 1 << place.slot != 0 && *worker != near && fits(*worker)
            });
            found.map(|(worker, _)| worker)
        })
    }

    /// Whether any worker searches.
    #[inline]
    pub fn anyone_searches(&self) -> bool {
        // ORDER: Relaxed; after the poster's fence, or a hint.
        self.searching.load(Ordering::Relaxed) != 0
    }

    /// Claims an idle worker, in the order of `choice.rs`. The caller wakes it. From here on the worker is counted as
    /// searching.
    pub fn claim(&self, wish: Wish, fits: impl Fn(usize) -> bool) -> Option<usize> {
        while self.find(wish, &fits).is_some() {
            // Counted before the claim: the claimed worker may call `end_search` at once.
            self.count_searching();
            if let Some(worker) = self.claim_counted(wish, &fits) {
                return Some(worker);
            }
        }
        None
    }

    /// As [`IdleSet::claim`], but only while no worker searches.
    pub fn claim_as_first(&self, wish: Wish, fits: impl Fn(usize) -> bool) -> Option<usize> {
        while self.any() {
            // ORDER: Relaxed as in `count_searching`; on failure another worker searches, and looks
            // again after its search has ended.
            self.searching
                .compare_exchange(0, 1, Ordering::Relaxed, Ordering::Relaxed)
                .ok()?;
            if let Some(worker) = self.claim_counted(wish, &fits) {
                return Some(worker);
            }
        }
        None
    }

    /// Claims a worker after the caller has counted one search. The search goes to the claimed worker; without a
    /// claim it is over. `None` even if a worker became idle meanwhile: other wakers may have relied on this search
    /// and woken no worker, so the caller looks again.
    fn claim_counted(&self, wish: Wish, fits: &dyn Fn(usize) -> bool) -> Option<usize> {
        let claimed = self
            .choice(wish, Which::Resting, fits)
            .make(&mut |worker| self.win(worker));
        if claimed.is_none() {
            M::mark(Mark::IdleClaimNobody);
            let _ = self.count_one_less();
            M::fence_recheck();
        }
        claimed
    }

    fn count_searching(&self) {
        // ORDER: Relaxed; the Release of what says so in the worker's word comes after it, and the Acquire of
        // what clears that in front of `count_one_less`: a search is counted before it is over.
        self.searching.fetch_add(1, Ordering::Relaxed);
    }

    fn count_one_less(&self) -> Searching {
        // ORDER: Relaxed as in `count_searching`, and a read-modify-write: the last searcher has a fence after it.
        if self.searching.fetch_sub(1, Ordering::Relaxed) == 1 {
            Searching::None
        } else {
            Searching::Others
        }
    }

    /// Whether a worker that entered is still in the set, so no waker has claimed it.
    pub fn holds(&self, worker: usize) -> bool {
        let (word, at) = self.word(worker);
        // ORDER: Relaxed; after the fence of the worker's announcement. A later claimer notifies the
        // worker through its bell.
        word.load(Ordering::Relaxed) & (IDLE << at) != 0
    }

    /// Claims the worker: clears its idle bit and sets its owes bit. Returns whether the caller did so.
    fn win(&self, worker: usize) -> bool {
        let (word, at) = self.word(worker);
        let (idle, owes) = (IDLE << at, COUNTED << at);
        // ORDER: Relaxed; the exchange decides. Acquire in the mutant, which it does not help.
        let mut seen = word.load(Ordering::Relaxed);
        if M::breaks(Bug::IdleClaimBlind) {
            // ORDER: the mutant; two wakers may both believe that they claimed the worker.
            word.store(seen & !idle | owes, Ordering::Release);
            return seen & idle != 0;
        }
        while seen & (idle | owes) == idle {
            // ORDER: Release pairs with the Acquire of `end_search` and `lapse`: the thread that ends this search sees
            // that it was counted. Relaxed on failure: only the next guess.
            match word.compare_exchange(
                seen,
                seen & !idle | owes,
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        M::mark(Mark::IdleClaimLost);
        false
    }

    /// A worker that found nothing of its own begins to search the others, unless enough workers search.
    pub fn begin_search(&self, worker: usize) -> Search {
        // ORDER: Relaxed; workers that begin at the same moment may exceed the limit together.
        if self.searching.load(Ordering::Relaxed) >= self.searching_max {
            return Search::Enough;
        }
        let (word, at) = self.word(worker);
        loop {
            // Counted before the bit says so, as for a claim.
            self.count_searching();
            // ORDER: Release as in `win`. A claimer's exchange and this have one order: the second sees the
            // bit of the first.
            if word.fetch_or(COUNTED << at, Ordering::Release) & (COUNTED << at) == 0 {
                return Search::Begun;
            }
            // Claimed meanwhile, and counted for that. If the count falls to zero here, that claim has lapsed.
            if self.count_one_less() == Searching::Others {
                return Search::Begun;
            }
        }
    }

    /// The worker's search is over. The last searcher looks for work once more, after a fence: a waker may have
    /// relied on the search and woken no worker. If the search has [lapsed](IdleSet::lapse), that was done already.
    pub fn end_search(&self, worker: usize) -> Searching {
        let (word, at) = self.word(worker);
        // ORDER: Acquire pairs with the Release of `win`: the search that is over was counted. Of this and
        // `lapse` one finds the bit set, and counts one less.
        if word.fetch_and(!(COUNTED << at), Ordering::Acquire) & (COUNTED << at) == 0 {
            return Searching::Others;
        }
        self.count_one_less()
    }
}
