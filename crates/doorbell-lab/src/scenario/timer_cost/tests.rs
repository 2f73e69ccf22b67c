//! Every contestant runs in every pattern. No test here asserts a time.

use super::super::common::assert_fits;
use super::*;

/// Operations of a pass: more than one batch, and more than tokio's budget.
const OPERATIONS: u32 = 2_500;

#[test]
fn every_contestant_runs_in_every_pattern() {
    let Some(stage) = Stage::for_tests() else {
        return;
    };
    for mut one in contestants(stage, 1_000) {
        let name = format!("{} ({})", one.name(), one.variant());
        one.setup().expect(&name);
        let outcome = one.run(OPERATIONS).expect(&name);
        let tasks = if one.group() == "both cores at once" {
            2
        } else {
            1
        };
        assert_eq!(outcome.operations, tasks * u64::from(OPERATIONS), "{name}");
        assert!(outcome.figures["op_ns"] > 0.0, "{name}");
        one.teardown().expect(&name);
    }
}

#[test]
fn nobody_sleeps_without_setup() {
    let Some(stage) = Stage::for_tests() else {
        return;
    };
    for mut one in contestants(stage, 1_000) {
        one.teardown().expect("there is nothing to tear down");
        if one.name() != "std" {
            assert!(matches!(one.run(1), Err(LabError::NotSetUp)));
        }
    }
}

#[test]
fn every_variant_has_one_floor_and_names_are_unique() {
    let Some(stage) = Stage::for_tests() else {
        return;
    };
    let all = contestants(stage, PENDING);
    let mut names: Vec<_> = all.iter().map(|one| (one.name(), one.variant())).collect();
    for group in all.iter().map(|one| one.group()) {
        let floors = all
            .iter()
            .filter(|one| one.is_baseline() && one.group() == group);
        assert_eq!(floors.count(), 1, "{group}");
    }
    assert!(names.contains(&("doorbell", "1 M pending")));
    assert!(names.contains(&("doorbell", "1 M pending, unpinned")));
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}

#[test]
fn deadlines_are_as_the_pattern_says() {
    let ahead: Vec<_> = (0..3).map(|i| Pattern::Earliest.ahead(i, 3)).collect();
    assert!(
        ahead.is_sorted_by(|earlier, later| earlier > later),
        "{ahead:?}"
    );
    let guard = Pattern::Earliest.standing().next().expect("one is pending");
    assert!(guard > Pattern::Earliest.ahead(0, OPERATIONS));
    let standing: Vec<_> = Pattern::Pending(50).standing().collect();
    assert_eq!(standing.len(), 51);
    assert_eq!(Pattern::Pending(50).standing_count(), 51);
    let away = Pattern::Pending(50).ahead(0, 1);
    assert!(standing[0] < away && standing[1..].iter().all(|ahead| *ahead > away));
}

#[test]
fn a_sleep_that_is_ready_at_once_is_an_error() {
    let timing = pattern::Timing {
        op_ns: 1.0,
        pending: 9,
    };
    let error = sleeps::outcome(&[timing], 10).expect_err("one is missing");
    assert!(
        error.to_string().starts_with("10 sleeps pending"),
        "{error}"
    );
}

#[test]
fn the_table_fits() {
    if let Some(stage) = Stage::for_tests() {
        let kept = ["ns", "x floor", "syscalls/1k", "RES+CAL/1k"];
        assert_fits(&contestants(stage, PENDING), &columns::columns(), &kept);
    }
}
