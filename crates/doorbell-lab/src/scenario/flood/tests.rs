//! Every contestant does every post once, with any number of producers. No test here asserts a time.

use super::super::common::{assert_fits, try_each};
use super::*;

/// More than a producer may be ahead, and one more than a multiple of every number of producers.
const POSTS_TRIED: u32 = 40_001;

#[test]
fn every_post_is_done_once() {
    let Some(stage) = Stage::for_tests() else {
        return;
    };
    try_each(contestants(stage), |one, name| {
        for posts in [5, POSTS_TRIED] {
            let outcome = one.run(posts).expect(name);
            assert_eq!(outcome.operations, u64::from(posts), "{name}");
            assert!(outcome.figures["mops_per_s"] > 0.0, "{name}");
        }
    });
}

#[test]
fn shares_add_up() {
    for producers in PRODUCERS {
        let shares = (0..producers).map(|one| floods::share(100, producers, one));
        assert_eq!(shares.sum::<u64>(), 100, "{producers}");
    }
    assert_eq!(floods::share(3, 8, 2), 1);
    assert_eq!(floods::share(3, 8, 3), 0);
}

#[test]
fn producers_keep_off_the_consumers_cpu() {
    assert_eq!(floods::producer_cpus(&[0, 1], 1), [0]);
    assert_eq!(floods::producer_cpus(&[2, 4, 6], 4), [2, 6]);
}

#[test]
fn a_post_that_is_lost_is_an_error() {
    let error = floods::outcome(10, 9, Duration::from_secs(1)).expect_err("one is missing");
    assert_eq!(error.to_string(), "10 posts were made, but 9 were done");
    let outcome = floods::outcome(3_000_000, 3_000_000, Duration::from_millis(500));
    let figures = outcome.expect("none is missing").figures;
    assert!((figures["mops_per_s"] - 6.0).abs() < 1e-9);
}

#[test]
fn the_table_fits() {
    if let Some(stage) = Stage::for_tests() {
        let kept = ["M ops/s", "x limit", "RES+CAL/1M", "syscalls/1M", "ctx/1k"];
        assert_fits(&contestants(stage), &columns::columns(), &kept);
    }
}
