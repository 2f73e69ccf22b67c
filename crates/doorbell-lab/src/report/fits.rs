//! For tests of scenarios: checks that a table fits.

use super::table::TABLE_MAX;
use super::{Cell, Column, Grid, MainTable, Metrics, Row, main_grid};

/// As long as a relevant figure gets.
const LONG: f64 = 123_456.0;

/// Checks that the table of these contestants, with long figures in all cells, is not too wide and still
/// has the columns `kept`.
pub(crate) fn assert_table<'a>(
    names: impl Iterator<Item = (&'a str, &'a str)>,
    columns: &[Column],
    kept: &[&str],
) {
    let mut metrics = Metrics::default();
    for column in columns {
        let shown = match column.cell {
            Cell::Figure(metric) | Cell::OfRounds(metric) => [metric, metric],
            Cell::Spread { low, high } => [low, high],
        };
        for metric in shown {
            metrics.put(metric, Some(LONG));
        }
    }
    let rows = names.map(|(contestant, variant)| Row {
        contestant: contestant.to_owned(),
        variant: variant.to_owned(),
        metrics: metrics.clone(),
        counters: Metrics::default(),
    });
    let rows: Vec<_> = rows.collect();
    assert!(!rows.is_empty());
    assert_grid(main_grid(columns, &rows, 7), kept);
}

/// The same for a main table of a scenario's own form.
pub(crate) fn assert_main(table: &MainTable, kept: &[&str]) {
    assert_grid(Grid::of(&table.titles, &table.rows), kept);
}

fn assert_grid(mut grid: Grid, kept: &[&str]) {
    let left_out = grid.fit(TABLE_MAX);
    let text = grid.aligned();
    assert!(
        text.lines().all(|line| line.chars().count() <= TABLE_MAX),
        "{text}"
    );
    for title in kept {
        let is_there = grid.titles.iter().any(|found| found == title);
        assert!(is_there, "{title} is not in\n{text}but in {left_out:?}");
    }
}
