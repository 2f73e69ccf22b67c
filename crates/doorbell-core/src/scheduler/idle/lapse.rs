//! Searches that lapse: their workers get no CPU, and others are to be woken in their place. See
//! ../README.md.

use super::{COUNTED, IDLE, IdleSet, Searching};
use doorbell_machine::{Bug, Machine, Mark, Ordering, Word};
use std::cell::Cell;

/// What a watchdog saw of the others at its last look.
#[derive(Debug)]
pub(crate) struct Searchers {
    /// For each worker, whether it was counted as searching.
    searched: Box<[Cell<bool>]>,
    /// For each worker, if it slept, was not in the idle set and was not notified: the number of its sleeps.
    left_out: Box<[Cell<Option<u64>>]>,
}

impl Searchers {
    /// A copy for a scheduler of `workers` workers, none of which searches.
    pub(crate) fn new(workers: usize) -> Self {
        Searchers {
            searched: (0..workers).map(|_| Cell::new(false)).collect(),
            left_out: (0..workers).map(|_| Cell::new(None)).collect(),
        }
    }

    /// Notes in which of its sleeps a worker is left out: not in the idle set, and not notified. `None` if it is not.
    /// Returns whether it was left out in the same sleep at the last look.
    pub(crate) fn note_left_out(&self, worker: usize, sleep: Option<u64>) -> bool {
        self.left_out[worker].replace(sleep) == sleep && sleep.is_some()
    }

    /// Resets the copy: no worker searches, and none is left out.
    pub(crate) fn forget(&self) {
        self.left_out.iter().for_each(|sleep| sleep.set(None));
        self.searched
            .iter()
            .for_each(|searched| searched.set(false));
    }
}

impl<M: Machine> IdleSet<M> {
    /// Whether the worker is counted as searching.
    pub fn is_searching(&self, worker: usize) -> bool {
        let (word, at) = self.word(worker);
        // ORDER: Relaxed; a hint, the read-modify-write of `lapse` decides.
        word.load(Ordering::Relaxed) & (COUNTED << at) != 0
    }

    /// Notes which workers are counted as searching, and ends the search of each that was also counted at the last
    /// look, except that of the worker `own`. [`Searching::None`] if one of these was the last search: the caller
    /// then does what is due at the end of the last search.
    pub(crate) fn lapse_since(&self, seen: &Searchers, own: usize) -> Searching {
        let mut left = Searching::Others;
        for (worker, searched) in seen.searched.iter().enumerate() {
            let now = self.is_searching(worker);
            if searched.replace(now)
                && now
                && worker != own
                && !M::breaks(Bug::IdleClaimNeverLapses)
                && self.lapse(worker) == Some(Searching::None)
            {
                left = Searching::None;
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
