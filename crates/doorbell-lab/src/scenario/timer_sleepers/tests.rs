//! Every timer fires once, and never too early. No test here asserts an upper bound.

use super::super::common::{assert_fits, try_each};
use super::*;

#[test]
fn every_timer_fires_once_and_none_is_early() {
    let Some(stage) = Stage::for_tests() else {
        return;
    };
    try_each(contestants(stage, Duration::ZERO), |one, name| {
        let outcome = one.run(50).expect(name);
        assert_eq!(outcome.operations, TIMERS as u64, "{name}");
        assert_eq!(outcome.figures.get("early_count"), Some(&0.0), "{name}");
    });
}

#[test]
fn the_table_fits() {
    if let Some(stage) = Stage::for_tests() {
        let kept = ["wake-ups/timer", "x off", "CPU %", "p50 us", "p99 us"];
        assert_fits(&contestants(stage, SETTLES), &columns::columns(), &kept);
    }
}
