//! The sentry: a parked worker that wakes at the earliest next wake of all, because no worker is active.

use doorbell_machine::{Bug, Line, Machine, Mark, Ordering, Word};

const WORKER_BITS: u32 = 16;
const WORKER: u64 = (1 << WORKER_BITS) - 1;
/// A time is noted in units of so many ns, as a power of two: about a microsecond.
const UNIT_BITS: u32 = 10;
/// A time that does not fit, 9 years from the clock's fixed point.
const NEVER: u64 = u64::MAX >> WORKER_BITS;

/// The most workers that a word can name.
pub(super) const WORKERS_MAX: usize = WORKER as usize;

/// Which worker is the sentry, and until when it sleeps.
///
/// | bits | name | meaning |
/// |---|---|---|
/// | 0 to 15 | `WORKER` | the worker's number plus one; 0 for none |
/// | 16 to 63 | `UNTIL` | until when it sleeps, in units of 1,024 ns, rounded down; all ones if that does not fit |
///
/// The word has no sequence: two equal words say the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Post(u64);

const _: () = assert!(WORKER_BITS + (u64::BITS - WORKER_BITS) == u64::BITS);

impl Post {
    const NONE: Post = Post(0);

    fn new(worker: usize, until_ns: u64) -> Post {
        Post(Self::units(until_ns) << WORKER_BITS | (worker as u64 + 1))
    }

    fn units(at_ns: u64) -> u64 {
        (at_ns >> UNIT_BITS).min(NEVER)
    }

    fn is_of(self, worker: usize) -> bool {
        self.worker() == Some(worker)
    }

    fn worker(self) -> Option<usize> {
        ((self.0 & WORKER) as usize).checked_sub(1)
    }

    /// Whether the sentry wakes for a timer that is due then, at most one unit late.
    fn covers(self, at_ns: u64) -> bool {
        let until = self.0 >> WORKER_BITS;
        self != Post::NONE && until != NEVER && until <= Self::units(at_ns)
    }
}

/// What a worker has for itself in the tree, in a line of its own.
pub(super) struct Own<M: Machine> {
    /// Its next wake; `u64::MAX` for none.
    pub(super) next_wake_ns: M::U64,
    /// 1 if it became the sentry when it fell asleep. Only the worker touches this.
    pub(super) stood: M::U64,
}

impl<M: Machine> Own<M> {
    pub(super) fn new() -> Self {
        Own {
            next_wake_ns: M::U64::new(u64::MAX),
            stood: M::U64::new(0),
        }
    }
}

/// The sentry of a tree.
pub(super) struct Sentry<M: Machine> {
    pub(super) word: M::Line<M::U64>,
}

/// Whether a worker became the sentry.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stood {
    /// It did.
    Yes,
    /// Another one sleeps no longer than this one would.
    Covered,
}

impl<M: Machine> Sentry<M> {
    pub(super) fn new() -> Self {
        Sentry {
            word: M::Line::new(|| M::U64::new(Post::NONE.0)),
        }
    }

    fn read(&self) -> Post {
        // ORDER: Relaxed; the word says all. That a sentry has woken, the words of the branches publish: a worker that
        // finds the tree empty has acquired all that woke and slept again.
        Post(self.word.load(Ordering::Relaxed))
    }

    /// Which worker is the sentry.
    pub(super) fn worker(&self) -> Option<usize> {
        self.read().worker()
    }

    /// Whether the sentry wakes for a timer that is due at that time.
    pub(super) fn covers(&self, at_ns: u64) -> bool {
        self.read().covers(at_ns)
    }

    /// The worker becomes the sentry until `at_ns`, unless another one covers that time. A sentry that sleeps longer
    /// is relieved: it sleeps on, and wakes once for nothing.
    pub(super) fn stand(&self, own: &Own<M>, worker: usize, at_ns: u64) -> Stood {
        loop {
            let seen = self.read();
            if seen.covers(at_ns) {
                return Stood::Covered;
            }
            // ORDER: Relaxed; its own.
            own.stood.store(1, Ordering::Relaxed);
            if self.change(seen, Post::new(worker, at_ns)) {
                if seen != Post::NONE {
                    M::mark(Mark::TreeSentryRelieved);
                }
                return Stood::Yes;
            }
        }
    }

    /// Exchanges the word, unless it has changed.
    fn change(&self, seen: Post, next: Post) -> bool {
        if M::breaks(Bug::TreeSentryBlind) {
            // ORDER: the mutant; two workers may both become sentries for one time.
            self.word.store(next.0, Ordering::Relaxed);
            return true;
        }
        // ORDER: Relaxed, as in `read`; an exchange, so that of two workers one fails and sees the other.
        self.word
            .compare_exchange(seen.0, next.0, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }

    /// The worker is the sentry no longer: it is awake. Called by itself, before it is active.
    pub(super) fn leave(&self, own: &Own<M>, worker: usize) {
        // ORDER: Relaxed; its own.
        if own.stood.load(Ordering::Relaxed) == 0 || M::breaks(Bug::TreeSentryStays) {
            return;
        }
        // ORDER: Relaxed; its own.
        own.stood.store(0, Ordering::Relaxed);
        let seen = self.read();
        if seen.is_of(worker) {
            // If it fails, another worker has relieved this one since.
            let _ = self.change(seen, Post::NONE);
        }
    }
}

#[cfg(test)]
impl<M: Machine> Sentry<M> {
    /// The sentry, and until when it sleeps, rounded down to whole units.
    pub(super) fn named(&self) -> Option<(usize, u64)> {
        let post = self.read();
        Some((post.worker()?, post.0 >> WORKER_BITS << UNIT_BITS))
    }
}
