//! Every wake leads to one run. No test here asserts how soon.

use super::super::common::{assert_fits, try_each};
use super::*;

#[test]
fn every_wake_is_counted_and_done() {
    let Some(stage) = Stage::for_tests() else {
        return;
    };
    try_each(contestants(stage), |one, name| {
        let outcome = one.run(1).expect(name);
        let workers = if one.variant().starts_with("light") {
            32
        } else {
            128
        };
        // On a busy machine a worker may still be busy with the last wake.
        let skipped = outcome.figures["skipped_count"] as u64;
        assert_eq!(outcome.operations + skipped, 25 * workers, "{name}");
        assert!(outcome.operations >= workers, "{name}");
        assert_eq!(outcome.late.len() as u64, outcome.operations, "{name}");
    });
}

#[test]
fn every_variant_has_everybody_and_is_compared_with_tokio() {
    let Some(stage) = Stage::for_tests() else {
        return;
    };
    let all = contestants(stage);
    for variant in VARIANTS {
        let group: Vec<_> = all
            .iter()
            .filter(|one| one.group() == variant.name)
            .collect();
        let names: Vec<_> = group.iter().map(|one| one.name()).collect();
        let expected = ["tokio", "doorbell", "smol", "OS threads", "spinning pool"];
        let count = match variant.messengers {
            Messengers::Alike => 5,
            Messengers::Threads => 3,
        };
        assert_eq!(names, expected[..count]);
        let baselines: Vec<_> = group.iter().map(|one| one.is_baseline()).collect();
        assert!(baselines[0] && !baselines[1..].contains(&true));
    }
}

#[test]
fn the_table_fits() {
    if let Some(stage) = Stage::for_tests() {
        let kept = [
            "p50 us", "p99 us", "p99.5 us", "max us", "x tokio", "skipped",
        ];
        assert_fits(&contestants(stage), &columns::columns(), &kept);
    }
}
