//! The columns of the scenario's table, and how to read them.

use super::super::common::figure_of;
use super::super::trial::{Conclusion, Rated};
use super::super::{late, limits};
use super::promises;
use crate::report::{Chart, Column};

/// Figures whose spread over the rounds is kept.
pub(super) const SPREADS: [[&str; 3]; 5] = [
    late::SPREADS[0],
    late::SPREADS[1],
    ["p999_us", "p999_min_us", "p999_max_us"],
    late::MAX_SPREAD,
    ["polls_per_s", "polls_min_per_s", "polls_max_per_s"],
];

/// The columns, in order.
pub(super) fn columns() -> Vec<Column> {
    let (figure, spread) = (Column::figure, Column::spread);
    let mut all = late::columns();
    all.extend([
        figure("p99.9 us", "p999_us"),
        spread("p99.9 spread", "p999_min_us", "p999_max_us"),
    ]);
    all.extend(late::max());
    all.extend(late::ratio("x bare"));
    all.extend([
        figure("runs", "operations_count"),
        figure("polls/s", "polls_per_s"),
        spread("polls spread", "polls_min_per_s", "polls_max_per_s"),
    ]);
    all
}

/// One sentence for each group of columns. Also part of the help.
pub(super) const READING: [&str; 12] = [
    "p50, p99, p99.9, max: in half of the runs, 99 of 100, 999 of 1,000, and all, the urgent task ran \
     at most this long after it was woken, or after its timer was due; medians over the rounds, and \
     the minimum and maximum.",
    "from a thread: an outside thread wakes the urgent task. From another core: an equally urgent \
     task or thread on the other CPU wakes it. By a timer: its own sleep ends. By a call: an outside \
     thread has a closure run on a core, without waiting for its end; rows that name no core spawn a \
     task instead.",
    "on a core: doorbell's urgent task stays on the core of the second CPU, like the bare thread; \
     compare these two. `class Rt` and `Fair beside Batch` name no core, like tokio's tasks: doorbell \
     chooses one; compare these with tokio. Another core can wake only a task that stays on its core.",
    "x bare: p99 divided by that of a bare thread in the same round: under SCHED_FIFO where that is \
     allowed, else with the shortest slice there is. Beside Batch: a thread with default settings \
     beside jobs under SCHED_IDLE.",
    "polls/s: how many polls of 10 ms the 64 jobs did per second, on both CPUs together. Each is the \
     same amount of work, so time taken from the jobs shows.",
    "runs: how often the urgent task ran in a pass. It is woken a thousand times a second, but not \
     again before it has run. The last wake of a pass is awaited; a wake that leads to no run ends \
     the lab with an error.",
    "Fair beside Batch: the urgent task is an ordinary task, and the jobs are of the class that runs \
     only on otherwise idle CPUs. tokio's counterpart is `jobs on SCHED_IDLE threads, from a thread`.",
    "jobs in spawn_blocking: two at a time, each poll a closure. jobs on SCHED_IDLE threads: each \
     poll is a closure for one of two threads, one on each CPU, which the OS runs only on otherwise \
     idle CPUs; a program needs about 30 lines for that.",
    "goal: p99 at most 1.5 times that of a SCHED_FIFO thread; without that privilege at most twice \
     that of a thread with the shortest slice, and p99.9 at most 1 ms; beside Batch p99 at most 100 \
     us; and at least 0.97 times the jobs' polls of tokio's tasks, or beside Batch of its SCHED_IDLE \
     threads.",
    "tokio's timers have a resolution of 1 ms.",
    "Every round counts: no round is dropped, since no physical limit exists here to judge it by.",
    late::ENOUGH,
];

/// What the table shows.
pub(super) fn conclude(rated: &[Rated<'_>]) -> Conclusion {
    let figure = |who, how, metric| figure_of(rated.iter().map(|one| one.row), [who, how, metric]);
    let us = |who, how| {
        let [half, most] = ["p50_us", "p99_us"].map(|metric| figure(who, how, metric));
        format!("{half} us (99 of 100 {most})")
    };
    let mut conclusion = Conclusion::in_words(format!(
        "Woken from a thread while every core is inside polls of 10 ms, half of the urgent tasks run within \
         {} with doorbell, {} with tokio, and {} if tokio's jobs compute on threads under SCHED_IDLE; \
         doorbell's ordinary tasks beside Batch within {}.",
        us("doorbell", "class Rt, from a thread"),
        us("tokio", "tasks, from a thread"),
        us("tokio", "jobs on SCHED_IDLE threads, from a thread"),
        us("doorbell", "Fair beside Batch, from a thread"),
    ));
    conclusion.side_tables = limits::table(&promises::of(rated));
    conclusion
}

/// The conclusion from the table of threads.
pub(super) fn conclude_slices(rated: &[Rated<'_>]) -> Conclusion {
    let us = |how| {
        let row = ["bare thread", how, "p99_us"];
        figure_of(rated.iter().map(|one| one.row), row)
    };
    Conclusion::in_words(format!(
        "A thread that is woken beside one that computes runs, 99 times of 100, within {} us if both \
         asked for nothing, {} with a 100 us slice against 20 ms, {} against nice 10.",
        us("plain beside plain, from a thread"),
        us("100 us beside 20 ms slice, from a thread"),
        us("plain beside nice 10, from a thread"),
    ))
}

/// The chart of the page.
pub(super) fn chart() -> Chart {
    late::chart("How late urgent work runs while every core computes, µs (log scale)")
}
