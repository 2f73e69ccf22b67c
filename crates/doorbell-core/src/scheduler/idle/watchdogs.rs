//! The watchdogs: parked workers that look again soon, for the sake of those that are stuck. What their word says:
//!
//! | bits | name | meaning |
//! |---|---|---|
//! | 0 to 7 | `TAKEN` | so many parked workers are watchdogs |
//! | 8 to 15 | `WANTED` | so many more are to be: somebody has a task waiting and workers asleep, and has claimed some; the next workers that park are |

use super::{Cost, Declined, IdleSet, Watchdog};
use doorbell_machine::{Bug, Machine, Mark, Ordering, Word};

const TAKEN: u32 = 1;
const WANTED: u32 = 1 << 8;
/// Two look again, so that one of them may get no CPU.
pub(super) const MAX: u32 = 2;
const _: () = assert!(MAX < WANTED / TAKEN);

const fn taken(word: u32) -> u32 {
    word % WANTED
}

const fn wanted(word: u32) -> u32 {
    word / WANTED
}

const fn all(word: u32) -> u32 {
    taken(word) + wanted(word)
}

impl<M: Machine> IdleSet<M> {
    /// Whether somebody has asked for a watchdog that is not there yet.
    pub fn wants_watchdog(&self) -> bool {
        // ORDER: Relaxed; who parks by an older value leaves it to the worker that was woken for it.
        wanted(self.watchdogs.load(Ordering::Relaxed)) > 0
    }

    /// Changes the word to what `next` says of it, unless that is nothing. What it was, if it was changed.
    fn change(&self, next: impl Fn(u32) -> Option<u32>) -> Option<u32> {
        // ORDER: Relaxed; the exchange decides.
        let mut seen = self.watchdogs.load(Ordering::Relaxed);
        loop {
            let next = next(seen)?;
            if M::breaks(Bug::IdleWatchdogBlind) {
                // ORDER: the mutant; more workers than that may find that one is missing.
                self.watchdogs.store(next, Ordering::Release);
                return Some(seen);
            }
            // ORDER: Relaxed; the word has one order, so of those that ask for the last place one gets it.
            // Nothing is published by it. A read-modify-write, for the fences behind it.
            match self
                .watchdogs
                .compare_exchange(seen, next, Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(before) => return Some(before),
                Err(now) => seen = now,
            }
        }
    }

    /// A worker that parks would be one of those that look at stuck workers.
    pub fn begin_watchdog(&self) -> Watchdog {
        let begun = self.change(|seen| {
            let asked = wanted(seen).min(1) * WANTED;
            (taken(seen) < self.watchdogs_max).then(|| seen + TAKEN - asked)
        });
        begun.map_or(Watchdog::Taken, |_| Watchdog::Begun)
    }

    /// Takes back that one more watchdog is wanted, if one is: a worker that was claimed for that, and has
    /// something else to do, is not to be waited for.
    pub fn decline_watchdog(&self) -> Declined {
        let declined = self.change(|seen| (wanted(seen) > 0).then(|| seen - WANTED));
        declined.map_or(Declined::Nobody, |_| Declined::Yes)
    }

    /// It is awake, and no watchdog any more. Behind this it looks once more for what others left
    /// to it.
    pub fn end_watchdog(&self) {
        // ORDER: Relaxed as in `change`, and a read-modify-write, for the fence behind it.
        self.watchdogs.fetch_sub(TAKEN, Ordering::Relaxed);
    }

    /// A worker has one task waiting, and there may be too few that would look after it: whether the
    /// caller is to wake workers for that. Behind the push and its fence.
    #[inline]
    pub fn lacks_watchdog(&self) -> bool {
        // ORDER: Relaxed; behind the pusher's fence: a watchdog that ends sees the push.
        self.any() && all(self.watchdogs.load(Ordering::Relaxed)) < self.watchdogs_max
    }

    /// Claims the worker that is to be a watchdog; the caller wakes it.
    pub fn want_watchdog(&self, near: usize, cost: impl Fn(usize) -> Cost) -> Option<usize> {
        self.change(|seen| (all(seen) < self.watchdogs_max).then(|| seen + WANTED))?;
        M::mark(Mark::IdleWatchdogWanted);
        let claimed = self.claim(near, cost);
        if claimed.is_none() {
            // All are awake. A worker that parks looks for itself.
            let _ = self.decline_watchdog();
        }
        claimed
    }
}
