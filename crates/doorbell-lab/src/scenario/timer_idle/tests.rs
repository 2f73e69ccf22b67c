//! Every contestant ticks as often as it must, and never too early. No test here asserts an upper bound.

use super::super::common::{assert_fits, try_each};
use super::*;

#[test]
fn everybody_ticks_in_time() {
    let Some(stage) = Stage::for_tests() else {
        return;
    };
    try_each(contestants(stage), |one, name| {
        let outcome = one.run(50).expect(name);
        assert!(outcome.operations > 500, "{name}");
        assert_eq!(outcome.figures.get("early_count"), Some(&0.0), "{name}");
    });
}

#[test]
fn a_tick_that_is_missing_is_an_error() {
    let error = tickers::outcome(&[], 7).expect_err("seven are missing");
    assert_eq!(error.to_string(), "7 ticks were due, but there were 0");
}

#[test]
fn the_table_fits() {
    if let Some(stage) = Stage::for_tests() {
        let kept = ["wake-ups/tick", "x tokio", "CPU %", "p50 us", "p99 us"];
        assert_fits(&contestants(stage), &columns::columns(), &kept);
    }
}
