//! The cost of memory: a line in the own cache, in another CPU's cache, and in no cache.

use std::hint;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering, fence};

use super::calls::mean_ns;
use super::stand::Stand;
use super::trips::{self, Apart, Trips};
use crate::error::LabError;
use crate::measure::Clock;

/// Accesses to a line that is already cached.
const HITS: u32 = 200_000;
/// Round trips of a line: about ten microseconds a chunk.
const TRIPS: Trips = Trips {
    per_chunk: 128,
    chunks: 101,
};
/// Accesses to lines that no cache holds.
const MISSES: u32 = 100_000;
/// The size of a pool that no cache holds: more than most last-level caches offer one core.
const LARGE_BYTES: usize = 128 << 20;
/// The size of a pool that the first-level cache holds.
const SMALL_BYTES: usize = 4 << 10;

/// A locked add to a line in the first-level cache.
pub(super) fn own_rmw_ns(clock: Clock) -> f64 {
    let word = Apart(AtomicU32::new(0));
    mean_ns(clock, HITS, |_| {
        // ORDER: no other thread sees the word; SeqCst is what the instruction is anyway.
        word.0.fetch_add(1, Ordering::SeqCst);
    })
}

/// A sequentially consistent fence behind a store, its usual place.
pub(super) fn fence_ns(clock: Clock) -> f64 {
    let word = Apart(AtomicU32::new(0));
    // Another thread could see the word, so the compiler must not drop the stores or merge the fences.
    hint::black_box(&word);
    mean_ns(clock, HITS, |turn| {
        // ORDER: relaxed; no other thread sees the word, and only the instruction is measured.
        word.0.store(turn, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    })
}

/// A line to the CPU `there` and back, while both sides spin on one word.
///
/// # Errors
/// [`LabError::System`] if a thread cannot be started or pinned.
pub(super) fn round_trip_ns(stand: &Stand, there: usize) -> Result<f64, LabError> {
    trips::round_trip_ns::<false>(stand, there, TRIPS)
}

/// Lines in an order that no prefetcher guesses.
#[derive(Debug)]
pub(super) struct Pool {
    lines: Vec<Apart<AtomicUsize>>,
    /// Where the next chase starts.
    next: usize,
}

impl Pool {
    /// A pool that the first-level cache holds.
    pub(super) fn small() -> Self {
        Self::of(SMALL_BYTES)
    }

    /// A pool that no cache holds.
    pub(super) fn large() -> Self {
        Self::of(LARGE_BYTES)
    }

    /// One cycle through all lines, by Sattolo's shuffle.
    fn of(bytes: usize) -> Self {
        let count = bytes / size_of::<Apart<AtomicUsize>>();
        let mut order: Vec<usize> = (0..count).collect();
        let mut random = 0x9E37_79B9_7F4A_7C15_u64;
        for last in (1..count).rev() {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            order.swap(last, (random % last as u64) as usize);
        }
        let mut lines = Vec::with_capacity(count);
        in_large_pages(&lines);
        lines.extend(order.into_iter().map(|next| Apart(AtomicUsize::new(next))));
        Self { lines, next: 0 }
    }

    /// A chain of loads, each dependent on the one before.
    fn chase_ns(&mut self, clock: Clock, steps: u32) -> f64 {
        // Starts where the last chase ended: the lines at its start are cached.
        let mut at = self.next;
        let each_ns = mean_ns(clock, steps, |_| {
            // ORDER: relaxed; the lines are no longer written.
            at = self.lines[at].0.load(Ordering::Relaxed);
        });
        self.next = at;
        each_ns
    }

    /// A load of a line in the first-level cache.
    pub(super) fn hit_ns(&mut self, clock: Clock) -> f64 {
        // One round to cache the lines.
        self.chase_ns(clock, self.lines.len() as u32);
        self.chase_ns(clock, HITS)
    }

    /// A load of a line that no cache holds.
    pub(super) fn miss_ns(&mut self, clock: Clock) -> f64 {
        self.chase_ns(clock, MISSES)
    }
}

/// Asks for huge pages. Without them the miss would include one of the address translation.
fn in_large_pages<T>(memory: &Vec<T>) {
    const PAGE: usize = 4 << 10;
    let bytes = memory.capacity() * size_of::<T>();
    let start = memory.as_ptr().addr().next_multiple_of(PAGE);
    let inside = (memory.as_ptr().addr() + bytes).saturating_sub(start) / PAGE * PAGE;
    let start = memory.as_ptr().with_addr(start).cast_mut().cast();
    // SAFETY: the range lies in memory that the vector owns, and this advice does not change the contents.
    let _ = unsafe { libc::madvise(start, inside, libc::MADV_HUGEPAGE) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pool_is_one_cycle() {
        let pool = Pool::of(1 << 16);
        let mut at = 0;
        let mut length = 0;
        loop {
            // ORDER: relaxed; no other thread sees the pool.
            at = pool.lines[at].0.load(Ordering::Relaxed);
            length += 1;
            if at == 0 {
                break;
            }
        }
        assert_eq!(length, pool.lines.len());
    }
}
