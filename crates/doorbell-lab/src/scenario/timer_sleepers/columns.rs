//! The columns of the scenario's table, and how to read them.

use super::super::common::figure_of;
use super::super::timers::wakeups;
use super::super::trial::{Conclusion, Rated};
use crate::report::{Chart, Column};

/// The columns, in order.
pub(super) fn columns() -> Vec<Column> {
    let mut all = wakeups::columns("wake-ups/timer", "x off");
    all.extend([
        Column::figure("RES+CAL/1k", "interrupts_per_1k"),
        Column::figure("timers", "operations_count"),
        Column::figure("early", "early_count"),
    ]);
    all
}

/// What the table shows.
pub(super) fn conclude(rated: &[Rated<'_>]) -> Conclusion {
    let wakes = |who| {
        figure_of(
            rated.iter().map(|one| one.row),
            [who, "timers alone", "wakeups_per_op"],
        )
    };
    Conclusion::in_words(format!(
        "Beside a worker that is awake, each of 1,000 timers, half of them armed on one that sleeps, costs {} wake-ups \
         with timer_pull=on, and {} with off; tokio {}.",
        wakes("doorbell, on"),
        wakes("doorbell, off"),
        wakes("tokio"),
    ))
}

/// The chart of the page.
pub(super) fn chart() -> Chart {
    wakeups::chart(
        "Wake-ups of threads for each timer (log scale)",
        "each timer",
    )
}
