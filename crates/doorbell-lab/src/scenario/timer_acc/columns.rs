//! What the table of the scenario shows, and how to read it.

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
     deadline; medians over the rounds, and the least and the greatest round.",
    "x threads: p50 divided by that of threads which sleep in the kernel, in the same round; \
     compare contestants by this.",
    "slack: the kernel may delay a sleep by 50 us unless its thread asks for less. Doorbell's workers ask \
     for 1 ns, so the threads of all contestants do; one row has threads that ask for nothing.",
    "pinned tasks: each stays on a core, half of them on each. In the other rows the runtime chooses the \
     core, as tokio always does.",
    "CPU %: the time that all threads of the process ran, 100 for one CPU; what spins before it \
     parks runs too.",
    "syscalls: per 1,000 sleeps of the whole process, from a pass of its own in the first round; \
     async-io's own thread is left out, as it lives as long as the program.",
    "early: sleeps that ended before their deadline; there must be none.",
    "Every round counts: none is dropped, since there is no physical limit here to judge a round by.",
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

/// The picture of the page.
pub(super) fn chart() -> Chart {
    late::chart("Lateness of sleeps of 1 to 50 ms, µs (log scale)")
}
