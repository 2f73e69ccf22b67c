//! The columns of the scenario's table, and how to read them.

use super::super::common::figure_of;
use super::super::late;
use super::super::trial::{Conclusion, Rated};
use super::{BUSY, IDLE};
use crate::report::{Chart, Column};

/// Figures whose spread over the rounds is kept.
pub(super) const SPREADS: [[&str; 3]; 3] = [late::SPREADS[0], late::SPREADS[1], late::MAX_SPREAD];

/// The columns, in order.
pub(super) fn columns() -> Vec<Column> {
    let figure = Column::figure;
    let mut all = late::columns();
    all.extend(late::max());
    all.extend(late::ratio("x FIFO"));
    all.extend([
        figure("moved %", "moved_percent"),
        figure("rings/turn", "rings_per_op"),
        figure("turns", "operations_count"),
        figure("CPU %", "cpu_percent"),
    ]);
    all
}

/// What the table shows.
pub(super) fn conclude(rated: &[Rated<'_>]) -> Conclusion {
    let us = |who| {
        let of = |how, metric| figure_of(rated.iter().map(|one| one.row), [who, how, metric]);
        let both = |how| format!("{} us ({})", of(how, "p50_us"), of(how, "p99_us"));
        format!("{} and {}", both(IDLE), both(BUSY))
    };
    Conclusion::in_words(format!(
        "Woken behind a poll of 600 us of rank 50, half of the tasks of rank 99 (in brackets 99 of 100) run within \
         {} with doorbell, where the other core is idle and where it runs rank 1; within {} with tokio, which has \
         no ranks.",
        us("doorbell"),
        us("tokio"),
    ))
}

/// The chart of the page.
pub(super) fn chart() -> Chart {
    late::chart("How long a task of rank 99 waits behind a poll of rank 50, µs (log scale)")
}
