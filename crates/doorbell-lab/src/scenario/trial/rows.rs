//! Turns rounds into rows: medians, spreads, and ratios to the baseline of the same round.

use std::collections::BTreeSet;

use super::runner::Figures;
use crate::measure::{Spread, median};
use crate::report::{Metrics, Row};

/// The names under which the ratio to the baseline is reported.
const RATIO: [&str; 3] = ["ratio_x", "ratio_min_x", "ratio_max_x"];

/// One contestant's row. `baseline` are the rounds of the one that it is compared with.
pub(super) fn row(
    (contestant, variant): (&str, &str),
    rounds: &[Figures],
    baseline: Option<&[Figures]>,
    compared: &str,
    spreads: &[[&'static str; 3]],
) -> Row {
    let mut metrics = Metrics::default();
    let names: BTreeSet<&str> = rounds.iter().flat_map(Figures::keys).copied().collect();
    for name in names {
        metrics.put(name, median(&over_rounds(rounds, name)));
    }
    for [name, low, high] in spreads {
        let spread = Spread::of(&over_rounds(rounds, name));
        metrics.put(low, spread.map(|spread| spread.min));
        metrics.put(high, spread.map(|spread| spread.max));
    }
    let ratios: Vec<f64> = baseline
        .unwrap_or_default()
        .iter()
        .zip(rounds)
        .filter_map(|(other, own)| Some(own.get(compared)? / other.get(compared)?))
        .filter(|ratio| ratio.is_finite())
        .collect();
    let spread = Spread::of(&ratios);
    metrics.put(RATIO[0], median(&ratios));
    metrics.put(RATIO[1], spread.map(|spread| spread.min));
    metrics.put(RATIO[2], spread.map(|spread| spread.max));
    metrics.put("rounds_kept_count", Some(rounds.len() as f64));
    Row {
        contestant: contestant.to_owned(),
        variant: variant.to_owned(),
        metrics,
        counters: Metrics::default(),
    }
}

/// One figure of every round that has it.
pub(super) fn over_rounds(rounds: &[Figures], name: &str) -> Vec<f64> {
    rounds
        .iter()
        .filter_map(|figures| figures.get(name).copied())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds(op_ns: [f64; 3]) -> Vec<Figures> {
        op_ns.map(|ns| Figures::from([("op_ns", ns)])).to_vec()
    }

    #[test]
    fn ratios_are_formed_in_each_round() {
        let mut own = rounds([10.0, 30.0, 20.0]);
        own[0].insert("syscalls_per_1k", 2.0);
        let other = rounds([5.0, 30.0, 5.0]);
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
        let row = row(("who", "how"), &rounds([1.0; 3]), None, "op_ns", &[]);
        assert_eq!(row.metrics.get("ratio_x"), None);
        assert_eq!(row.metrics.get("op_min_ns"), None);
    }
}
