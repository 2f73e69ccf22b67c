//! What has been done of each producer's posts, and how far ahead of it a producer may be.

use std::hint;
use std::sync::atomic::{AtomicU64, Ordering};

/// The most producers there are.
pub(super) const PRODUCERS_MAX: usize = 32;
/// How many posts of one producer may be under way: memory does not grow without bound.
pub(super) const AHEAD_MAX: u64 = 10_000;
/// After how many posts a producer looks how far it is ahead.
pub(super) const LOOK_EVERY: u64 = 1_000;

/// A count in a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Count(AtomicU64);

/// Counts what each producer's posts have done. Only the one consumer writes.
#[derive(Debug, Default)]
pub(super) struct Counts {
    done: [Count; PRODUCERS_MAX],
}

impl Counts {
    /// Counts for as long as the program runs, so that posts can name them without counting
    /// references.
    pub(super) fn leaked() -> &'static Self {
        Box::leak(Box::default())
    }

    /// The work of a post. For the one consumer alone.
    #[inline]
    pub(super) fn one_done(&self, producer: usize) {
        let count = &self.done[producer].0;
        // ORDER: the consumer alone writes, so it reads its own last value; Release, as a producer
        // may use again what this post had.
        count.store(count.load(Ordering::Relaxed) + 1, Ordering::Release);
    }

    /// How many of a producer's posts are done.
    pub(super) fn done(&self, producer: usize) -> u64 {
        // ORDER: pairs with the Release of `one_done`.
        self.done[producer].0.load(Ordering::Acquire)
    }

    /// How many posts of all producers are done.
    pub(super) fn done_by_all(&self) -> u64 {
        (0..PRODUCERS_MAX).map(|producer| self.done(producer)).sum()
    }

    /// Waits until at most `ahead_max` of `posted` posts are not done. It makes no system call, as
    /// those are counted, and a producer waits only while the consumer has work.
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
        // As far ahead as it may be: returns at once.
        counts.wait(31, 2 + AHEAD_MAX, AHEAD_MAX);
    }
}
