//! Calls to one worker from all others.

use super::bench;
use crate::bench::posts::{Figures, Shape, What, run};

fn per_call_ns(workers: usize) -> u64 {
    let shape = Shape {
        workers,
        what: What::Flood,
        total: 512,
    };
    let Figures { span_ns, count } = run(&bench("epyc-2x64", 1), shape).unwrap();
    assert!((512..512 + workers as u64).contains(&count));
    span_ns / count
}

/// Sixteen times as many workers make a call less than ten times as dear.
#[test]
fn a_flood_costs_less_than_in_proportion_to_the_workers() {
    let [few, many] = [4, 64].map(per_call_ns);
    let so = format!("{few}, {many} ns");
    assert!((10..=2_000).contains(&few) && many <= 10 * few, "{so}");
}
