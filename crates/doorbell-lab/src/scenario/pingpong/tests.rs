//! Every message comes back, and every task of a frame runs. No test here asserts how soon.

use super::super::common::{assert_fits, try_each};
use super::*;

#[test]
fn every_shape_runs_on_all_contestants() {
    try_each(contestants(), |one, name| {
        let outcome = one.run(10).expect(name);
        assert!(outcome.figures["op_us"] > 0.0, "{name}");
        if one.variant().ends_with("of 8") {
            // On a busy machine a frame may not be over when the next one is due.
            let skipped = outcome.figures["skipped_count"] as u64;
            assert_eq!(outcome.operations + skipped, 3, "{name}");
            assert_eq!(outcome.late.len() as u64, outcome.operations, "{name}");
        } else {
            assert!(outcome.operations > 0, "{name}");
            assert!(!outcome.late.is_empty(), "{name}");
        }
        let counts_rings = outcome.figures.contains_key("rings_per_op");
        assert_eq!(counts_rings, one.name() == "doorbell", "{name}");
    });
}

#[test]
fn every_shape_has_everybody_and_a_name_of_its_own() {
    let all = contestants();
    for shape in Shape::ALL {
        let group = all.iter().filter(|one| one.group() == shape.name());
        let names: Vec<_> = group.map(|one| (one.name(), one.is_baseline())).collect();
        let expected = [
            ("tokio", true),
            ("doorbell", false),
            ("smol", false),
            ("OS threads", false),
        ];
        assert_eq!(names, expected, "{shape:?}");
    }
}

#[test]
fn a_pass_of_frames_has_some_however_short() {
    assert_eq!(frames_in(SPAN_MS), 150);
    assert_eq!(frames_in(1), 1);
}

#[test]
fn the_table_fits() {
    let kept = [
        "exchanges/s",
        "us each",
        "x tokio",
        "p50 us",
        "p99 us",
        "skipped",
        "CPU us/op",
    ];
    assert_fits(&contestants(), &columns::columns(), &kept);
}
