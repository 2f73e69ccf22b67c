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

/// Who fails to push waits longer each time: sixteen times as many callers move hardly more lines for a call.
#[test]
fn a_flood_of_many_callers_moves_hardly_more_lines_for_a_call_than_one_of_few() {
    let [few, many] = [4, 64].map(per_call);
    let so = format!("{few:?}, {many:?}");
    assert!(
        (10..=2_000).contains(&few[0]) && many[0] <= 6 * few[0],
        "{so}"
    );
    assert!(
        few[1] >= 1 && (few[1]..=2 * few[1]).contains(&many[1]),
        "{so}"
    );
}
