//! The columns of the scenario's table, and how to read them.

use super::super::common::figure_of;
use super::super::late;
use super::super::timers::wakeups;
use super::super::trial::{Conclusion, Rated};
use crate::report::{Chart, Column};

/// The columns, in order.
pub(super) fn columns() -> Vec<Column> {
    let mut all = wakeups::columns("wake-ups/tick", "x tokio");
    all.extend([
        Column::figure("syscalls/1k", "syscalls_per_1k"),
        Column::figure("ticks", "operations_count"),
        Column::figure("early", "early_count"),
    ]);
    all
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
    wakeups::chart("Wake-ups of threads for each tick (log scale)", "each tick")
}
