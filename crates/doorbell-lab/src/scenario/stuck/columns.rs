//! The columns of the scenario's table, and how to read them.

use super::super::common::figure_of;
use super::super::limits::{self, Bound, Limit};
use super::super::trial::{Conclusion, Rated};
use super::super::{late, late::ratio};
use crate::report::{Chart, Column};

/// The goal for the p99 of any lateness.
const LATE_US: f64 = 1_000.0;

/// The variants that the summary sentence mentions.
const ONE_TWO_FOUR: [&str; 3] = [
    "1 task, other parked",
    "2 tasks, other parked",
    "4 tasks, other parked",
];
const TIMER: &str = "timer, other parked";

/// Figures whose spread over the rounds is kept.
pub(super) const SPREADS: [[&str; 3]; 3] = [late::SPREADS[0], late::SPREADS[1], late::MAX_SPREAD];

/// The columns, in order.
pub(super) fn columns() -> Vec<Column> {
    let mut all = late::columns();
    all.extend(late::max());
    all.extend(ratio("x tokio"));
    all.extend([
        Column::figure("runs", "operations_count"),
        Column::figure("early", "early_count"),
    ]);
    all
}

/// What the table shows.
pub(super) fn conclude(rated: &[Rated<'_>]) -> Conclusion {
    let figure = |who, metric, how| figure_of(rated.iter().map(|one| one.row), [who, how, metric]);
    let half = |who| {
        ONE_TWO_FOUR
            .map(|how| figure(who, "p50_us", how))
            .join(", ")
    };
    let mut conclusion = Conclusion::in_words(format!(
        "While a core is inside a poll of 10 ms and the other one is parked, half of the tasks behind it \
         (1, 2 and 4 of them) start within {} us with doorbell and {} with tokio, all of 4 within {} \
         and {}; half of its timers are at most {} and {} us late.",
        half("doorbell"),
        half("tokio"),
        figure("doorbell", "max_us", ONE_TWO_FOUR[2]),
        figure("tokio", "max_us", ONE_TWO_FOUR[2]),
        figure("doorbell", "p50_us", TIMER),
        figure("tokio", "p50_us", TIMER),
    ));
    let ours = rated.iter().filter(|one| one.row.contestant == "doorbell");
    let promised: Vec<_> = ours
        .map(|one| {
            let what = format!("p99 {}", one.row.variant);
            let found = one.row.metrics.get("p99_us");
            Limit::new(what, "us", Bound::AtMost(LATE_US), found)
        })
        .collect();
    conclusion.side_tables = limits::table(&promised);
    conclusion
}

/// The chart of the page.
pub(super) fn chart() -> Chart {
    late::chart("How late the work of a stuck core is done, µs (log scale)")
}
