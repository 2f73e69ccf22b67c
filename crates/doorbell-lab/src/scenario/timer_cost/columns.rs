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
