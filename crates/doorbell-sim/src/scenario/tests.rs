//! The scenarios under their oracles.

use super::{Shape, run};

/// Runs seeds twice each; says which failed, and how.
fn check(shape: &Shape, seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let first = run::<0>(seed, shape).unwrap().outcome;
        if let Some(failure) = &first.failure {
            panic!("{} under seed {seed}: {failure}\n{first:#?}", shape.name);
        }
        let again = run::<0>(seed, shape).unwrap().outcome;
        assert_eq!(
            first.hash, again.hash,
            "{} under seed {seed} is not one run",
            shape.name
        );
    }
}

#[test]
fn two_lanes() {
    check(&Shape::two_lanes(), 0..200);
}

#[test]
fn conserving() {
    check(&Shape::conserving(), 0..200);
}

#[test]
fn storm() {
    check(&Shape::storm(), 0..200);
}

#[test]
fn storm_tso() {
    check(&Shape::storm_tso(), 0..200);
}

#[test]
fn leaps() {
    check(&Shape::leaps(), 0..200);
}

#[test]
fn paused() {
    check(&Shape::paused(), 0..200);
}

#[test]
fn ends() {
    check(&Shape::ends(), 0..200);
}

/// A lane that announced its park, was rung, and then found a timer due, counted neither a park nor
/// one avoided: the clock had jumped between the two looks.
#[test]
fn a_park_that_a_due_timer_prevents_is_counted() {
    for seed in [585, 2_569] {
        check(&Shape::leaps(), seed..seed + 1);
    }
}
