//! What scenarios that measure lateness share: percentiles, columns and chart.

use crate::measure::Samples;
use crate::report::{Chart, Column, Series};

/// Figures whose spread over the rounds is kept.
pub(super) const SPREADS: [[&str; 3]; 2] = [
    ["p50_us", "p50_min_us", "p50_max_us"],
    ["p99_us", "p99_min_us", "p99_max_us"],
];

/// The same of the maximum, for tables that have it.
pub(super) const MAX_SPREAD: [&str; 3] = ["max_us", "max_min_us", "max_max_us"];

/// Percentiles by name, in µs; those for which there are enough times.
pub(super) fn percentiles(late: &Samples) -> impl Iterator<Item = (&'static str, f64)> {
    let names = ["p50_us", "p99_us", "p995_us", "p999_us", "max_us"];
    named(late, [50.0, 99.0, 99.5, 99.9, 100.0], names)
}

/// These percentiles by these names, in µs; those for which there are enough times.
pub(super) fn named<const N: usize>(
    times: &Samples,
    percentiles: [f64; N],
    names: [&'static str; N],
) -> impl Iterator<Item = (&'static str, f64)> {
    let found = times.percentiles_ns(percentiles, 0.0);
    let named = names.into_iter().zip(found);
    named.filter_map(|(name, ns)| Some((name, ns? / 1_000.0)))
}

/// The columns p50 and p99, each with its spread over the rounds.
pub(super) fn columns() -> Vec<Column> {
    let titles = [["p50 us", "p50 spread"], ["p99 us", "p99 spread"]];
    let columns = titles.into_iter().zip(SPREADS);
    columns
        .flat_map(|(titles, metrics)| with_spread(titles, metrics))
        .collect()
}

/// The maximum, with its spread over the rounds.
pub(super) fn max() -> [Column; 2] {
    with_spread(["max us", "max spread"], MAX_SPREAD)
}

fn with_spread(
    [title, spread]: [&'static str; 2],
    [metric, low, high]: [&'static str; 3],
) -> [Column; 2] {
    [
        Column::figure(title, metric),
        Column::spread(spread, low, high),
    ]
}

/// The ratio to the baseline, with its spread over the rounds.
pub(super) fn ratio(title: &'static str) -> [Column; 2] {
    [
        Column::figure(title, "ratio_x"),
        Column::spread("x spread", "ratio_min_x", "ratio_max_x"),
    ]
}

/// The chart of the page.
pub(super) fn chart(title: &'static str) -> Chart {
    let series = ["p50", "p99"].into_iter().zip(SPREADS);
    Chart {
        title,
        unit: "µs",
        series: series
            .map(|(title, [metric, low, high])| Series {
                title,
                metric,
                low,
                high,
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_have_their_names_and_nothing_has_none() {
        let mut late = Samples::default();
        assert_eq!(percentiles(&late).count(), 0);
        late.record(7_000);
        assert_eq!(percentiles(&late).collect::<Vec<_>>(), [("max_us", 7.0)]);
        let mut late = Samples::default();
        for us in 1..=10_000 {
            late.record(us * 1_000);
        }
        let found: Vec<_> = percentiles(&late).collect();
        let expected = [
            ("p50_us", 5_000.0),
            ("p99_us", 9_900.0),
            ("p995_us", 9_950.0),
            ("p999_us", 9_990.0),
            ("max_us", 10_000.0),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn each_percentile_stands_beside_its_spread() {
        let titles: Vec<_> = columns().iter().map(|column| column.title).collect();
        assert_eq!(titles, ["p50 us", "p50 spread", "p99 us", "p99 spread"]);
        assert_eq!(chart("late").series[1].metric, "p99_us");
    }
}
