//! The columns of the scenario's table, and how to read them.

use super::super::common::figure_of;
use super::super::timers::wakeups;
use super::super::trial::{Conclusion, Rated};
use crate::report::{Chart, Column};

/// The columns, in order.
pub(super) fn columns() -> Vec<Column> {
    let mut all = wakeups::columns("wake-ups/tick", "x tokio");
    all.extend([
        Column::figure("syscalls/1k", "syscalls_per_1k"),
        Column::figure("ticks", "operations_count"),
        Column::figure("early", "early_count"),
    ]);
    all
}

/// What the table shows.
pub(super) fn conclude(rated: &[Rated<'_>]) -> Conclusion {
    let wakes = |who, how| {
        figure_of(
            rated.iter().map(|one| one.row),
            [who, how, "wakeups_per_op"],
        )
    };
    Conclusion::in_words(format!(
        "A tick of 1,000 periodic timers costs doorbell {} wake-ups with a slack of 1 ms, and {} \
         without; tokio {}.",
        wakes("doorbell", "slack 1 ms"),
        wakes("doorbell", "slack 0"),
        wakes("tokio", "interval"),
    ))
}

/// The chart of the page.
pub(super) fn chart() -> Chart {
    wakeups::chart("Wake-ups of threads for each tick (log scale)", "each tick")
}
