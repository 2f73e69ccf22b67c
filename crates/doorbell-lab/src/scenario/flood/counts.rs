//! How many of each producer's posts are done, and how far a producer may run ahead.

use std::hint;
use std::sync::atomic::{AtomicU64, Ordering};

/// The greatest number of producers.
pub(super) const PRODUCERS_MAX: usize = 32;
/// The most outstanding posts of one producer, so that memory use is bounded.
pub(super) const AHEAD_MAX: u64 = 10_000;
/// A producer checks how far ahead it is after this many posts.
pub(super) const LOOK_EVERY: u64 = 1_000;

/// A count in a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Count(AtomicU64);

/// How many posts of each producer are done. Only the single consumer writes.
#[derive(Debug, Default)]
pub(super) struct Counts {
    done: [Count; PRODUCERS_MAX],
}

impl Counts {
    /// Counts that live as long as the program, so that posts can refer to them without counting
    /// references.
    pub(super) fn leaked() -> &'static Self {
        Box::leak(Box::default())
    }

    /// The work of a post. Called only by the single consumer.
    #[inline]
    pub(super) fn one_done(&self, producer: usize) {
        let count = &self.done[producer].0;
        // ORDER: Relaxed load, since only the consumer writes. The Release store pairs with the Acquire of
        // `done`, as a producer may reuse what this post used.
        count.store(count.load(Ordering::Relaxed) + 1, Ordering::Release);
    }

    /// How many of a producer's posts are done.
    pub(super) fn done(&self, producer: usize) -> u64 {
        // ORDER: Acquire pairs with the Release of `one_done`.
        self.done[producer].0.load(Ordering::Acquire)
    }

    /// How many posts of all producers are done.
    pub(super) fn done_by_all(&self) -> u64 {
        (0..PRODUCERS_MAX).map(|producer| self.done(producer)).sum()
    }

    /// Waits until at most `ahead_max` of `posted` posts are outstanding. It makes no system call, as
    /// system calls are counted. A producer waits only while the consumer has work.
    pub(super) fn wait(&self, producer: usize, posted: u64, ahead_max: u64) {
        while posted - self.done(producer) > ahead_max {
            hint::spin_loop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn producers_are_counted_apart() {
        let counts = Counts::leaked();
        counts.one_done(0);
        counts.one_done(31);
        counts.one_done(31);
        let each = [0, 1, 31].map(|producer| counts.done(producer));
        assert_eq!((each, counts.done_by_all()), ([1, 0, 2], 3));
        // Exactly as far ahead as allowed: returns at once.
        counts.wait(31, 2 + AHEAD_MAX, AHEAD_MAX);
    }
}
