//! The columns of the scenario's table, and how to read them.

use super::super::common::figure_of;
use super::super::late::{self, ratio};
use super::super::limits;
use super::super::trial::{Conclusion, Rated};
use super::{goals, lone};
use crate::report::{Chart, Column};

/// The variants that the summary sentence mentions.
const SAID: [&str; 3] = [
    "2 cores, 4 tasks, 1 ms: socket",
    "2 cores, 4 tasks, 1 ms: sleep",
    "2 cores, 4 tasks, 1 ms: spawn",
];

const SERVED: &str = "service, 10 x 1 ms: new";

/// Figures whose spread over the rounds is kept.
pub(super) const SPREADS: [[&str; 3]; 4] = [
    late::SPREADS[0],
    late::SPREADS[1],
    late::MAX_SPREAD,
    ["computed_per_s", "computed_min_per_s", "computed_max_per_s"],
];

/// The columns, in order.
pub(super) fn columns() -> Vec<Column> {
    let mut all = late::columns();
    all.push(Column::figure("max us", "max_us"));
    all.extend(ratio("x tokio"));
    all.extend([
        Column::figure("computed/s", "computed_per_s"),
        Column::spread("spread", "computed_min_per_s", "computed_max_per_s"),
        Column::figure("yields", "yields_count"),
        Column::figure("most", "yields_max_count"),
    ]);
    all
}

/// One sentence for each group of columns. Also part of the help.
pub(super) const READING: [&str; 11] = [
    "1 core, 4 tasks, 100 us: on 1 worker 4 tasks compute and yield for ever, 100 us in each poll. Beside \
     them, socket: a task reads what a thread writes to a socket every 2 to 6 ms, from write to read; \
     sleep: a task sleeps for 5 ms again and again, how late it goes on; spawn: a thread spawns a task \
     every 2 to 6 ms, until it runs. All three are measured in the same pass.",
    "service, 10 x 1 ms: a server of `lab http` with two workers in a process of its own, without classes; 8 \
     connections request computations of 10 slices of 1 ms all the time, and the handler yields between two \
     slices. Beside them a request for /healthz is due every 5 ms on connections that are kept, and every 5 \
     ms on a new one; the times count from when it was due.",
    "socket beside a lone task: on 1 worker one task only yields, writes to a socket now and \
     then, and counts its yields until another task has read it. yields, most: their median and maximum; the \
     times are from write to read.",
    "sleeps, interval: one task on 1 worker sleeps, or waits for ticks, and there is nothing else to do; \
     how late it goes on. doorbell parks as it does by default, spins for up to 5 ms, or never parks.",
    "p50, p99, max: half of the times, 99 of 100, and all were at most this long; medians over the \
     rounds, and the minimum and maximum.",
    "x tokio: p50 divided by that of tokio in the same round.",
    "computed/s: polls of the computing tasks in a second, all tasks together; of a service its answers.",
    "tokio is its multi-thread runtime with as many workers; `tokio, one a core` is a current-thread \
     runtime for each core, among which the tasks are distributed in turn. All threads run where the OS \
     puts them. The thread outside has real-time priority, or the shortest slice where that is refused.",
    "glommio is there if the program was built with the feature `glommio` and the kernel allows io_uring. It has \
     no row for spawns: no thread outside can spawn on it. Its tasks are all in one task queue without a latency, so it \
     looks at sockets and timers every 100 ms.",
    "goals of doorbell: beside tasks that compute, p50 at most 1 poll and 100 us, max at most 2 polls and \
     200 us, both at most tokio's, and 0.99 times tokio's polls; the service answers within 0.6 of tokio's p50 \
     and p99, and computes 0.98 times as much; beside a lone task a ready socket is always \
     seen within 4 yields, or at p99 within 30 us; a worker that spins or never parks is at most 3 us late \
     at the median and 30 us at p99. \
     A maximum counts with `--seconds 60`, and spinning needs a CPU of its own.",
    late::ENOUGH,
];

/// What the table shows.
pub(super) fn conclude(rated: &[Rated<'_>]) -> Conclusion {
    let figure = |who, how, metric| figure_of(rated.iter().map(|one| one.row), [who, how, metric]);
    let half = |who| SAID.map(|how| figure(who, how, "p50_us")).join(", ");
    let mut conclusion = Conclusion::in_words(format!(
        "Beside 4 tasks on 2 cores that compute 1 ms in each poll, half of the times of a socket, a sleep and a \
         spawn from outside are at most {} us with doorbell and {} with tokio; a service whose handlers yield \
         after 1 ms answers half of all new connections within {} and {} us; a ready socket beside a lone task \
         that yields is seen after {} and {} yields.",
        half(goals::OURS),
        half(goals::BASELINE),
        figure(goals::OURS, SERVED, "p50_us"),
        figure(goals::BASELINE, SERVED, "p50_us"),
        figure(goals::OURS, lone::VARIANT, "yields_count"),
        figure(goals::BASELINE, lone::VARIANT, "yields_count"),
    ));
    conclusion.side_tables = limits::table(&goals::of(rated));
    conclusion
}

/// The chart of the page.
pub(super) fn chart() -> Chart {
    late::chart("How long others wait while tasks compute, µs (log scale)")
}
