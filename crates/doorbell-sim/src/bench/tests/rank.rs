//! A task of rank 99 behind a long poll of rank 50.

use super::{US, bench, extremes};
use crate::bench::rank::{Figures, Others, Shape, Waker, run};

fn ranked(by: Waker, others: Others, seed: u64) -> Figures {
    let shape = Shape {
        workers: 8,
        by,
        others,
        times: 12,
    };
    run(&bench("xeon-40", seed), shape).unwrap()
}

/// An idle worker takes the task of the highest rank at once, and one that runs rank 1 before its next poll, 5 us later
/// at most. A thread that is no worker sends a parcel to that worker.
#[test]
fn a_task_of_high_rank_does_not_wait_for_the_long_poll() {
    let bounds_us = [
        (Waker::Thread, Others::Idle, 5..=15),
        (Waker::Poll, Others::Idle, 5..=15),
        (Waker::Thread, Others::Busy, 0..=15),
        (Waker::Poll, Others::Busy, 0..=10),
    ];
    for (by, others, bounds_us) in bounds_us {
        for seed in 0..3 {
            let it = ranked(by, others, seed);
            let (least_ns, most_ns) = extremes(&it.wait_ns);
            let so = format!(
                "{by:?}, {others:?}, seed {seed}: {least_ns}..{most_ns} ns, {} skipped",
                it.skipped
            );
            assert!(
                it.wait_ns.len() as u64 + it.skipped == 12 && it.skipped <= 2,
                "{so}"
            );
            assert!(
                bounds_us.contains(&(least_ns / US)) && bounds_us.contains(&(most_ns / US)),
                "{so}"
            );
        }
    }
}
