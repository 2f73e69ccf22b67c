//! The columns of the scenario's table, and how to read them.

use super::super::common::figure_of;
use super::super::late;
use super::super::trial::{Conclusion, Rated};
use super::VARIANTS;
use crate::report::{Chart, Column};

/// Figures whose spread over the rounds is kept.
pub(super) const SPREADS: [[&str; 3]; 5] = [
    late::SPREADS[0],
    late::SPREADS[1],
    late::MAX_SPREAD,
    ["wait_p99_us", "wait_p99_min_us", "wait_p99_max_us"],
    ["wait_max_us", "wait_max_min_us", "wait_max_max_us"],
];

/// The columns, in order.
pub(super) fn columns() -> Vec<Column> {
    let (figure, spread) = (Column::figure, Column::spread);
    let mut all = late::columns();
    all.extend(late::max());
    all.extend(late::ratio("x threads"));
    all.extend([
        figure("missed", "missed_count"),
        figure("wait p50", "wait_p50_us"),
        figure("wait p99", "wait_p99_us"),
        spread("wait p99 spread", "wait_p99_min_us", "wait_p99_max_us"),
        figure("wait max", "wait_max_max_us"),
        figure("rings/tick", "rings_per_op"),
        figure("skipped", "skipped_count"),
        figure("CPU %", "cpu_percent"),
        figure("ticks", "operations_count"),
        figure("early", "early_count"),
    ]);
    all
}

/// What the table shows.
pub(super) fn conclude(rated: &[Rated<'_>]) -> Conclusion {
    let of = |who: &str, extras: usize, metric| {
        let wanted = |one: &&Rated<'_>| {
            one.row.contestant.contains(who) && one.row.variant == VARIANTS[extras].0
        };
        let row = rated.iter().find(wanted).map(|one| one.row);
        row.map_or_else(
            || crate::report::known(None),
            |row| figure_of([row], [&row.contestant, &row.variant, metric]),
        )
    };
    let ticks = |who| [0, 2].map(|extras| of(who, extras, "p99_us"));
    let ([alone, beside], [thread, thread_beside]) = (ticks("doorbell"), ticks("threads"));
    Conclusion::in_words(format!(
        "99 of 100 ticks of doorbell's periodic tasks come within {alone} us after they are due, and within \
         {beside} us beside two extra tasks; those of threads within {thread} and {thread_beside} us. Half of \
         the two extra tasks wait {} us with doorbell and {} us as threads, the longest wait is {} and {} us.",
        of("doorbell", 2, "wait_p50_us"),
        of("threads", 2, "wait_p50_us"),
        of("doorbell", 2, "wait_max_max_us"),
        of("threads", 2, "wait_max_max_us"),
    ))
}

/// The chart of the page.
pub(super) fn chart() -> Chart {
    late::chart("How late the ticks of periodic tasks come, µs (log scale)")
}
