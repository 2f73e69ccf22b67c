//! The idle set: which workers have nothing to do, and who wakes one. See ../README.md.
//!
//! Two bits per worker, 32 workers to a word, and the number of workers that search. The set of workers that may
//! have work is in `work.rs`. Only a worker sets its own idle bit. A waker or the worker itself clears it; one
//! read-modify-write decides which of them.
//!
//! | bits of a word | name | meaning |
//! |---|---|---|
//! | 0 to 31 | `IDLE` | the worker has nothing to do, and can be claimed |
//! | 32 to 63 | `COUNTED` | the worker is counted as searching: it was claimed, or searches by itself |

mod armed;
mod lapse;
#[cfg(test)]
mod loom;
#[cfg(test)]
mod loom_search;
#[cfg(test)]
mod tests;
mod watchdogs;
mod work;

pub(crate) use armed::{Armed, STUCK_NS};
pub(crate) use lapse::Searchers;
pub use work::{Seen, WorkSet};

use doorbell_machine::{Bug, Line, Machine, Mark, Ordering, Word};

/// Workers per word of the work set.
const WORD_WORKERS: usize = 64;

/// Workers per word of the idle set.
const IDLE_WORKERS: usize = 32;

/// The bits of a word, by its first worker.
const IDLE: u64 = 1;
const COUNTED: u64 = IDLE << IDLE_WORKERS;
const _: () = assert!(2 * IDLE_WORKERS == u64::BITS as usize && COUNTED == 1 << 32);

/// The workers of a word that can be claimed. A worker that searches cannot: it looks for work anyway.
const fn claimable(word: u64) -> u32 {
    word as u32 & !((word >> IDLE_WORKERS) as u32)
}

/// The cost of waking an idle worker. A waker claims the cheapest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cost {
    /// A store: the worker spins.
    Store,
    /// A syscall: the worker is parked.
    Ring,
    /// The worker gets no CPU for now: a higher class runs on its core.
    Outranked,
    /// The worker must not be woken for this.
    Never,
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
    words: Box<[M::Line<M::U64>]>,
    searching: M::Line<M::U32>,
    searching_max: u32,
    watchdogs: M::Line<M::U32>,
    watchdogs_max: u32,
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
    /// The set of a scheduler of `workers` workers, none of which is idle.
    pub fn new(workers: usize) -> Self {
        let others = u32::try_from(workers.saturating_sub(1)).unwrap_or(u32::MAX);
        IdleSet {
            words: (0..workers.div_ceil(IDLE_WORKERS))
                .map(|_| M::Line::new(|| M::U64::new(0)))
                .collect(),
            searching: M::Line::new(|| M::U32::new(0)),
            searching_max: u32::try_from(workers.div_ceil(2)).unwrap_or(u32::MAX),
            watchdogs: M::Line::new(|| M::U32::new(0)),
            // A stuck worker cannot be the watchdog that finds it.
            watchdogs_max: others.clamp(1, watchdogs::MAX),
        }
    }

    /// The worker's word, and the shift of its bits from those of the first worker of that word.
    fn word(&self, worker: usize) -> (&M::U64, usize) {
        (&self.words[worker / IDLE_WORKERS], worker % IDLE_WORKERS)
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
        // ORDER: Relaxed; the word has one order, so of this worker and the claimers one finds the bit set. What a
        // claimer did before, its ring says, and for the count `end_search`.
        let before = word.fetch_and(!(IDLE << at), Ordering::Relaxed);
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
        // ORDER: Relaxed; behind the poster's fence, or a hint.
        self.words
            .iter()
            .any(|word| claimable(word.load(Ordering::Relaxed)) != 0)
    }

    /// The workers that can be claimed, from `near` on: first those of the same word, then the others.
    fn claimables(&self, near: usize) -> impl Iterator<Item = usize> {
        let (first, from) = (near / IDLE_WORKERS, near % IDLE_WORKERS);
        let words = self.words.len();
        (0..words).flat_map(move |step| {
            let at = (first + step) % words;
            // ORDER: Relaxed; a hint, the read-modify-write of a claim decides.
            let mut bits = claimable(self.words[at].load(Ordering::Relaxed));
            std::iter::from_fn(move || {
                let next = bits.rotate_right(from as u32).trailing_zeros() as usize;
                let bit = (bits != 0).then_some((next + from) % IDLE_WORKERS)?;
                bits &= !(1 << bit);
                Some(at * IDLE_WORKERS + bit)
            })
        })
    }

    /// The first idle worker of the lowest cost, from `near` on. It is not claimed: a moment later it may be busy.
    pub fn find(&self, near: usize, cost: impl Fn(usize) -> Cost) -> Option<usize> {
        let mut best = None;
        for worker in self.claimables(near) {
            let cost = cost(worker);
            if cost < Cost::Never && best.is_none_or(|(_, least)| cost < least) {
                best = Some((worker, cost));
            }
            if cost == Cost::Store {
                break;
            }
        }
        best.map(|(worker, _)| worker)
    }

    /// Whether any worker searches.
    #[inline]
    pub fn anyone_searches(&self) -> bool {
        // ORDER: Relaxed; behind the poster's fence, or a hint.
        self.searching.load(Ordering::Relaxed) != 0
    }

    /// Claims the first idle worker of the lowest cost, from `near` on. The caller wakes it. From here on the worker
    /// is counted as searching.
    pub fn claim(&self, near: usize, cost: impl Fn(usize) -> Cost) -> Option<usize> {
        while self
            .claimables(near)
            .any(|worker| cost(worker) < Cost::Never)
        {
            // Counted before the claim: the claimed worker may call `end_search` at once.
            self.count_searching();
            if let Some(worker) = self.claim_counted(near, &cost) {
                return Some(worker);
            }
        }
        None
    }

    /// As [`IdleSet::claim`], but only while no worker searches.
    pub fn claim_as_first(&self, near: usize, cost: impl Fn(usize) -> Cost) -> Option<usize> {
        while self.any() {
            // ORDER: Relaxed as in `count_searching`; on failure another worker searches, and looks
            // again after its search has ended.
            self.searching
                .compare_exchange(0, 1, Ordering::Relaxed, Ordering::Relaxed)
                .ok()?;
            if let Some(worker) = self.claim_counted(near, &cost) {
                return Some(worker);
            }
        }
        None
    }

    /// Claims a worker after the caller has counted one search. The search goes to the claimed worker; without a
    /// claim it is over. `None` even if a worker became idle meanwhile: other wakers may have relied on this search
    /// and woken no worker, so the caller looks again.
    fn claim_counted(&self, near: usize, cost: &dyn Fn(usize) -> Cost) -> Option<usize> {
        let claimed = self.try_claim(near, cost);
        if claimed.is_none() {
            M::mark(Mark::IdleClaimNobody);
            let _ = self.count_one_less();
            M::fence_recheck();
        }
        claimed
    }

    fn count_searching(&self) {
        // ORDER: Relaxed; the Release of what says so in the worker's word stands behind it, and the Acquire of
        // what clears that in front of `count_one_less`: a search is counted before it is over.
        self.searching.fetch_add(1, Ordering::Relaxed);
    }

    fn count_one_less(&self) -> Searching {
        // ORDER: Relaxed as in `count_searching`, and a read-modify-write: the last searcher has a fence behind it.
        if self.searching.fetch_sub(1, Ordering::Relaxed) == 1 {
            Searching::None
        } else {
            Searching::Others
        }
    }

    /// Whether a worker that entered is still in the set, so no waker has claimed it.
    pub fn holds(&self, worker: usize) -> bool {
        let (word, at) = self.word(worker);
        // ORDER: Relaxed; behind the fence of the worker's announcement. A later claimer notifies the
        // worker through its bell.
        word.load(Ordering::Relaxed) & (IDLE << at) != 0
    }

    fn try_claim(&self, near: usize, cost: &dyn Fn(usize) -> Cost) -> Option<usize> {
        loop {
            let worker = self.find(near, cost)?;
            if self.win(worker) {
                return Some(worker);
            }
        }
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

    /// The worker's search is over. The last searcher looks for work once more, behind a fence: a waker may have
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
