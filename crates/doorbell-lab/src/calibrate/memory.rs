//! Lines in an order that no prefetcher guesses, for the cost of memory.

use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam_utils::CachePadded;

use super::stand::Stand;

/// Lines that each name the next one.
#[derive(Debug)]
pub(super) struct Pool {
    lines: Vec<CachePadded<AtomicUsize>>,
    /// Where the next chase starts.
    next: usize,
}

impl Pool {
    /// One cycle through all lines, by Sattolo's shuffle.
    pub(super) fn of(bytes: usize) -> Self {
        let count = bytes / size_of::<CachePadded<AtomicUsize>>();
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
        let line = |next| CachePadded::new(AtomicUsize::new(next));
        lines.extend(order.into_iter().map(line));
        Self { lines, next: 0 }
    }

    /// A load in a chain, each dependent on the one before.
    pub(super) fn load_ns(&mut self, stand: &Stand, steps: u32) -> f64 {
        // Starts where the last chase ended: the lines at its start are cached.
        let mut at = self.next;
        let each_ns = stand.mean_ns(steps, |_| {
            // ORDER: relaxed; the lines are no longer written.
            at = self.lines[at].load(Ordering::Relaxed);
        });
        self.next = at;
        each_ns
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
            at = pool.lines[at].load(Ordering::Relaxed);
            length += 1;
            if at == 0 {
                break;
            }
        }
        assert_eq!(length, pool.lines.len());
    }
}
