//! Table and chart of the scenarios that count which timers wake threads.

use crate::report::{Chart, Column, Series};

/// Figures whose spread over the rounds is kept.
pub(crate) const SPREADS: [[&str; 3]; 2] = [
    ["wakeups_per_op", "wakeups_min_per_op", "wakeups_max_per_op"],
    ["cpu_percent", "cpu_min_percent", "cpu_max_percent"],
];

/// The first columns: the wake-ups of each timer or tick, their ratio to the baseline, CPU time and lateness. The first
/// two have these titles.
pub(crate) fn columns(wakeups: &'static str, ratio: &'static str) -> Vec<Column> {
    let figure = Column::figure;
    let spread = Column::spread;
    vec![
        figure(wakeups, "wakeups_per_op"),
        spread(
            "wake-ups spread",
            "wakeups_min_per_op",
            "wakeups_max_per_op",
        ),
        figure(ratio, "ratio_x"),
        spread("x spread", "ratio_min_x", "ratio_max_x"),
        figure("CPU %", "cpu_percent"),
        spread("CPU spread", "cpu_min_percent", "cpu_max_percent"),
        figure("p50 us", "p50_us"),
        figure("p99 us", "p99_us"),
    ]
}

/// The chart of the page: the wake-ups of each timer or tick.
pub(crate) fn chart(title: &'static str, each: &'static str) -> Chart {
    Chart {
        title,
        unit: "",
        series: vec![Series {
            title: each,
            metric: "wakeups_per_op",
            low: "wakeups_min_per_op",
            high: "wakeups_max_per_op",
        }],
    }
}
