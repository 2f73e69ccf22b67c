//! Every shape runs on both runtimes, and the table sums up what there is. No test here asserts a time.

use super::super::common::try_each;
use super::super::trial::Rated;
use super::*;
use crate::report::{Metrics, Row, fits};

#[test]
fn every_shape_runs_on_both() {
    try_each(contestants(), |one, name| {
        let outcome = one.run(1).expect(name);
        let shape = Shape::ALL
            .into_iter()
            .find(|shape| shape.name() == one.variant())
            .expect("it is one of the shapes");
        let times = shapes::times(shape.times(), 1);
        let expected = u64::from(shape.operations()) * u64::from(times);
        assert_eq!(outcome.operations, expected, "{name}");
        assert!(outcome.figures["op_ns"] > 0.0, "{name}");
    });
}

#[test]
fn something_is_done_however_little_is_asked_for() {
    assert_eq!(shapes::times(50, FULL_PERCENT), 50);
    assert_eq!(shapes::times(50, QUICK_PERCENT), 5);
    assert_eq!(shapes::times(10, 1), 1);
}

#[test]
fn a_rate_is_the_other_side_of_a_time() {
    let outcome = shapes::outcome(1_000, Duration::from_micros(500));
    assert!((outcome.figures["op_ns"] - 500.0).abs() < 1e-9);
    assert!((outcome.figures["ops_per_s"] - 2e6).abs() < 1e-3);
}

fn row(contestant: &str, shape: Shape, ratio_x: f64) -> Row {
    let mut metrics = Metrics::default();
    for (name, value) in [
        ("op_ns", 100.0),
        ("ratio_x", ratio_x),
        ("ratio_min_x", ratio_x),
        ("ratio_max_x", ratio_x),
    ] {
        metrics.put(name, Some(value));
    }
    Row {
        contestant: contestant.to_owned(),
        variant: shape.name().to_owned(),
        metrics,
        counters: Metrics::default(),
    }
}

fn rated(rows: &[Row]) -> Vec<Rated<'_>> {
    let rated = rows.iter().map(|row| Rated { row, rounds: &[] });
    rated.collect()
}

#[test]
fn each_shape_has_a_row_and_there_is_no_mean() {
    let rows = [
        row("doorbell", Shape::ChainedSpawn, 4.0),
        row("tokio", Shape::ChainedSpawn, 1.0),
        row("doorbell", Shape::YieldMany, 0.5),
        row("tokio", Shape::YieldMany, 1.0),
    ];
    let conclusion = columns::conclude(&rated(&rows));
    let table = conclusion.main.expect("it has one");
    let names: Vec<&str> = table.rows.iter().map(|cells| cells[0].as_str()).collect();
    assert_eq!(names, ["chained_spawn", "yield_many"]);
    assert!(table.rows.iter().all(|row| row.len() == table.titles.len()));
    fits::assert_main(&table, &["doorbell ns", "tokio ns", "x tokio"]);
    assert_eq!((&*table.rows[0][6], &*table.rows[1][6]), ("4.00", "0.50"));
    let gist = &conclusion.gist;
    assert!(
        gist.contains("0.50 (yield_many), 4.00 (chained_spawn)"),
        "{gist}"
    );
}

#[test]
fn tokio_alone_is_compared_with_nothing() {
    let rows = [row("tokio", Shape::YieldMany, 1.0)];
    let conclusion = columns::conclude(&rated(&rows));
    let table = conclusion.main.expect("it has one");
    assert_eq!((table.rows.len(), table.rows[0][6].as_str()), (1, "n/a"));
    assert!(conclusion.gist.contains("Only tokio"));
}
