//! Turns rounds into rows: medians, spreads, and ratios to the baseline of the same round.

use std::collections::{BTreeMap, BTreeSet};

use super::super::late::percentiles;
use super::runner::{Figures, Tape};
use crate::measure::{Spread, median};
use crate::report::{Metrics, Row};

/// The names under which the ratio to the baseline is reported.
const RATIO: [&str; 3] = ["ratio_x", "ratio_min_x", "ratio_max_x"];

/// One contestant's row. `baseline` is the tape of its baseline.
pub(super) fn row(
    (contestant, variant): (&str, &str),
    tape: &Tape,
    baseline: Option<&Tape>,
    compared: &str,
    spreads: &[[&'static str; 3]],
) -> Row {
    let mut metrics = Metrics::default();
    for (name, value) in middles(tape) {
        metrics.put(name, Some(value));
    }
    for [name, low, high] in spreads {
        let values = of_each_round(&tape.rounds, name).unwrap_or_default();
        put_ends(&mut metrics, &values, [low, high]);
    }
    let ratios = baseline.map(|other| ratios(tape, other, compared));
    let ratios = ratios.unwrap_or_default();
    metrics.put(RATIO[0], median(&ratios));
    if ratios.len() == tape.rounds.len() {
        put_ends(&mut metrics, &ratios, [RATIO[1], RATIO[2]]);
    }
    metrics.put("rounds_kept_count", Some(tape.rounds.len() as f64));
    Row {
        contestant: contestant.to_owned(),
        variant: variant.to_owned(),
        metrics,
        counters: Metrics::default(),
    }
}

fn put_ends(metrics: &mut Metrics, values: &[f64], [low, high]: [&str; 2]) {
    let ends = Spread::of(values);
    metrics.put(low, ends.map(|ends| ends.min));
    metrics.put(high, ends.map(|ends| ends.max));
}

/// The median of each figure over the rounds. The maximum is over the samples of all rounds, as is a
/// percentile for which some round has too few samples.
fn middles(tape: &Tape) -> BTreeMap<&'static str, f64> {
    let names: BTreeSet<&'static str> = tape
        .rounds
        .iter()
        .flat_map(Figures::keys)
        .copied()
        .collect();
    let of_rounds = |name| Some((name, median(&over_rounds(&tape.rounds, name))?));
    let mut all: BTreeMap<_, _> = names.into_iter().filter_map(of_rounds).collect();
    let of_all = percentiles(&tape.late);
    let is_of_all = |name: &str| name == "max_us" || of_each_round(&tape.rounds, name).is_none();
    all.extend(of_all.filter(|(name, _)| is_of_all(name)));
    all
}

/// The ratios of the rounds, or a single one over all rounds if some round lacks the figure.
fn ratios(own: &Tape, other: &Tape, name: &str) -> Vec<f64> {
    let each = |tape: &Tape| of_each_round(&tape.rounds, name);
    let middle = |tape: &Tape| middles(tape).get(name).map(|value| vec![*value]);
    let both = each(own).zip(each(other));
    let both = both.or_else(|| middle(own).zip(middle(other)));
    let (own, other) = both.unwrap_or_default();
    let ratios = own.iter().zip(other).map(|(own, other)| own / other);
    ratios.filter(|ratio| ratio.is_finite()).collect()
}

/// One figure of every round, if every round has it.
fn of_each_round(rounds: &[Figures], name: &str) -> Option<Vec<f64>> {
    rounds
        .iter()
        .map(|figures| figures.get(name).copied())
        .collect()
}

/// One figure of every round that has it.
pub(super) fn over_rounds(rounds: &[Figures], name: &str) -> Vec<f64> {
    let found = rounds.iter().filter_map(|figures| figures.get(name));
    found.copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tape(op_ns: [f64; 3]) -> Tape {
        Tape {
            rounds: op_ns.map(|ns| Figures::from([("op_ns", ns)])).to_vec(),
            ..Tape::default()
        }
    }

    #[test]
    fn ratios_are_formed_in_each_round() {
        let mut own = tape([10.0, 30.0, 20.0]);
        own.rounds[0].insert("syscalls_per_1k", 2.0);
        let other = tape([5.0, 30.0, 5.0]);
        let spreads = [["op_ns", "op_min_ns", "op_max_ns"]];
        let row = row(("who", "how"), &own, Some(&other), "op_ns", &spreads);
        let expected = [
            ("op_ns", 20.0),
            ("op_min_ns", 10.0),
            ("op_max_ns", 30.0),
            ("syscalls_per_1k", 2.0),
            ("ratio_x", 2.0),
            ("ratio_min_x", 1.0),
            ("ratio_max_x", 4.0),
            ("rounds_kept_count", 3.0),
        ];
        for (name, value) in expected {
            assert_eq!(row.metrics.get(name), Some(value), "{name}");
        }
    }

    #[test]
    fn without_a_baseline_there_is_no_ratio() {
        let row = row(("who", "how"), &tape([1.0; 3]), None, "op_ns", &[]);
        assert_eq!(row.metrics.get("ratio_x"), None);
        assert_eq!(row.metrics.get("op_min_ns"), None);
    }

    /// Two rounds with `each` samples of the same length.
    fn late(each: usize, us: u64) -> Tape {
        let mut tape = Tape::default();
        for _ in 0..2 {
            let mut late = crate::measure::Samples::default();
            (0..each).for_each(|_| late.record(us * 1_000));
            tape.rounds.push(percentiles(&late).collect());
            tape.late.add(&late);
        }
        tape
    }

    #[test]
    fn the_greatest_time_is_that_of_all_rounds() {
        let mut tape = late(1, 3);
        let longer = late(1, 9);
        tape.rounds.push(longer.rounds[0].clone());
        tape.late.add(&longer.late);
        assert_eq!(middles(&tape).get("max_us"), Some(&9.0));
    }

    #[test]
    fn a_percentile_is_of_each_round_or_of_all_or_is_not_there() {
        let spreads = [["p99_us", "p99_min_us", "p99_max_us"]];
        let row_of = |each| {
            let (own, other) = (late(each, 6), late(each, 3));
            row(("who", "how"), &own, Some(&other), "p99_us", &spreads).metrics
        };
        let names = ["p99_us", "p99_min_us", "ratio_x", "ratio_min_x", "max_us"];
        let (of_each, of_all, few) = (row_of(1_000), row_of(500), row_of(499));
        let figures = |metrics: &Metrics| names.map(|name| metrics.get(name));
        let [six, two] = [6.0, 2.0].map(Some);
        assert_eq!(figures(&of_each), [six, six, two, two, six]);
        assert_eq!(figures(&of_all), [six, None, two, None, six]);
        assert_eq!(figures(&few), [None, None, None, None, six]);
    }
}
