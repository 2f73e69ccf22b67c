//! The columns of the scenario's table, and how to read them.

use super::super::common::figure_of;
use super::super::late;
use super::super::trial::{Conclusion, Rated};
use crate::report::{Chart, Column, Series};

/// Figures whose spread over the rounds is kept.
pub(super) const SPREADS: [[&str; 3]; 2] = [
    ["wakeups_per_op", "wakeups_min_per_op", "wakeups_max_per_op"],
    ["cpu_percent", "cpu_min_percent", "cpu_max_percent"],
];

/// The columns, in order.
pub(super) fn columns() -> Vec<Column> {
    let figure = Column::figure;
    let spread = Column::spread;
    vec![
        figure("wake-ups/tick", "wakeups_per_op"),
        spread(
            "wake-ups spread",
            "wakeups_min_per_op",
            "wakeups_max_per_op",
        ),
        figure("x tokio", "ratio_x"),
        spread("x spread", "ratio_min_x", "ratio_max_x"),
        figure("CPU %", "cpu_percent"),
        spread("CPU spread", "cpu_min_percent", "cpu_max_percent"),
        figure("p50 us", "p50_us"),
        figure("p99 us", "p99_us"),
        figure("syscalls/1k", "syscalls_per_1k"),
        figure("ticks", "operations_count"),
        figure("early", "early_count"),
    ]
}

/// One sentence for each group of columns. Also part of the help.
pub(super) const READING: [&str; 9] = [
    "wake-ups/tick: how often a thread of the process went to sleep, and so was woken, per tick of a \
     timer. Below 1, ticks share wake-ups or find their thread awake.",
    "x tokio: wake-ups divided by those of tokio, whose timers have a resolution of 1 ms, in the same \
     round. Compare contestants by this.",
    "pinned tasks: each stays on a core, half of them on each. In the other rows the runtime chooses \
     the core, as tokio always does.",
    "CPU %: CPU time of all threads of the process, 100 for one CPU. It includes spinning before a \
     park.",
    "p50, p99: half of the ticks, and 99 of 100, came at most this long after they were due. A \
     contestant with slack is expected to use it.",
    "syscalls: of the whole process per 1,000 ticks, counted in a separate pass in the first round. \
     async-io's own thread is left out, as it lives as long as the program.",
    "ticks, early: how many ticks there were, and how many came before they were due; there must be \
     none of the latter.",
    "Every round counts: no round is dropped, since no physical limit exists here to judge it by.",
    late::ENOUGH,
];

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
    Chart {
        title: "Wake-ups of threads for each tick (log scale)",
        unit: "",
        series: vec![Series {
            title: "each tick",
            metric: "wakeups_per_op",
            low: "wakeups_min_per_op",
            high: "wakeups_max_per_op",
        }],
    }
}
