//! Searches that lapse: their workers get no CPU, and others are to be woken in their place. See
//! ../README.md.

use super::{IDLE, IDLE_WORKERS, IdleSet, OWES, Searching};
use doorbell_machine::{Bug, Machine, Mark, Ordering, Word};
use std::cell::Cell;

/// A worker's copy of who was counted as searching, as it was at its last look.
#[derive(Debug)]
pub(crate) struct Searchers {
    /// One bit per worker.
    words: Box<[Cell<u32>]>,
}

impl Searchers {
    /// A copy for a scheduler of so many workers, of which nobody searches.
    pub(crate) fn new(workers: usize) -> Self {
        Searchers {
            words: (0..workers.div_ceil(IDLE_WORKERS))
                .map(|_| Cell::new(0))
                .collect(),
        }
    }

    /// As if nobody had searched.
    pub(crate) fn forget(&self) {
        self.words.iter().for_each(|word| word.set(0));
    }
}

impl<M: Machine> IdleSet<M> {
    /// Which workers are counted as searching, 32 to a number.
    pub fn searching(&self) -> impl Iterator<Item = u32> {
        // ORDER: Relaxed; a hint, the read-modify-write of `lapse` decides.
        let load = |word: &M::Line<M::U64>| word.load(Ordering::Relaxed) >> IDLE_WORKERS;
        self.words.iter().map(move |word| load(word) as u32)
    }

    /// Notes who is counted as searching, and lets the search of each that was at the last look lapse, but
    /// for that of the worker `own`. [`Searching::None`] if one of them was the last: the caller does what is
    /// due at the end of the last search.
    pub(crate) fn lapse_since(&self, seen: &Searchers, own: usize) -> Searching {
        let mut left = Searching::Others;
        for (at, (now, seen)) in self.searching().zip(&seen.words).enumerate() {
            let both = now & seen.replace(now);
            for bit in (0..IDLE_WORKERS).filter(|bit| both & (1 << bit) != 0) {
                let worker = at * IDLE_WORKERS + bit;
                if worker != own
                    && !M::breaks(Bug::IdleClaimNeverLapses)
                    && self.lapse(worker) == Some(Searching::None)
                {
                    left = Searching::None;
                }
            }
        }
        left
    }

    /// A worker has been counted as searching for so long that it seems to get no CPU: it is counted no
    /// more, and cannot be claimed before it has run. `None` if its search is over. Behind
    /// [`Searching::None`] the caller does what is due at the end of the last search.
    pub fn lapse(&self, worker: usize) -> Option<Searching> {
        let (word, at) = self.word(worker);
        // ORDER: Relaxed; the exchange decides.
        let mut seen = word.load(Ordering::Relaxed);
        // A worker that owes nothing any more may rely on being in the set.
        while seen & (OWES << at) != 0 {
            // ORDER: Acquire pairs with the Release of `win` and `begin_search`, as in `end_search`. Of those
            // that clear the bit one finds it set, and counts one less. Relaxed on failure: the next guess.
            match word.compare_exchange(
                seen,
                seen & !((IDLE | OWES) << at),
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => {
                    M::mark(Mark::IdleClaimLapsed);
                    return Some(self.count_one_less());
                }
                Err(now) => seen = now,
            }
        }
        None
    }
}
