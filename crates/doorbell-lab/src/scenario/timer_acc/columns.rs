//! What the table of the scenario shows, and how to read it.

use super::super::common::figure_of;
use super::super::trial::{Conclusion, Rated};
use crate::report::{Chart, Column, Series};

/// Figures whose spread over the rounds is kept.
pub(super) const SPREADS: [[&str; 3]; 3] = [
    ["p50_us", "p50_min_us", "p50_max_us"],
    ["p99_us", "p99_min_us", "p99_max_us"],
    ["cpu_percent", "cpu_min_percent", "cpu_max_percent"],
];

/// The columns, in order.
pub(super) fn columns() -> Vec<Column> {
    let figure = Column::figure;
    let spread = Column::spread;
    vec![
        figure("p50 us", "p50_us"),
        spread("p50 spread", "p50_min_us", "p50_max_us"),
        figure("p99 us", "p99_us"),
        spread("p99 spread", "p99_min_us", "p99_max_us"),
        figure("max us", "max_us"),
        figure("x threads", "ratio_x"),
        spread("x spread", "ratio_min_x", "ratio_max_x"),
        figure("CPU %", "cpu_percent"),
        spread("CPU spread", "cpu_min_percent", "cpu_max_percent"),
        figure("syscalls/1k", "syscalls_per_1k"),
        figure("early", "early_count"),
    ]
}

/// One sentence for each group of columns. Also part of the help.
pub(super) const READING: [&str; 6] = [
    "p50, p99, max: half of the sleeps, 99 of 100, and all ended at most this long after their \
     deadline; medians over the rounds, and the least and the greatest round.",
    "x threads: p50 divided by that of threads which sleep in the kernel, in the same round; \
     compare contestants by this.",
    "CPU %: the time that all threads of the process ran, 100 for one CPU; what watches before it \
     parks runs too.",
    "syscalls: per 1,000 sleeps of the whole process, from a pass of its own in the first round; \
     async-io's own thread is left out, as it lives as long as the program.",
    "early: sleeps that ended before their deadline; there must be none.",
    "Every round counts: there is no physical limit here by which one could be dropped.",
];

/// What the table shows.
pub(super) fn conclude(rated: &[Rated<'_>]) -> Conclusion {
    let us = |who, how| figure_of(rated.iter().map(|one| one.row), [who, how, "p50_us"]);
    Conclusion::in_words(format!(
        "Half of all sleeps end at most {} us late with doorbell and {} with tokio; threads that \
         sleep in the kernel {}.",
        us("doorbell", "slack 0"),
        us("tokio", "400 tasks"),
        us("OS threads", "400 threads, nanosleep"),
    ))
}

/// The picture of the page.
pub(super) fn chart() -> Chart {
    Chart {
        title: "Lateness of sleeps of 1 to 50 ms, µs (log scale)",
        unit: "µs",
        series: vec![
            Series {
                title: "p50",
                metric: "p50_us",
                low: "p50_min_us",
                high: "p50_max_us",
            },
            Series {
                title: "p99",
                metric: "p99_us",
                low: "p99_min_us",
                high: "p99_max_us",
            },
        ],
    }
}
