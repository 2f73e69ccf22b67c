//! Every contestant sleeps as often as it must, and never too short. No test here asserts an upper bound.

use super::super::common::{assert_fits, try_each};
use super::*;

#[test]
fn everybody_sleeps_long_enough() {
    let Some(stage) = Stage::for_tests() else {
        return;
    };
    try_each(contestants(stage), |one, name| {
        let outcome = one.run(2).expect(name);
        assert_eq!(outcome.operations, 800, "{name}");
        assert_eq!(outcome.figures.get("early_count"), Some(&0.0), "{name}");
    });
}

#[test]
fn lengths_are_the_same_every_time_and_within_their_bounds() {
    let all = lengths(3);
    assert_eq!(all, lengths(3));
    assert_eq!(all.len(), SLEEPERS);
    let bounds = Duration::from_millis(1)..Duration::from_millis(50);
    assert!(all.iter().flatten().all(|length| bounds.contains(length)));
}

#[test]
fn a_sleep_that_is_missing_is_an_error() {
    let error = tasks::outcome(&[], 1).expect_err("400 are missing");
    assert_eq!(error.to_string(), "400 sleeps were due, but there were 0");
}

#[test]
fn the_table_fits() {
    if let Some(stage) = Stage::for_tests() {
        let kept = [
            "p50 us",
            "p99 us",
            "max us",
            "x threads",
            "CPU %",
            "syscalls/1k",
            "early",
        ];
        assert_fits(&contestants(stage), &columns::columns(), &kept);
    }
}
