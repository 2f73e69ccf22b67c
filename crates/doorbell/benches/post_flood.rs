//! A flood of calls without waiting, from the user's threads to one core.
//!
//! `cargo bench -p doorbell --bench post_flood [-- PRODUCERS…]` runs rounds with 1, 2 and 32 producers, or
//! the given numbers. The worker is bound to the last CPU; the producers run where the OS puts them. The
//! rate counts from the first post until the last one has run.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a program of its own"
)]

use doorbell::{Builder, Handle};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const ROUNDS: usize = 9;
const CALLS: u64 = 6_000_000;

/// How far all producers together may be ahead of the core, so that the flood fits into the caches. Each
/// producer checks four times as often how many posts have run.
const AHEAD_MAX: u64 = 16_384;

/// What one producer's closures count, in a cache line of its own.
#[repr(align(128))]
#[derive(Default)]
struct Ran(AtomicU64);

fn produce(handle: &Handle, calls: u64, producers: u64) {
    let ahead_max = AHEAD_MAX / producers;
    let look_every = (ahead_max / 4).max(1);
    let counter: &'static Ran = Box::leak(Box::default());
    for call in 1..=calls {
        // A plain addition: one worker runs all of them.
        let count = move || {
            let before = counter.0.load(Ordering::Relaxed);
            counter.0.store(before + 1, Ordering::Release);
        };
        handle.post_on(0, count).expect("the runtime is there");
        if call.is_multiple_of(look_every) {
            while call - counter.0.load(Ordering::Acquire) > ahead_max {
                std::thread::yield_now();
            }
        }
    }
    while counter.0.load(Ordering::Acquire) < calls {
        std::thread::yield_now();
    }
}

/// Millions of calls per second.
fn flood(handle: &Handle, producers: u64) -> f64 {
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..producers {
            scope.spawn(|| produce(handle, CALLS / producers, producers));
        }
    });
    CALLS as f64 / start.elapsed().as_secs_f64() / 1e6
}

fn main() {
    let named = std::env::args().skip(1).filter_map(|arg| arg.parse().ok());
    let mut producers: Vec<u64> = named.collect();
    if producers.is_empty() {
        producers = vec![1, 2, 32];
    }
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let runtime = Builder::new()
        .core_list([cpus - 1])
        .pin(true)
        .spin(Duration::from_micros(50))
        .build()
        .expect("that CPU is there");
    println!(
        "{:>9}  {:>8}  {:>6}  {:>6}  {:>9}  {:>11}",
        "producers", "M/s", "min", "max", "ns each", "calls/take"
    );
    for count in producers {
        let before = runtime.metrics();
        let mut rates: Vec<f64> = (0..ROUNDS).map(|_| flood(&runtime, count)).collect();
        let after = runtime.metrics();
        rates.sort_by(f64::total_cmp);
        let worker = |metrics: &doorbell::metrics::Metrics| metrics.workers[0].raw();
        let done = worker(&after).since(&worker(&before));
        println!(
            "{count:>9}  {:>8.1}  {:>6.1}  {:>6.1}  {:>9.1}  {:>11.1}",
            rates[ROUNDS / 2],
            rates[0],
            rates[ROUNDS - 1],
            1e3 / rates[ROUNDS / 2],
            done.delivered as f64 / done.takes as f64,
        );
    }
}
