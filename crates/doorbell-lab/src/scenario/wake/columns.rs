//! The columns of the scenario's table, and how to read them.

use super::super::common::figure_of;
use super::super::hosts::{Doorbell, Host as _};
use super::super::late;
use super::super::trial::{Conclusion, Rated};
use super::{VARIANTS, Variant};
use crate::report::{Chart, Column};

/// Figures whose spread over the rounds is kept.
pub(super) const SPREADS: [[&str; 3]; 5] = [
    late::SPREADS[0],
    late::SPREADS[1],
    ["p995_us", "p995_min_us", "p995_max_us"],
    late::MAX_SPREAD,
    ["cpu_us_per_op", "cpu_min_us_per_op", "cpu_max_us_per_op"],
];

/// The columns, in order.
pub(super) fn columns() -> Vec<Column> {
    let (figure, spread) = (Column::figure, Column::spread);
    let mut all = vec![
        figure("p50 us", "p50_us"),
        figure("p99 us", "p99_us"),
        spread("p99 spread", "p99_min_us", "p99_max_us"),
        figure("p99.5 us", "p995_us"),
        figure("max us", "max_us"),
    ];
    all.extend(late::ratio("x tokio"));
    all.extend([
        figure("skipped", "skipped_count"),
        figure("stacked/1k", "stacked_per_1k"),
        figure("CPU us/wake", "cpu_us_per_op"),
        figure("sleeps/wake", "wakeups_per_op"),
        figure("rings/wake", "rings_per_op"),
        figure("lost/1k", "claims_lost_per_1k"),
    ]);
    all
}

/// One sentence for each group of columns. Also part of the help.
pub(super) const READING: [&str; 13] = [
    "p50, p99, p99.5, max: half of the wakes, 99 of 100, 995 of 1,000, and all led to a run at most \
     this long after; medians over the rounds, and the minimum and maximum.",
    late::ENOUGH,
    "light: 8 messengers wake 4 workers each every 4 ms, and each worker computes for 30 us: an \
     eighth of two CPUs. moderate: 16 workers each, half of two CPUs. Messengers start at random \
     times that are the same for all contestants.",
    "A messenger wakes its workers one right after another. Where two CPUs serve them, the last of 4 \
     waits for at least 30 us and the last of 16 for 210 us, with any contestant.",
    "by threads: messengers are OS threads, which sleep alike for all runtimes; otherwise they are of \
     the workers' kind. tokio's timers have a resolution of 1 ms: of 8 messengers that are its tasks, \
     two or more wake at the same time, and their workers wait for each other. To compare wakes \
     alone, use the rows by threads.",
    "pinned: the threads that run workers are bound to two CPUs, one on each, or half of all OS \
     threads on each. unpinned: they run where the OS puts them, which may be the same CPU for both.",
    "spinning pool: two threads that never sleep, poll for due wakes and share one queue: the best \
     result at the price of two CPUs. OS threads: one for each messenger and each worker, as in \
     schbench.",
    "x tokio: p99 divided by that of tokio in the same round.",
    "CPU us/wake: CPU time of the whole process per wake; the work takes 30 of it. sleeps/wake: how \
     often a thread left its CPU to wait, per wake.",
    "skipped: wakes that were not made because the worker was still busy with the last one. A lost \
     wake, or a worker that is polled twice for one wake, ends the run with an error.",
    "stacked: doorbell's tasks, per 1,000 wakes, that were left behind another one at a worker that their waker had \
     chosen as idle. lost: tasks that went to another worker because another waker had won the one chosen first. \
     rings/wake: doorbell's wake syscalls.",
    "idle_claim: settings of doorbell's switch, with the messengers and workers of `by threads, unpinned`. on: one \
     waker wins an idle worker. off: a waker only looks, so two may choose the same one; another worker steals the \
     second task. mark: the kernel patch's flag, which leaves a race. base: as off, but without that stealing.",
    "Timer slack: all threads that take part set 1 ns, as doorbell's workers do; the default of \
     threads is 50 us.",
];

/// What the table shows.
pub(super) fn conclude(rated: &[Rated<'_>]) -> Conclusion {
    let [_, light, _, by_threads, ..] = VARIANTS;
    let us = |who, how: Variant| {
        let row = [who, how.name, "p99_us"];
        figure_of(rated.iter().map(|one| one.row), row)
    };
    let both = |who| format!("{} and {} us", us(who, light), us(who, by_threads));
    let settings = super::settings(by_threads).into_iter();
    let stacked = settings.map(|(_, name)| {
        let row = [Doorbell::NAME, name, "stacked_per_1k"];
        figure_of(rated.iter().map(|one| one.row), row)
    });
    let stacked: Vec<_> = stacked.collect();
    Conclusion::in_words(format!(
        "At light load, 99 of 100 workers that a task and that an OS thread wakes run within {} with doorbell, \
         {} with tokio and {} with smol; as OS threads within {} us. Nothing is pinned. With idle_claim=on, off, \
         mark and base {} of 1,000 wakes by threads are stacked.",
        both("doorbell"),
        both("tokio"),
        both("smol"),
        us("OS threads", light),
        stacked.join(", "),
    ))
}

/// The chart of the page.
pub(super) fn chart() -> Chart {
    late::chart("From a wake until the worker runs, µs (log scale)")
}
