//! What the table of the scenario shows, and how to read it.

use super::super::common::figure_of;
use super::super::trial::{Conclusion, Rated};
use crate::report::{Chart, Column, Series};

/// Figures whose spread over the rounds is kept.
pub(super) const SPREADS: [[&str; 3]; 3] = [
    ["p50_us", "p50_min_us", "p50_max_us"],
    ["p99_us", "p99_min_us", "p99_max_us"],
    ["polls_per_s", "polls_min_per_s", "polls_max_per_s"],
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
        figure("p99.9 us", "p999_us"),
        figure("max us", "max_us"),
        figure("x bare", "ratio_x"),
        spread("x spread", "ratio_min_x", "ratio_max_x"),
        figure("jobs' polls/s", "polls_per_s"),
        spread("polls spread", "polls_min_per_s", "polls_max_per_s"),
        figure("runs", "operations_count"),
    ]
}

/// One sentence for each group of columns. Also part of the help.
pub(super) const READING: [&str; 6] = [
    "p50, p99, p99.9, max: half of the times, 99 of 100, 999 of 1,000, and always, the urgent one ran \
     at most this long after it was woken, or after its timer was due; medians over the rounds, and \
     the least and the greatest round.",
    "x bare: p99 divided by that of a thread of its own, in the same round: under SCHED_FIFO where \
     that is allowed, else with the shortest slice there is.",
    "jobs' polls/s: how many polls of 10 ms the 64 jobs did in a second, on both CPUs together; each is \
     the same amount of work, so what is taken from them shows.",
    "runs: how often the urgent one ran in a pass. It is woken a thousand times a second, but not again \
     before it has run.",
    "tokio's timers are as coarse as 1 ms.",
    "Every round counts: there is no physical limit here by which one could be dropped.",
];

/// What the table shows.
pub(super) fn conclude(rated: &[Rated<'_>]) -> Conclusion {
    let us = |who, how| figure_of(rated.iter().map(|one| one.row), [who, how, "p99_us"]);
    Conclusion::in_words(format!(
        "Woken from a thread while every core is inside polls of 10 ms, 99 of 100 urgent tasks run \
         within {} us with doorbell, within {} with tokio.",
        us("doorbell", "class Rt, from a thread"),
        us("tokio", "tasks, from a thread"),
    ))
}

/// The picture of the page.
pub(super) fn chart() -> Chart {
    Chart {
        title: "How late urgent work runs while every core computes, µs (log scale)",
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
