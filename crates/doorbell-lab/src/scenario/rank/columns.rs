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

/// One sentence for each group of columns. Also part of the help.
pub(super) const READING: [&str; 8] = [
    "A turn: a task of rank 50 on core 0 wakes the task of rank 99 and computes for 600 us in the same poll. The \
     task of rank 99 may run on both cores. The times are from its wake until it runs.",
    "other idle: core 1 has nothing to do. Other at rank 1: it runs a task of rank 1 in polls of 5 us, which began \
     300 us earlier and ends with the turn.",
    "p50, p99, max: half of the waits, 99 of 100, and all were at most this long; medians over the rounds, and the \
     minimum and maximum. A wait of about 600 us is one for the end of the poll.",
    "moved: turns in which the task ran on another CPU than the one on which it was woken. rings: doorbell's wake \
     syscalls in a turn, which include those for timers and for the task of rank 1.",
    "SCHED_FIFO threads: a thread for each task, whose real-time priority grows with its rank. The kernel preempts \
     the thread of rank 50 in the middle of its work, which no runtime does between its own tasks. Without that \
     privilege these rows are left out.",
    "x FIFO: p99 divided by that of the SCHED_FIFO threads in the same round.",
    "tokio knows no ranks, and no peer does: its three tasks are equal, and it places them itself. Its worker keeps \
     the task that it woke last to itself.",
    late::ENOUGH,
];

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
