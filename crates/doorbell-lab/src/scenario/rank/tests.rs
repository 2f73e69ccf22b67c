//! Every wake leads to one run. No test here asserts how soon.

use super::super::common::{assert_fits, try_each};
use super::*;

#[test]
fn the_urgent_one_runs_once_in_each_turn() {
    let Some(stage) = Stage::for_tests() else {
        return;
    };
    try_each(contestants(stage), |one, name| {
        let outcome = one.run(5).expect(name);
        assert_eq!((outcome.operations, outcome.late.len()), (5, 5), "{name}");
        let moved = outcome.figures["moved_percent"];
        assert!((0.0..=100.0).contains(&moved), "{name}: {moved}");
        let counts_rings = outcome.figures.contains_key("rings_per_op");
        assert_eq!(counts_rings, one.name() == "doorbell", "{name}");
    });
}

#[test]
fn only_threads_with_ranks_are_a_baseline() {
    let Some(stage) = Stage::for_tests() else {
        return;
    };
    let all = contestants(stage);
    for variant in [IDLE, BUSY] {
        let group = all.iter().filter(|one| one.group() == variant);
        let names: Vec<_> = group.map(|one| (one.name(), one.is_baseline())).collect();
        let threads = ("SCHED_FIFO threads", true);
        let others = [("doorbell", false), ("tokio", false)];
        let mut expected: Vec<_> = Want::First
            .is_given()
            .then_some(threads)
            .into_iter()
            .collect();
        expected.extend(others);
        assert_eq!(names, expected);
    }
}

#[test]
fn the_table_fits() {
    if let Some(stage) = Stage::for_tests() {
        let kept = [
            "p50 us",
            "p99 us",
            "max us",
            "x FIFO",
            "moved %",
            "rings/turn",
        ];
        assert_fits(&contestants(stage), &columns::columns(), &kept);
    }
}
