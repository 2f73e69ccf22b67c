//! Turns the rounds of a contestant into one row.

use std::collections::BTreeMap;

use super::rounds::{Figures, Tape};
use crate::measure::{Spread, median};
use crate::report::{Metrics, Row};

/// Takes a figure from a round, if it has it.
type Pick = fn(&Figures) -> Option<f64>;

/// Medians over the kept rounds, the spread of the compared figure, and the number of rounds.
pub(crate) fn summarise(contestant: &str, variant: &str, tape: &Tape) -> Row {
    let mut metrics = Metrics::default();
    let p50 = over_rounds(tape, |figures| figures.p50_ns);
    let p99 = over_rounds(tape, |figures| figures.p99_ns);
    let ratio = over_rounds(tape, Figures::p50_x);
    put_with_spread(&mut metrics, &p50, ["p50_ns", "p50_min_ns", "p50_max_ns"]);
    put_with_spread(&mut metrics, &p99, ["p99_ns", "p99_min_ns", "p99_max_ns"]);
    put_with_spread(
        &mut metrics,
        &ratio,
        ["ratio_to_limit_x", "ratio_min_x", "ratio_max_x"],
    );

    let plain: [(&str, Pick); 5] = [
        ("limit_ns", |figures| Some(figures.limit_ns)),
        ("interrupts_per_1k", |figures| figures.interrupts_per_1k),
        ("switches_per_1k", |figures| Some(figures.switches_per_1k)),
        ("syscalls_per_1k", |figures| figures.syscalls_per_1k),
        ("crossed_percent", |figures| {
            figures.observed.crossed_percent()
        }),
    ];
    for (name, figure) in plain {
        metrics.put(name, median(&over_rounds(tape, figure)));
    }
    metrics.put("rounds_kept_count", Some(tape.kept.len() as f64));
    metrics.put("rounds_dropped_count", Some(f64::from(tape.rounds_dropped)));
    metrics.put("passes_dropped_count", Some(f64::from(tape.passes_dropped)));

    Row {
        contestant: contestant.to_owned(),
        variant: variant.to_owned(),
        metrics,
        counters: counters(tape),
    }
}

/// One figure of every kept round that has it.
fn over_rounds(tape: &Tape, figure: impl Fn(&Figures) -> Option<f64>) -> Vec<f64> {
    tape.kept.iter().filter_map(figure).collect()
}

fn put_with_spread(metrics: &mut Metrics, values: &[f64], names: [&str; 3]) {
    let spread = Spread::of(values);
    metrics.put(names[0], median(values));
    metrics.put(names[1], spread.map(|spread| spread.min));
    metrics.put(names[2], spread.map(|spread| spread.max));
}

/// The medians of the contestant's own counters.
fn counters(tape: &Tape) -> Metrics {
    let mut values: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for figures in &tape.kept {
        for (name, value) in &figures.observed.counters {
            values.entry(name).or_default().push(*value);
        }
    }
    let mut metrics = Metrics::default();
    for (name, values) in values {
        metrics.put(name, median(&values));
    }
    metrics
}

#[cfg(test)]
mod tests {
    use super::super::contestant::Observed;
    use super::*;

    fn round(p50_ns: f64, limit_ns: f64) -> Figures {
        Figures {
            p50_ns: Some(p50_ns),
            p99_ns: Some(p50_ns * 2.0),
            limit_ns,
            interrupts_per_1k: Some(p50_ns / 100.0),
            observed: Observed {
                reported_count: 2,
                crossed_count: 1,
                counters: BTreeMap::from([("rings_per_call".to_owned(), p50_ns / 1_000.0)]),
            },
            ..Figures::default()
        }
    }

    fn close(metrics: &Metrics, name: &str, expected: f64) {
        let value = metrics
            .get(name)
            .unwrap_or_else(|| panic!("{name} is missing"));
        assert!(
            (value - expected).abs() < 1e-9,
            "{name}: {value}, not {expected}"
        );
    }

    #[test]
    fn a_row_is_made_of_medians_and_spreads() {
        let kept = vec![round(100.0, 50.0), round(400.0, 100.0), round(300.0, 300.0)];
        let tape = Tape {
            kept,
            rounds_dropped: 1,
            passes_dropped: 4,
        };
        let row = summarise("who", "how", &tape);
        close(&row.metrics, "p50_ns", 300.0);
        close(&row.metrics, "p50_min_ns", 100.0);
        close(&row.metrics, "p50_max_ns", 400.0);
        close(&row.metrics, "p99_ns", 600.0);
        // The ratio is computed per round; it is not the ratio of the medians.
        close(&row.metrics, "ratio_to_limit_x", 2.0);
        close(&row.metrics, "ratio_min_x", 1.0);
        close(&row.metrics, "ratio_max_x", 4.0);
        close(&row.metrics, "interrupts_per_1k", 3.0);
        close(&row.metrics, "crossed_percent", 50.0);
        close(&row.metrics, "rounds_kept_count", 3.0);
        close(&row.metrics, "rounds_dropped_count", 1.0);
        close(&row.metrics, "passes_dropped_count", 4.0);
        close(&row.counters, "rings_per_call", 0.3);
        assert_eq!(row.metrics.get("syscalls_per_1k"), None);
    }

    #[test]
    fn a_contestant_without_a_kept_round_has_counts_only() {
        let tape = Tape {
            kept: Vec::new(),
            rounds_dropped: 2,
            passes_dropped: 6,
        };
        let row = summarise("who", "how", &tape);
        assert_eq!(row.metrics.get("p50_ns"), None);
        close(&row.metrics, "rounds_kept_count", 0.0);
    }
}
