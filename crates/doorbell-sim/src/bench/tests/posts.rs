//! Calls to one worker from all others, and tasks that one worker spawns.

use super::bench;
use crate::bench::posts::{Figures, Shape, What, run};

fn per_op_ns(what: What, workers: usize) -> u64 {
    let shape = Shape {
        workers,
        what,
        total: 512,
    };
    let Figures { span_ns, count } = run(&bench("epyc-2x64", 1), shape).unwrap();
    assert!((512..512 + workers as u64).contains(&count));
    span_ns / count
}

/// A larger machine makes them dearer by its longer ways, not by its number of workers.
#[test]
fn what_is_handed_over_costs_little_more_on_more_workers() {
    for what in [What::Flood, What::Spawn] {
        let [few, many] = [4, 64].map(|workers| per_op_ns(what, workers));
        assert!(
            (10..=2_000).contains(&few) && many <= 4 * few,
            "{what:?}: {few}, {many} ns"
        );
    }
}
