//! The columns of the scenario's table, and how to read them.

use super::super::common::figure_of;
use super::super::trial::{Conclusion, Rated};
use crate::report::{Chart, Column, Series};

/// Figures whose spread over the rounds is kept.
pub(super) const SPREADS: [[&str; 3]; 2] = [
    [
        "idle_switches_count",
        "idle_switches_min_count",
        "idle_switches_max_count",
    ],
    [
        "idle_cpu_percent",
        "idle_cpu_min_percent",
        "idle_cpu_max_percent",
    ],
];

/// The columns, in order.
pub(super) fn columns() -> Vec<Column> {
    let figure = Column::figure;
    let spread = Column::spread;
    vec![
        figure("ctx", "idle_switches_count"),
        spread(
            "ctx spread",
            "idle_switches_min_count",
            "idle_switches_max_count",
        ),
        figure("involuntary", "idle_involuntary_count"),
        figure("CPU %", "idle_cpu_percent"),
        spread("CPU spread", "idle_cpu_min_percent", "idle_cpu_max_percent"),
        figure("syscalls", "idle_syscalls_count"),
        figure("threads", "threads_count"),
        figure("idle s", "idle_span_s"),
    ]
}

/// What the table shows.
pub(super) fn conclude(rated: &[Rated<'_>]) -> Conclusion {
    let of = |who, metric| {
        figure_of(
            rated.iter().map(|one| one.row),
            [who, super::VARIANT, metric],
        )
    };
    Conclusion::in_words(format!(
        "With nothing to do for {} s, doorbell's threads are switched {} times and use {} % of a \
         CPU; tokio's {} times and {} %.",
        of("doorbell", "idle_span_s"),
        of("doorbell", "idle_switches_count"),
        of("doorbell", "idle_cpu_percent"),
        of("tokio", "idle_switches_count"),
        of("tokio", "idle_cpu_percent"),
    ))
}

/// The chart of the page.
pub(super) fn chart() -> Chart {
    Chart {
        title: "Context switches with nothing to do",
        unit: "",
        series: vec![Series {
            title: "switches",
            metric: "idle_switches_count",
            low: "idle_switches_min_count",
            high: "idle_switches_max_count",
        }],
    }
}
