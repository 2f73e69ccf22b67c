//! The watchdogs: parked workers that look again soon, to find workers that are stuck. The bits of their word:
//!
//! | bits | name | meaning |
//! |---|---|---|
//! | 0 to 7 | `TAKEN` | number of parked workers that are watchdogs |
//! | 8 to 15 | `WANTED` | number of further ones that were asked for: a worker had a task waiting while others slept, and claimed them; the next workers that park become watchdogs |

use super::{Declined, IdleSet, Watchdog, Wish};
use doorbell_machine::{Bug, Machine, Mark, Ordering, Word};

const TAKEN: u32 = 1;
const WANTED: u32 = 1 << 8;
/// Two, since one of them may get no CPU.
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
    /// A worker with work of its own wants to look at the others: whether it may. One such look in that time is enough.
    #[must_use]
    pub(crate) fn begin_look(&self, now_ns: u64, every_ns: u64) -> bool {
        // ORDER: Relaxed, here and below; of several one wins, and nothing hangs on which.
        let seen_ns = self.looked_ns.load(Ordering::Relaxed);
        if now_ns.saturating_sub(seen_ns) < every_ns {
            return false;
        }
        let claim =
            // ORDER: Relaxed, as above.
            self.looked_ns
                .compare_exchange(seen_ns, now_ns, Ordering::Relaxed, Ordering::Relaxed);
        claim.is_ok()
    }

    /// Whether a watchdog was asked for and no worker has become it yet.
    pub fn wants_watchdog(&self) -> bool {
        // ORDER: Relaxed; a worker that parks by an older value leaves it to the worker that was woken for it.
        wanted(self.watchdogs.load(Ordering::Relaxed)) > 0
    }

    /// Changes the word to `next` of it, unless that is `None`. Returns the word before the change, if there was one.
    fn change(&self, next: impl Fn(u32) -> Option<u32>) -> Option<u32> {
        // ORDER: Relaxed; the exchange decides.
        let mut seen = self.watchdogs.load(Ordering::Relaxed);
        loop {
            let next = next(seen)?;
            if M::breaks(Bug::IdleWatchdogBlind) {
                // ORDER: the mutant; too many workers may find that one is missing.
                self.watchdogs.store(next, Ordering::Release);
                return Some(seen);
            }
            // ORDER: Relaxed; the word has one order, so of the workers that ask for the last place one gets it.
            // It publishes nothing. A read-modify-write, for the fences after it.
            match self
                .watchdogs
                .compare_exchange(seen, next, Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(before) => return Some(before),
                Err(now) => seen = now,
            }
        }
    }

    /// A worker that parks asks to become a watchdog. It takes back one request for a watchdog, if there is one.
    pub fn begin_watchdog(&self) -> Watchdog {
        let begun = self.change(|seen| {
            let asked = wanted(seen).min(1) * WANTED;
            (taken(seen) < self.watchdogs_max).then(|| seen + TAKEN - asked)
        });
        begun.map_or(Watchdog::Taken, |_| Watchdog::Begun)
    }

    /// Takes back one request for a watchdog, if there is one: the worker claimed for it has something else to do.
    pub fn decline_watchdog(&self) -> Declined {
        let declined = self.change(|seen| (wanted(seen) > 0).then(|| seen - WANTED));
        declined.map_or(Declined::Nobody, |_| Declined::Yes)
    }

    /// A watchdog stops being one. After this it looks once more for what others left to it.
    pub fn end_watchdog(&self) {
        // ORDER: Relaxed as in `change`, and a read-modify-write, for the fence after it.
        self.watchdogs.fetch_sub(TAKEN, Ordering::Relaxed);
    }

    /// Whether a caller with a task waiting must wake workers as watchdogs: some can be claimed, and there are
    /// fewer watchdogs than there may be. Called after the push and its fence.
    #[inline]
    pub fn lacks_watchdog(&self) -> bool {
        // ORDER: Relaxed; after the pusher's fence: a watchdog that ends sees the push.
        self.any() && all(self.watchdogs.load(Ordering::Relaxed)) < self.watchdogs_max
    }

    /// Asks for one more watchdog, unless there are enough, and claims a worker to become it. The caller wakes it.
    pub fn want_watchdog(&self, wish: Wish, fits: impl Fn(usize) -> bool) -> Option<usize> {
        self.change(|seen| (all(seen) < self.watchdogs_max).then(|| seen + WANTED))?;
        M::mark(Mark::IdleWatchdogWanted);
        let claimed = self.claim(wish, fits);
        if claimed.is_none() {
            // All are awake. A worker that parks decides for itself.
            let _ = self.decline_watchdog();
        }
        claimed
    }
}
