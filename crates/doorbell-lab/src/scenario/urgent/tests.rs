//! The urgent task runs, and the jobs go on. No test here asserts how soon.

use super::super::common::{assert_fits, try_each};
use super::*;

/// The most passes of half a second without a run.
const TRIES: usize = 60;

fn runs_and_jobs_go_on(all: Vec<Box<dyn Trial>>) {
    try_each(all, |one, name| {
        // tokio's urgent task may have to wait for 32 jobs, and longer on a busy computer.
        let mut passes = (0..TRIES).map(|_| one.run(5).expect(name));
        let outcome =
            passes.find(|outcome| outcome.operations > 0 && outcome.figures["polls_per_s"] > 0.0);
        let outcome = outcome.expect(name);
        assert_eq!(outcome.late.len() as u64, outcome.operations, "{name}");
    });
}

#[test]
fn the_urgent_one_runs_and_the_jobs_go_on() {
    if let Some(stage) = Stage::for_tests() {
        runs_and_jobs_go_on(contestants(stage));
    }
}

#[test]
fn so_do_threads_with_slices() {
    if let Some(stage) = Stage::for_tests() {
        runs_and_jobs_go_on(slices(stage));
    }
}

#[test]
fn every_group_has_one_baseline_and_names_are_unique() {
    let Some(stage) = Stage::for_tests() else {
        return;
    };
    let all = contestants(stage);
    let mut names: Vec<_> = all.iter().map(|one| (one.name(), one.variant())).collect();
    for (_, variant) in &names {
        assert!(variant.contains(", from ") || variant.contains(", by "));
    }
    for one in &all {
        let same = all.iter().filter(|other| other.group() == one.group());
        assert_eq!(same.filter(|one| one.is_baseline()).count(), 1);
    }
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}

#[test]
fn the_tables_fit() {
    if let Some(stage) = Stage::for_tests() {
        let kept = [
            "p50 us", "p99 us", "p99.9 us", "max us", "x bare", "runs", "polls/s",
        ];
        for all in [contestants(stage), slices(stage)] {
            assert_fits(&all, &columns::columns(), &kept);
        }
    }
}
