//! Pairs of tasks that exchange messages.

use super::{US, bench, extremes, median};
use crate::bench::pingpong::{BURST, Figures, Pace, Shape, run};

const WORKERS: usize = 8;
const SPAN_NS: u64 = 2_000_000;
/// Six bursts begin within this time.
const FRAMES_NS: u64 = 100_000_000;
const FRAMES: u64 = 6;

fn exchanged(pairs: usize, pace: Pace, seed: u64) -> Figures {
    let shape = Shape {
        pairs,
        workers: WORKERS,
        pace,
        span_ns: match pace {
            Pace::Always => SPAN_NS,
            Pace::Bursts => FRAMES_NS,
        },
    };
    run(&bench("smt-20", seed), shape).unwrap()
}

/// Two messages are written and read: 1.6 µs of copying. The rest of an exchange are two wakes and the lines: 0.2 µs where
/// both tasks came to one worker, 3 µs where each stays on a worker that spins.
#[test]
fn pairs_exchange_messages_with_hardly_a_ring() {
    for pairs in [1, 8] {
        for seed in 0..3 {
            let it = exchanged(pairs, Pace::Always, seed);
            let (least_ns, most_ns) = extremes(&it.trip_ns);
            let median_ns = median(&it.trip_ns);
            let each = it.trip_ns.len() / pairs;
            let so = format!(
                "{pairs} pairs, seed {seed}: {least_ns}..{most_ns} ns, median {median_ns}, {each} each"
            );
            assert!(
                least_ns >= 1_600 && median_ns <= 8 * US && most_ns <= 20 * US,
                "{so}"
            );
            assert!((250..=1_250).contains(&each), "{so}");
            let rings_most = it.trip_ns.len() as u64 / 10;
            assert!(it.rings <= rings_most, "{so}, {} rings", it.rings);
        }
    }
}

/// All workers sleep between two bursts, so some exchanges wait for a worker to wake up.
#[test]
fn each_burst_is_exchanged_and_wakes_workers() {
    for pairs in [1, 8] {
        for seed in 0..3 {
            let it = exchanged(pairs, Pace::Bursts, seed);
            let (least_ns, most_ns) = extremes(&it.trip_ns);
            let median_ns = median(&it.trip_ns);
            let so =
                format!("{pairs} pairs, seed {seed}: {least_ns}..{most_ns} ns, median {median_ns}");
            assert_eq!(
                it.trip_ns.len() as u64,
                FRAMES * BURST * pairs as u64,
                "{so}"
            );
            assert!(least_ns >= 1_600 && median_ns <= 5 * US, "{so}");
            assert!((5 * US..=100 * US).contains(&most_ns), "{so}");
            assert!(
                (1..=FRAMES * 16).contains(&it.rings),
                "{so}, {} rings",
                it.rings
            );
        }
    }
}
