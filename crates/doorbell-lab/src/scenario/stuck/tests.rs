//! All work that waits on a stuck core is done eventually, and not early. No test here asserts how soon.

use super::super::common::{assert_fits, try_each};
use super::*;

#[test]
fn what_waits_is_done_and_never_early() {
    let Some(stage) = Stage::for_tests() else {
        return;
    };
    try_each(contestants(stage), |one, name| {
        let outcome = one.run(5).expect(name);
        // One for each queued task; the other core may take the sleeper each time.
        let (least, most) = match one.variant() {
            variant if variant.starts_with('1') => (5, 5),
            variant if variant.starts_with('2') => (10, 10),
            variant if variant.starts_with('4') => (20, 20),
            _ => (1, 5),
        };
        assert!(
            (least..=most).contains(&outcome.operations),
            "{name}: {outcome:?}"
        );
        assert_eq!(outcome.figures.get("early_count"), Some(&0.0), "{name}");
        assert_eq!(outcome.late.len() as u64, outcome.operations, "{name}");
    });
}

#[test]
fn every_variant_is_compared_with_tokio() {
    let Some(stage) = Stage::for_tests() else {
        return;
    };
    let all = contestants(stage);
    for (variant, ..) in VARIANTS {
        let group: Vec<_> = all.iter().filter(|one| one.group() == variant).collect();
        let names: Vec<_> = group.iter().map(|one| one.name()).collect();
        assert_eq!(names, ["tokio", "doorbell"]);
        assert!(group[0].is_baseline() && !group[1].is_baseline());
    }
}

#[test]
fn the_table_fits() {
    if let Some(stage) = Stage::for_tests() {
        let kept = ["p50 us", "p99 us", "max us", "x tokio", "runs", "early"];
        assert_fits(&contestants(stage), &columns::columns(), &kept);
    }
}
