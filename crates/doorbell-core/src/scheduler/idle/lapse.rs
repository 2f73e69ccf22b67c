//! Searches that lapse: their workers get no CPU, and others are to be woken in their place. See
//! ../README.md.

use super::{COUNTED, IDLE, IDLE_WORKERS, IdleSet, Searching};
use doorbell_machine::{Bug, Machine, Mark, Ordering, Word};
use std::cell::Cell;

/// A worker's copy of the workers counted as searching, as of its last look.
#[derive(Debug)]
pub(crate) struct Searchers {
    /// One bit per worker.
    words: Box<[Cell<u32>]>,
}

impl Searchers {
    /// A copy for a scheduler of `workers` workers, none of which searches.
    pub(crate) fn new(workers: usize) -> Self {
        Searchers {
            words: (0..workers.div_ceil(IDLE_WORKERS))
                .map(|_| Cell::new(0))
                .collect(),
        }
    }

    /// Resets the copy: no worker searches.
    pub(crate) fn forget(&self) {
        self.words.iter().for_each(|word| word.set(0));
    }
}

impl<M: Machine> IdleSet<M> {
    /// The workers that are counted as searching, one bit each, 32 to a number.
    pub fn searching(&self) -> impl Iterator<Item = u32> {
        // ORDER: Relaxed; a hint, the read-modify-write of `lapse` decides.
        let load = |word: &M::Line<M::U64>| word.load(Ordering::Relaxed) >> IDLE_WORKERS;
        self.words.iter().map(move |word| load(word) as u32)
    }

    /// Notes which workers are counted as searching, and ends the search of each that was also counted at the last
    /// look, except that of the worker `own`. [`Searching::None`] if one of these was the last search: the caller
    /// then does what is due at the end of the last search.
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

    /// Ends the search of a worker that has been counted for so long that it seems to get no CPU. The worker cannot
    /// be claimed before it has run. `None` if its search is over already. After [`Searching::None`] the caller does
    /// what is due at the end of the last search.
    pub fn lapse(&self, worker: usize) -> Option<Searching> {
        let (word, at) = self.word(worker);
        // ORDER: Relaxed; the exchange decides.
        let mut seen = word.load(Ordering::Relaxed);
        // Only while it owes: otherwise the worker may rely on being in the set.
        while seen & (COUNTED << at) != 0 {
            // ORDER: Acquire pairs with the Release of `win` and `begin_search`, as in `end_search`. One of the threads
            // that clear the bit finds it set, and counts one less. Relaxed on failure: the next guess.
            match word.compare_exchange(
                seen,
                seen & !((IDLE | COUNTED) << at),
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
