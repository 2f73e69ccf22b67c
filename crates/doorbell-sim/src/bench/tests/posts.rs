//! Calls to one worker from all others.

use super::bench;
use crate::bench::posts::{Figures, Shape, What, run};

/// Time and moved lines of each call.
fn per_call(workers: usize) -> [u64; 2] {
    let shape = Shape {
        workers,
        what: What::Flood,
        total: 512,
    };
    let Figures {
        span_ns,
        count,
        lines_moved,
    } = run(&bench("epyc-2x64", 1), shape).unwrap();
    assert!((512..512 + workers as u64).contains(&count));
    [span_ns / count, lines_moved / count]
}

/// Sixteen times as many workers make a call less than ten times as dear: a call that another one overtakes moves the
/// mailbox's line once more.
#[test]
fn a_flood_costs_less_than_in_proportion_to_the_workers() {
    let [few, many] = [4, 64].map(per_call);
    let so = format!("{few:?}, {many:?}");
    assert!(
        (10..=2_000).contains(&few[0]) && many[0] <= 10 * few[0],
        "{so}"
    );
    assert!(few[1] >= 1 && (few[1]..=2 * 64).contains(&many[1]), "{so}");
}
