//! The columns of the scenario's table, and how to read them.

use super::super::common::figure_of;
use super::super::late;
use super::super::trial::{Conclusion, Rated};
use crate::report::{Chart, Column};

/// Figures whose spread over the rounds is kept.
pub(super) const SPREADS: [[&str; 3]; 3] = [
    late::SPREADS[0],
    late::SPREADS[1],
    ["cpu_percent", "cpu_min_percent", "cpu_max_percent"],
];

/// The columns, in order.
pub(super) fn columns() -> Vec<Column> {
    let mut all = late::columns();
    all.push(Column::figure("max us", "max_us"));
    all.extend(late::ratio("x threads"));
    all.extend([
        Column::figure("CPU %", "cpu_percent"),
        Column::spread("CPU spread", "cpu_min_percent", "cpu_max_percent"),
        Column::figure("syscalls/1k", "syscalls_per_1k"),
        Column::figure("early", "early_count"),
    ]);
    all
}

/// What the table shows.
pub(super) fn conclude(rated: &[Rated<'_>]) -> Conclusion {
    let us = |who, how| figure_of(rated.iter().map(|one| one.row), [who, how, "p50_us"]);
    Conclusion::in_words(format!(
        "Half of all sleeps end at most {} us late with doorbell and {} with tokio; threads that \
         sleep in the kernel {}.",
        us("doorbell", "slack 0"),
        us("tokio", "400 tasks"),
        us("OS threads", "400 threads, slack 1 ns"),
    ))
}

/// The chart of the page.
pub(super) fn chart() -> Chart {
    late::chart("Lateness of sleeps of 1 to 50 ms, µs (log scale)")
}
