//! The columns of the scenario's table, and how to read them.

use super::super::common::figure_of;
use super::super::late;
use super::super::timers::wakeups;
use super::super::trial::{Conclusion, Rated};
use crate::report::{Chart, Column};

/// The columns, in order.
pub(super) fn columns() -> Vec<Column> {
    let mut all = wakeups::columns("wake-ups/timer", "x off");
    all.extend([
        Column::figure("RES+CAL/1k", "interrupts_per_1k"),
        Column::figure("timers", "operations_count"),
        Column::figure("early", "early_count"),
    ]);
    all
}

/// One sentence for each group of columns. Also part of the help.
pub(super) const READING: [&str; 9] = [
    "1,000 timers are due at random within 1 s, on two workers, either of which may fire them. Then one worker has a task \
     that computes for 2 us in each poll, and the other has nothing.",
    "timers alone: half of them were armed on each worker, and no task waits for them; their wakers note how late they \
     are. a task each: each timer has a task, which any worker may run; then a worker is also woken for tasks that wait.",
    "off, on, base: the setting of doorbell's switch timer_pull.",
    "wake-ups/timer: how often a thread of the process went to sleep, and so was woken, per timer, whatever woke it: a \
     time, a ring, another thread. The awake worker does not sleep. Some come from the threads that begin and end the \
     pass. With --sim the column wakes has the sleeping workers alone, and only what a time ended.",
    "x off: wake-ups divided by those of doorbell with timer_pull=off in the same round.",
    "CPU %: CPU time of all threads of the process, 100 for one CPU. The awake worker takes 100.",
    "RES+CAL: interrupts between CPUs per 1,000 timers, beyond those of the machine without load. A wake of a sleeping \
     CPU may be one, and so is a membarrier.",
    "p50, p99: half of the timers, and 99 of 100, fired (or their tasks ran) at most this long after they were due. \
     early: fired before they were due; there must be none. Every round counts.",
    late::ENOUGH,
];

/// What the table shows.
pub(super) fn conclude(rated: &[Rated<'_>]) -> Conclusion {
    let wakes = |who| {
        figure_of(
            rated.iter().map(|one| one.row),
            [who, "timers alone", "wakeups_per_op"],
        )
    };
    Conclusion::in_words(format!(
        "Beside a worker that is awake, each of 1,000 timers, half of them armed on one that sleeps, costs {} wake-ups \
         with timer_pull=on, and {} with off; tokio {}.",
        wakes("doorbell, on"),
        wakes("doorbell, off"),
        wakes("tokio"),
    ))
}

/// The chart of the page.
pub(super) fn chart() -> Chart {
    wakeups::chart(
        "Wake-ups of threads for each timer (log scale)",
        "each timer",
    )
}
