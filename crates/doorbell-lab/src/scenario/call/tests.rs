//! Every contestant answers every call. No test here asserts a time.

use super::*;
use crate::frame::testing::{self, assert_plan, outcome, try_each};
use crate::scenario::Options;

const CALLS: u32 = 200;

#[test]
fn every_contestant_answers_every_call() {
    try_each(
        testing::contestants(&PLAN, &Options::default()),
        |one, run| {
            for _ in 0..2 {
                let outcome = outcome(one, run, CALLS);
                assert_eq!(outcome.operations, u64::from(CALLS), "{one:?}");
                assert!(outcome.figures["p50_ns"] > 0.0, "{one:?}");
                let crossed = outcome.figures["crossed_percent"];
                // Those that are pinned cross every time.
                let is_pinned = one.variant != "one runtime, spawn";
                assert!(crossed > 99.9 || !is_pinned, "{one:?}: {crossed}");
                if one.variant == "await, both parked" {
                    for name in ["parks_per_call", "caller_parks_per_call"] {
                        // A worker that wakes late may park again before it is notified. A caller that loses its CPU
                        // finds the answer before it parks.
                        let parks = outcome.figures[name];
                        assert!((0.5..=3.0).contains(&parks), "{name}: {parks}");
                    }
                }
            }
        },
    );
}

#[test]
fn a_call_that_is_lost_is_an_error() {
    let Some(stage) = testing::stage(&Options::default()) else {
        return;
    };
    let answer = |serial| Answer { serial, cpu: None };
    let mut meter = Meter::begin(stage.clock, 2, 7);
    meter.stop(meter.start(), answer(8));
    assert!(meter.finish(9).is_err(), "one was not answered");
    let mut meter = Meter::begin(stage.clock, 2, 0);
    meter.stop(meter.start(), answer(2));
    let error = meter.finish(1).expect_err("it has another number");
    assert!(
        error.to_string().contains("1 answers in a row were due"),
        "{error}"
    );
}

#[test]
fn the_plan_fits() {
    let kept = [
        "p50 ns",
        "p99 ns",
        "x limit",
        "crossed %",
        "rounds",
        "syscalls/1k",
    ];
    assert_plan(&PLAN, &Options::default(), &kept);
}
