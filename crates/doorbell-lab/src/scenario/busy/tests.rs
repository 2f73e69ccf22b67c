//! Everybody does the work that is measured, and nothing is lost. No test here asserts how soon.

use super::super::common::{assert_fits, try_each};
use super::*;

#[test]
fn everybody_answers_beside_tasks_that_compute() {
    // The servers are tested from outside, as processes.
    let mut all = contestants(Duration::ZERO);
    all.retain(|one| service::CUTS.iter().all(|cut| cut.name != one.variant()));
    try_each(all, |one, name| {
        let outcome = one.run(20).expect(name);
        assert!(outcome.operations > 0, "{name}: {outcome:?}");
        match one.variant() {
            lone::VARIANT => assert!(outcome.figures.contains_key("yields_count"), "{name}"),
            how if how.contains("core") => {
                let names: Vec<_> = outcome.parts.iter().map(|(part, _)| *part).collect();
                // No thread outside can spawn on glommio.
                assert!(crowd::PARTS.starts_with(&names), "{name}: {names:?}");
                assert!(outcome.parts.iter().all(|(_, times)| !times.is_empty()));
            }
            _ => assert_eq!(outcome.figures.get("early_count"), Some(&0.0), "{name}"),
        }
    });
}

#[test]
fn every_variant_is_compared_with_tokio() {
    let all = contestants(Duration::ZERO);
    for one in &all {
        let group: Vec<_> = all.iter().filter(|of| of.group() == one.group()).collect();
        let baselines = group.iter().filter(|of| of.is_baseline());
        let names: Vec<_> = baselines.map(|of| of.name()).collect();
        assert_eq!(names, [goals::BASELINE], "{}", one.variant());
        assert!(group.iter().any(|of| of.name() == goals::OURS));
    }
}

#[test]
fn the_table_fits() {
    let kept = [
        "p50 us",
        "p99 us",
        "max us",
        "x tokio",
        "computed/s",
        "yields",
        "most",
    ];
    assert_fits(&contestants(Duration::ZERO), &columns::columns(), &kept);
}

#[test]
fn work_grows_with_the_length_of_a_poll() {
    let [short, long] = [20, 1_000].map(|us| steps(Duration::from_micros(us)));
    assert!(short > 0 && (40..=60).contains(&(long / short)));
}
