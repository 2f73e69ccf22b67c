//! The columns of the scenario's table, and how to read them.

use super::super::common::figure_of;
use super::super::trial::{Conclusion, Rated};
use super::super::{late, limits};
use super::promises;
use crate::report::{Chart, Column};

/// Figures whose spread over the rounds is kept.
pub(super) const SPREADS: [[&str; 3]; 5] = [
    late::SPREADS[0],
    late::SPREADS[1],
    ["p999_us", "p999_min_us", "p999_max_us"],
    late::MAX_SPREAD,
    ["polls_per_s", "polls_min_per_s", "polls_max_per_s"],
];

/// The columns, in order.
pub(super) fn columns() -> Vec<Column> {
    let (figure, spread) = (Column::figure, Column::spread);
    let mut all = late::columns();
    all.extend([
        figure("p99.9 us", "p999_us"),
        spread("p99.9 spread", "p999_min_us", "p999_max_us"),
    ]);
    all.extend(late::max());
    all.extend(late::ratio("x bare"));
    all.extend([
        figure("runs", "operations_count"),
        figure("polls/s", "polls_per_s"),
        spread("polls spread", "polls_min_per_s", "polls_max_per_s"),
    ]);
    all
}

/// What the table shows.
pub(super) fn conclude(rated: &[Rated<'_>]) -> Conclusion {
    let figure = |who, how, metric| figure_of(rated.iter().map(|one| one.row), [who, how, metric]);
    let us = |who, how| {
        let [half, most] = ["p50_us", "p99_us"].map(|metric| figure(who, how, metric));
        format!("{half} us (99 of 100 {most})")
    };
    let mut conclusion = Conclusion::in_words(format!(
        "Woken from a thread while every core is inside polls of 10 ms, half of the urgent tasks run within \
         {} with doorbell, {} with tokio, and {} if tokio's jobs compute on threads under SCHED_IDLE; \
         doorbell's ordinary tasks beside Batch within {}.",
        us("doorbell", "class Rt, from a thread"),
        us("tokio", "tasks, from a thread"),
        us("tokio", "jobs on SCHED_IDLE threads, from a thread"),
        us("doorbell", "Fair beside Batch, from a thread"),
    ));
    conclusion.side_tables = limits::table(&promises::of(rated));
    conclusion
}

/// The conclusion from the table of threads.
pub(super) fn conclude_slices(rated: &[Rated<'_>]) -> Conclusion {
    let us = |how| {
        let row = ["bare thread", how, "p99_us"];
        figure_of(rated.iter().map(|one| one.row), row)
    };
    Conclusion::in_words(format!(
        "A thread that is woken beside one that computes runs, 99 times of 100, within {} us if both \
         asked for nothing, {} with a 100 us slice against 20 ms, {} against nice 10.",
        us("plain beside plain, from a thread"),
        us("100 us beside 20 ms slice, from a thread"),
        us("plain beside nice 10, from a thread"),
    ))
}

/// The chart of the page.
pub(super) fn chart() -> Chart {
    late::chart("How late urgent work runs while every core computes, µs (log scale)")
}
