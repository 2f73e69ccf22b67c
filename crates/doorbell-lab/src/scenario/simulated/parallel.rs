//! The seeds of a row run on all CPUs of this host: simulated time does not depend on which, or when.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

/// What `run` returns for each seed from 0 on, in their order.
pub(super) fn each_seed<T: Send>(count: u32, run: impl Fn(u32) -> T + Sync) -> Vec<T> {
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicU32::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            // ORDER: a number to count by. The results are handed over by the joins.
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= count {
                return done;
            }
            done.push((seed, run(seed)));
        }
    };
    let mut all = Vec::new();
    thread::scope(|scope| {
        let threads: Vec<_> = (0..cpus.min(count as usize))
            .map(|_| scope.spawn(work))
            .collect();
        for thread in threads {
            all.extend(thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
    });
    all.sort_unstable_by_key(|(seed, _)| *seed);
    all.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::each_seed;

    #[test]
    fn each_seed_has_its_result_in_order() {
        assert_eq!(each_seed(5, |seed| seed * seed), [0, 1, 4, 9, 16]);
        assert!(each_seed(0, |seed| seed).is_empty());
    }
}
