//! Both settings answer every call and ring as often as they must. No test here asserts a time.

use std::collections::BTreeMap;

use super::super::common::assert_fits;
use super::super::trial::Rated;
use super::*;
use crate::measure::allowed_cpus;
use crate::report::{Metrics, Row};
use callers::WorkersUse;

const THREADS_TRIED: usize = 4;

#[test]
fn both_settings_answer_every_call() {
    let cores = allowed_cpus().expect("the mask can be read").len();
    for setting in [CallCoalesce::Base, CallCoalesce::On] {
        let mut one = Callers::new(setting, THREADS_TRIED);
        let name = one.variant().to_owned();
        assert!(matches!(one.run(1), Err(LabError::NotSetUp)), "{name}");
        one.setup().expect(&name);
        for span_ms in [1, 20] {
            let outcome = one.run(span_ms).expect(&name);
            assert!(
                outcome.operations >= (cores + THREADS_TRIED) as u64,
                "{name}"
            );
            let figures = outcome.figures;
            assert!(
                (figures["workers_count"] - cores as f64).abs() < 1e-9,
                "{name}"
            );
            assert!(figures["by_workers_percent"] > 0.0, "{name}");
            assert!(figures["rings_awake_per_1k"] <= figures["rings_per_1k"]);
            if setting == CallCoalesce::On {
                assert!(figures["rings_awake_per_1k"].abs() < 1e-9, "{name}");
            }
        }
        one.teardown().expect(&name);
    }
}

#[test]
fn a_call_that_did_not_run_everywhere_once_is_an_error() {
    assert!(callers::once_each(5, &[1, 2], &[6, 7]).is_ok());
    let error = callers::once_each(5, &[1, 2], &[6, 6]).expect_err("one is missing");
    assert_eq!(error.to_string(), "5 posts were made, but 4 were done");
    assert!(callers::once_each(5, &[0], &[6]).is_err());
}

#[test]
fn figures_are_per_call_to_all() {
    let used = WorkersUse {
        workers: 2,
        rings: 500,
        rings_awake: 250,
        parks: 100,
    };
    let outcome = callers::outcome(200, 800, Duration::from_millis(500), used);
    assert_eq!(outcome.operations, 1_000);
    for (name, value) in [
        ("calls_per_s", 2_000.0),
        ("worker_calls_per_s", 400.0),
        ("thread_calls_per_s", 1_600.0),
        ("rings_per_s", 1_000.0),
        ("rings_per_1k", 500.0),
        ("rings_awake_per_1k", 250.0),
        ("parks_per_1k", 100.0),
        ("by_workers_percent", 20.0),
        ("workers_count", 2.0),
    ] {
        let found = outcome.figures[name];
        assert!((found - value).abs() < 1e-9, "{name}: {found}");
    }
}

type Rounds = Vec<BTreeMap<&'static str, f64>>;

fn rounds(calls_per_s: [f64; 3], rings_per_1k: [f64; 3]) -> Rounds {
    let both = calls_per_s.into_iter().zip(rings_per_1k);
    both.map(|(calls, rings)| BTreeMap::from([("calls_per_s", calls), ("rings_per_1k", rings)]))
        .collect()
}

fn row(setting: CallCoalesce) -> Row {
    Row {
        contestant: "doorbell".to_owned(),
        variant: Callers::variant_of(setting).to_owned(),
        metrics: Metrics::default(),
        counters: Metrics::default(),
    }
}

#[test]
fn the_settings_are_compared_in_each_round() {
    let rows = [row(CallCoalesce::Base), row(CallCoalesce::On)];
    let tapes = [
        rounds([100.0, 200.0, 400.0], [1_000.0, 500.0, 100.0]),
        rounds([120.0, 300.0, 440.0], [100.0, 5.0, 20.0]),
    ];
    let rated: Vec<Rated<'_>> = rows
        .iter()
        .zip(&tapes)
        .map(|(row, rounds)| Rated { row, rounds })
        .collect();
    let conclusion = columns::conclude(&rated);
    for part in [
        "makes 90.0 % fewer wake syscalls (the goal, 80 % fewer, is reached)",
        "an unknown number of interrupts between CPUs (the seed 88.7 % fewer)",
        "20.0 % more calls answered a second (the seed 18.6 % more)",
    ] {
        assert!(conclusion.gist.contains(part), "{}", conclusion.gist);
    }
    let table = &conclusion.side_tables[0];
    assert!(table.rows.iter().all(|row| row.len() == table.titles.len()));
    let normalised: Vec<&str> = table.rows.iter().map(|row| row[3].as_str()).collect();
    assert_eq!(normalised[..2], ["1.00 [+0.0]", "n/a"]);
    assert_eq!(normalised[3], "1.20 [+20.0]");
    assert_eq!(normalised[9], "0.10 [-90.0]");
    assert_eq!(table.rows[1][6], "0.11 [-88.7]");
    let goals: Vec<&str> = [0, 3, 9]
        .iter()
        .map(|line| table.rows[*line][7].as_str())
        .collect();
    assert_eq!(goals, ["", "> 0", "<= -80"]);

    let alone = columns::conclude(&rated[..1]);
    assert!(alone.gist.contains("nothing to compare"), "{}", alone.gist);
    assert!(alone.side_tables.is_empty());
}

#[test]
fn the_table_fits() {
    let kept = [
        "calls/s",
        "x base",
        "rings/1k",
        "awake/1k",
        "RES+CAL/1k",
        "syscalls/1k",
    ];
    assert_fits(&contestants(), &columns::columns(), &kept);
}
