//! The columns of the scenario's table, and how to read them.

use super::super::common::figure_of;
use super::super::trial::{Conclusion, Rated};
use crate::report::{Chart, Column, Series};

/// Figures whose spread over the rounds is kept.
pub(super) const SPREADS: [[&str; 3]; 1] = [["op_ns", "op_min_ns", "op_max_ns"]];

/// The columns, in order.
pub(super) fn columns() -> Vec<Column> {
    let figure = Column::figure;
    let spread = Column::spread;
    vec![
        figure("ns", "op_ns"),
        spread("ns spread", "op_min_ns", "op_max_ns"),
        figure("x floor", "ratio_x"),
        spread("x spread", "ratio_min_x", "ratio_max_x"),
        figure("syscalls/1k", "syscalls_per_1k"),
        figure("RES+CAL/1k", "interrupts_per_1k"),
    ]
}

/// One sentence for each group of columns. Also part of the help.
pub(super) const READING: [&str; 8] = [
    "ns: the time to create a sleep, poll it once and drop it, 10 s before it is due; the mean of a \
     pass, the median over the rounds, and the minimum and maximum. A runtime's sleep reads the \
     clock; the cost of that alone is in the rows `the clock alone`.",
    "x floor: divided by the array wheel of the same variant in the same round, which keeps lists for \
     one thread, reads no clock and wakes no thread. The clock is divided by std's.",
    "variants: one by one, beside a sleep that is due earlier; 1,000 at once, then all are dropped; \
     each 1 ms earlier than all before; beside many that are pending; and two tasks, one on each \
     core, that start together.",
    "doorbell's tasks are put on a core: on the one with the pending sleeps, or one on each if there \
     are two. In rows `unpinned` the runtime chooses the core, as tokio does, which cannot put a task \
     on a core. async-io's tasks are two threads, one bound to each CPU.",
    "pull on, base: doorbell with those settings of the switch timer_pull. With base a worker without other \
     work arms a timer on another worker that seems awake, by mail. The mail keeps that worker awake.",
    "syscalls: of the whole process per 1,000 operations, counted in a separate pass in the first \
     round. async-io's own thread is left out, as it lives as long as the program.",
    "RES+CAL: interrupts between CPUs per 1,000 operations; 0 means that no thread was disturbed.",
    "Every round counts: no round is dropped, since no physical limit exists here to judge it by.",
];

/// What the table shows.
pub(super) fn conclude(rated: &[Rated<'_>]) -> Conclusion {
    let ns = |who, how| {
        let row = [who, how, "op_ns"];
        figure_of(rated.iter().map(|one| one.row), row)
    };
    Conclusion::in_words(format!(
        "A timeout that never fires costs {} ns with doorbell ({} if the runtime chooses the core), {} with tokio \
         and {} with async-io, created, polled and dropped one by one.",
        ns("doorbell", "one by one"),
        ns("doorbell", "one by one, unpinned"),
        ns("tokio", "one by one"),
        ns("async-io", "one by one"),
    ))
}

/// The chart of the page.
pub(super) fn chart() -> Chart {
    Chart {
        title: "A sleep created, polled and dropped, ns (log scale)",
        unit: "ns",
        series: vec![Series {
            title: "ns",
            metric: "op_ns",
            low: "op_min_ns",
            high: "op_max_ns",
        }],
    }
}
