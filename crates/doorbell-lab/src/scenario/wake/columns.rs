//! The columns of the scenario's table, and how to read them.

use super::super::common::figure_of;
use super::super::hosts::{Doorbell, Host as _};
use super::super::late;
use super::super::trial::{Conclusion, Rated};
use super::{VARIANTS, Variant};
use crate::report::{Chart, Column};

/// Figures whose spread over the rounds is kept.
pub(super) const SPREADS: [[&str; 3]; 5] = [
    late::SPREADS[0],
    late::SPREADS[1],
    ["p995_us", "p995_min_us", "p995_max_us"],
    late::MAX_SPREAD,
    ["cpu_us_per_op", "cpu_min_us_per_op", "cpu_max_us_per_op"],
];

/// The columns, in order.
pub(super) fn columns() -> Vec<Column> {
    let (figure, spread) = (Column::figure, Column::spread);
    let mut all = vec![
        figure("p50 us", "p50_us"),
        figure("p99 us", "p99_us"),
        spread("p99 spread", "p99_min_us", "p99_max_us"),
        figure("p99.5 us", "p995_us"),
        figure("max us", "max_us"),
    ];
    all.extend(late::ratio("x tokio"));
    all.extend([
        figure("skipped", "skipped_count"),
        figure("stacked/1k", "stacked_per_1k"),
        figure("CPU us/wake", "cpu_us_per_op"),
        figure("sleeps/wake", "wakeups_per_op"),
        figure("rings/wake", "rings_per_op"),
        figure("lost/1k", "claims_lost_per_1k"),
    ]);
    all
}

/// What the table shows.
pub(super) fn conclude(rated: &[Rated<'_>]) -> Conclusion {
    let [_, light, _, by_threads, ..] = VARIANTS;
    let us = |who, how: Variant| {
        let row = [who, how.name, "p99_us"];
        figure_of(rated.iter().map(|one| one.row), row)
    };
    let both = |who| format!("{} and {} us", us(who, light), us(who, by_threads));
    let settings = super::settings(by_threads).into_iter();
    let stacked = settings.map(|(_, name)| {
        let row = [Doorbell::NAME, name, "stacked_per_1k"];
        figure_of(rated.iter().map(|one| one.row), row)
    });
    let stacked: Vec<_> = stacked.collect();
    Conclusion::in_words(format!(
        "At light load, 99 of 100 workers that a task and that an OS thread wakes run within {} with doorbell, \
         {} with tokio and {} with smol; as OS threads within {} us. Nothing is pinned. With idle_claim=on, off, \
         mark and base {} of 1,000 wakes by threads are stacked.",
        both("doorbell"),
        both("tokio"),
        both("smol"),
        us("OS threads", light),
        stacked.join(", "),
    ))
}

/// The chart of the page.
pub(super) fn chart() -> Chart {
    late::chart("From a wake until the worker runs, µs (log scale)")
}
