//! The columns of the scenario's table, and how to read them.

use super::super::common::figure_of;
use super::super::late;
use super::super::trial::{Conclusion, Rated};
use crate::report::{Chart, Column};

/// Figures whose spread over the rounds is kept.
pub(super) const SPREADS: [[&str; 3]; 3] = [
    late::SPREADS[0],
    late::SPREADS[1],
    ["cpu_percent", "cpu_min_percent", "cpu_max_percent"],
];

/// The columns, in order.
pub(super) fn columns() -> Vec<Column> {
    let mut all = late::columns();
    all.push(Column::figure("max us", "max_us"));
    all.extend(late::ratio("x threads"));
    all.extend([
        Column::figure("CPU %", "cpu_percent"),
        Column::spread("CPU spread", "cpu_min_percent", "cpu_max_percent"),
        Column::figure("syscalls/1k", "syscalls_per_1k"),
        Column::figure("early", "early_count"),
    ]);
    all
}

/// One sentence for each group of columns. Also part of the help.
pub(super) const READING: [&str; 9] = [
    "p50, p99, max: half of the sleeps, 99 of 100, and all ended at most this long after their \
     deadline; medians over the rounds, and the minimum and maximum.",
    "x threads: p50 divided by that of threads that sleep in the kernel, in the same round. Compare \
     contestants by this.",
    "slack: the kernel may delay a sleep by 50 us unless its thread sets a smaller slack. Doorbell's \
     workers set 1 ns, so the threads of all contestants do, except those of one row, which keep the \
     default.",
    "pinned tasks: each stays on a core, half of them on each. In the other rows the runtime chooses \
     the core, as tokio always does.",
    "CPU %: CPU time of all threads of the process, 100 for one CPU. It includes spinning before a \
     park.",
    "syscalls: of the whole process per 1,000 sleeps, counted in a separate pass in the first round. \
     async-io's own thread is left out, as it lives as long as the program.",
    "early: sleeps that ended before their deadline; there must be none.",
    "Every round counts: no round is dropped, since no physical limit exists here to judge it by.",
    late::ENOUGH,
];

/// What the table shows.
pub(super) fn conclude(rated: &[Rated<'_>]) -> Conclusion {
    let us = |who, how| figure_of(rated.iter().map(|one| one.row), [who, how, "p50_us"]);
    Conclusion::in_words(format!(
        "Half of all sleeps end at most {} us late with doorbell and {} with tokio; threads that \
         sleep in the kernel {}.",
        us("doorbell", "slack 0"),
        us("tokio", "400 tasks"),
        us("OS threads", "400 threads, slack 1 ns"),
    ))
}

/// The chart of the page.
pub(super) fn chart() -> Chart {
    late::chart("Lateness of sleeps of 1 to 50 ms, µs (log scale)")
}
