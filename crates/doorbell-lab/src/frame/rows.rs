//! Turns rounds into rows: medians, spreads, and ratios to the baseline of the same round.

use std::collections::{BTreeMap, BTreeSet};

use super::rounds::{Figures, Tape};
use super::{Metric, ends};
use crate::measure::{Samples, median, spread_of};
use crate::report::{Metrics, Row, SideTable, fits, known, table_of};
use crate::scenario::Options;
use crate::text::Text;

const RATIO: [&str; 3] = ["ratio_x", "ratio_min_x", "ratio_max_x"];

/// A row, and what each round found.
#[derive(Debug)]
pub(crate) struct Rated<'a> {
    pub(crate) row: &'a Row,
    pub(crate) rounds: &'a [Figures],
}

/// All rows. Tables and goals are made of them.
#[derive(Debug)]
pub(crate) struct Results<'a> {
    pub(crate) rated: Vec<Rated<'a>>,
    pub(crate) options: &'a Options,
}

impl Results<'_> {
    pub(crate) fn of(&self, who: &str, how: &str) -> Option<&Rated<'_>> {
        let mut all = self.rated.iter();
        all.find(|one| one.row.contestant == who && one.row.variant == how)
    }

    /// A metric divided by that of another row: the median of the rounds' ratios, or the ratio of what all rounds have
    /// together.
    pub(crate) fn ratio(
        &self,
        one: &Rated<'_>,
        (who, how): (&str, &str),
        name: &str,
    ) -> Option<f64> {
        let other = self.of(who, how)?;
        let [own, others] = [one, other].map(|one| over_rounds(one.rounds, name).into_iter());
        median(&finite_ratios(own.zip(others))).or_else(|| {
            Some(one.row.metrics.get(name)? / other.row.metrics.get(name)?)
                .filter(|ratio| ratio.is_finite())
        })
    }

    /// A metric, or an expression of several: `name`, or divided by another row's, `name / contestant`, perhaps with
    /// `: variant`; of several, between `&`, the greatest counts.
    pub(super) fn figure(&self, expression: &str, one: &Rated<'_>) -> Option<f64> {
        let of_part = |part: &str| match other_of(part, one) {
            None => one.row.metrics.get(part),
            Some(other) => self.ratio(one, other, part.split(" / ").next()?),
        };
        let each = expression.split(" & ").map(of_part);
        each.reduce(|one, other| Some(one?.max(other?))).flatten()
    }

    /// The tables of the text beside that of its metrics: of each the rows whose variant fits and that have any of its
    /// metrics.
    pub(super) fn tables(&self, text: Text) -> Vec<SideTable> {
        let named = text.section("Tables").lines();
        let named = named.filter_map(|line| line.strip_prefix("- ")?.split_once(" | "));
        let cell = |row: &Row, metric: &str| {
            let one = self.of(&row.contestant, &row.variant);
            known(one.and_then(|one| self.figure(metric, one)))
        };
        let table = |(caption, variant): (&'static str, &str)| {
            let metrics = text.metrics(caption);
            let in_it = |row: &&Row| {
                let has = |metric: &Metric| row.metrics.get(metric.name).is_some();
                fits(variant, &row.variant) && metrics.iter().any(has)
            };
            let rows = self.rated.iter().map(|one| one.row).filter(in_it);
            table_of(caption, &metrics, rows, cell)
        };
        let tables = named.map(table);
        tables.filter(|table| !table.rows.is_empty()).collect()
    }
}

/// The names of the row by which a metric is divided.
pub(super) fn other_of<'a>(metric: &'a str, one: &'a Rated<'_>) -> Option<(&'a str, &'a str)> {
    let (_, other) = metric.split_once(" / ")?;
    Some(other.split_once(": ").unwrap_or((other, &one.row.variant)))
}

fn finite_ratios(pairs: impl Iterator<Item = (f64, f64)>) -> Vec<f64> {
    let ratios = pairs.map(|(own, other)| own / other);
    ratios.filter(|ratio| ratio.is_finite()).collect()
}

/// The row of a tape.
pub(super) fn row(
    (contestant, variant): (&str, &str),
    tape: &Tape,
    baseline: Option<&Tape>,
    compared: &str,
    shown: &[Metric],
) -> Row {
    let mut metrics = Metrics::default();
    for (name, value) in middles(tape) {
        metrics.put(name, Some(value));
    }
    for metric in shown.iter().filter(|metric| metric.name != RATIO[0]) {
        let values = of_each_round(&tape.rounds, metric.name).unwrap_or_default();
        let [low, high] = ends(metric.name);
        put_ends(&mut metrics, &values, [&low, &high]);
        metrics.put_variation(metric.name, &values);
    }
    let ratios = baseline.map(|other| ratios(tape, other, compared));
    let ratios = ratios.unwrap_or_default();
    metrics.put(RATIO[0], median(&ratios));
    if !ratios.is_empty() && ratios.len() == tape.rounds.len() {
        put_ends(&mut metrics, &ratios, [RATIO[1], RATIO[2]]);
    }
    metrics.put("rounds_kept_count", Some(tape.rounds.len() as f64));
    Row::new(contestant, variant, metrics)
}

fn put_ends(metrics: &mut Metrics, values: &[f64], [low, high]: [&str; 2]) {
    let ends = spread_of(values);
    metrics.put(low, ends.map(|ends| ends[0]));
    metrics.put(high, ends.map(|ends| ends[1]));
}

/// Percentiles by name, in µs; those for which there are enough times.
pub(crate) fn percentiles(late: &Samples) -> impl Iterator<Item = (&'static str, f64)> {
    let names = ["p50_us", "p99_us", "p995_us", "p999_us", "max_us"];
    percentiles_of(late, [50.0, 99.0, 99.5, 99.9, 100.0], names)
}

/// These percentiles by these names, in µs; those for which there are enough times.
pub(crate) fn percentiles_of<const N: usize>(
    times: &Samples,
    percentiles: [f64; N],
    names: [&'static str; N],
) -> impl Iterator<Item = (&'static str, f64)> {
    let found = times.percentiles_ns(percentiles, 0.0);
    let named = names.into_iter().zip(found);
    named.filter_map(|(name, ns)| Some((name, ns? / 1_000.0)))
}

/// The medians of all figures. Percentiles that some round has too few times for are those of all rounds together,
/// and the maximum is that of all rounds.
fn middles(tape: &Tape) -> BTreeMap<&'static str, f64> {
    let names: BTreeSet<_> = tape.rounds.iter().flat_map(Figures::keys).collect();
    let of_rounds = |name: &&'static str| Some((*name, median(&over_rounds(&tape.rounds, name))?));
    let mut all: BTreeMap<_, _> = names.into_iter().filter_map(of_rounds).collect();
    let of_all = percentiles(&tape.late);
    let is_of_all = |name: &str| name == "max_us" || of_each_round(&tape.rounds, name).is_none();
    all.extend(of_all.filter(|(name, _)| is_of_all(name)));
    all
}

/// The ratios of the rounds; one of all rounds together, if some round lacks the figure.
fn ratios(own: &Tape, other: &Tape, name: &str) -> Vec<f64> {
    let each = |tape: &Tape| of_each_round(&tape.rounds, name);
    let middle = |tape: &Tape| middles(tape).get(name).map(|value| vec![*value]);
    let both = each(own).zip(each(other));
    let both = both.or_else(|| middle(own).zip(middle(other)));
    let (own, other) = both.unwrap_or_default();
    finite_ratios(own.into_iter().zip(other))
}

/// One figure of every round, if every round has it.
fn of_each_round(rounds: &[Figures], name: &str) -> Option<Vec<f64>> {
    let found = rounds.iter().map(|figures| figures.get(name).copied());
    found.collect()
}

/// One figure of every round that has it.
fn over_rounds(rounds: &[Figures], name: &str) -> Vec<f64> {
    let found = rounds.iter().filter_map(|figures| figures.get(name));
    found.copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHOWN: [Metric; 2] = [metric("op_ns"), metric("p99_us")];

    const fn metric(name: &'static str) -> Metric {
        Metric {
            title: "",
            name,
            spread: "",
        }
    }

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
        let row = row(("who", "how"), &own, Some(&other), "op_ns", &SHOWN);
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
        let row = row(("who", "how"), &tape([1.0; 3]), None, "p99_us", &SHOWN);
        assert_eq!(row.metrics.get("ratio_x"), None);
        assert_eq!(row.metrics.get("p99_min_us"), None);
    }

    /// Two rounds with `each` samples of the same length.
    fn late(each: usize, us: u64) -> Tape {
        let mut tape = Tape::default();
        for _ in 0..2 {
            let mut late = Samples::default();
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
        let row_of = |each| {
            let (own, other) = (late(each, 6), late(each, 3));
            row(("who", "how"), &own, Some(&other), "p99_us", &SHOWN).metrics
        };
        let names = ["p99_us", "p99_min_us", "ratio_x", "ratio_min_x", "max_us"];
        let (of_each, of_all, few) = (row_of(1_000), row_of(500), row_of(499));
        let figures = |metrics: &Metrics| names.map(|name| metrics.get(name));
        let [six, two] = [6.0, 2.0].map(Some);
        assert_eq!(figures(&of_each), [six, six, two, two, six]);
        assert_eq!(figures(&of_all), [six, None, two, None, six]);
        assert_eq!(figures(&few), [None, None, None, None, six]);
    }

    #[test]
    fn a_table_of_a_text_has_the_rows_that_fit_and_have_any_of_its_metrics() {
        let text = Text(
            "# x\n\n## Tables\n\n- Waits | so*\n\n## Waits\n\n- p99_us: p99\n- p99_us / other: x other\n",
        );
        let row = |contestant: &str, variant: &str, name: &str, value: f64| {
            let mut metrics = Metrics::default();
            metrics.put(name, Some(value));
            Row {
                contestant: contestant.to_owned(),
                variant: variant.to_owned(),
                metrics,
            }
        };
        let rows = [
            row("one", "so", "p99_us", 6.0),
            row("other", "so", "p99_us", 3.0),
            row("one", "else", "p99_us", 1.0),
            row("third", "so", "op_ns", 1.0),
        ];
        let rated = rows.iter().map(|row| Rated { row, rounds: &[] });
        let results = Results {
            rated: rated.collect(),
            options: &Options::default(),
        };
        let tables = results.tables(text);
        assert_eq!(tables.len(), 1);
        let titles = ["contestant", "variant", "p99", "x other"];
        assert_eq!(tables[0].titles, titles);
        let expected = [
            ["one", "so", "6.00", "2.00"],
            ["other", "so", "3.00", "1.00"],
        ];
        assert_eq!(tables[0].rows, expected);
    }
}
