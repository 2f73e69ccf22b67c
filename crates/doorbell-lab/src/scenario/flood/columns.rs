//! The columns of the scenario's table, and how to read them.

use super::super::common::figure_of;
use super::super::trial::{Conclusion, Rated};
use super::targets::{Calls, Doorbell, Posts, Target, Tasks, TokioChannel, TokioTasks};
use crate::report::{Chart, Column, Series};

/// Figures whose spread over the rounds is kept.
pub(super) const SPREADS: [[&str; 3]; 1] = [["mops_per_s", "mops_min_per_s", "mops_max_per_s"]];

/// The group of contestants with this many producers, which are compared with each other.
pub(super) fn group(producers: usize) -> String {
    let plural = if producers == 1 { "" } else { "s" };
    format!("{producers} producer{plural}")
}

/// The columns, in order.
pub(super) fn columns() -> Vec<Column> {
    let figure = Column::figure;
    let spread = Column::spread;
    vec![
        figure("M ops/s", "mops_per_s"),
        spread("spread", "mops_min_per_s", "mops_max_per_s"),
        figure("x limit", "ratio_x"),
        spread("x spread", "ratio_min_x", "ratio_max_x"),
        figure("RES+CAL/1M", "interrupts_per_1m"),
        figure("syscalls/1M", "syscalls_per_1m"),
        figure("ctx/1k", "switches_per_1k"),
    ]
}

/// One sentence for each group of columns. Also part of the help.
pub(super) const READING: [&str; 7] = [
    "M ops/s: millions of posts per second, from the first post until the last one is done; the \
     median over the rounds, and the minimum and maximum. A pass has 1.5 million posts, so 7 rounds \
     have 10.5 million per row.",
    "x limit: divided by the rings with the same number of producers in the same round. There each \
     producer writes a ring buffer of its own, so a post is two stores without allocation. The \
     consumer polls all ring buffers and is never woken.",
    "RES+CAL, syscalls: interrupts between CPUs and system calls of the whole process per million \
     posts; 0 means that no thread was disturbed. System calls are counted in a separate pass in the \
     first round. Both include starting a producer and reporting its end.",
    "The consumer has a CPU of its own; the producers share the others. With two CPUs they take turns \
     on one.",
    "What is posted: post_on posts a closure, in memory that the poster gets back and reuses. A call \
     is a closure and a task a future, each with an allocation. Channels carry a number.",
    "No producer is more than 10,000 posts ahead of the consumer. It checks this every 1,000 posts, \
     and spins if it has to wait.",
    "Every round counts: the limit here is a contestant like the others.",
];

/// What the table shows.
pub(super) fn conclude(rated: &[Rated<'_>]) -> Conclusion {
    let rates = |who, what| {
        let of = |producers| {
            let variant = format!("{what}, {}", group(producers));
            figure_of(
                rated.iter().map(|one| one.row),
                [who, &variant, "mops_per_s"],
            )
        };
        format!("{} and {}", of(1), of(32))
    };
    Conclusion::in_words(format!(
        "From 1 and from 32 threads, millions a second: doorbell takes {} posts, {} calls and {} \
         tasks, tokio {} messages and {} tasks.",
        rates(Doorbell::<Posts>::NAME, Doorbell::<Posts>::WHAT),
        rates(Doorbell::<Calls>::NAME, Doorbell::<Calls>::WHAT),
        rates(Doorbell::<Tasks>::NAME, Doorbell::<Tasks>::WHAT),
        rates(TokioChannel::NAME, TokioChannel::WHAT),
        rates(TokioTasks::NAME, TokioTasks::WHAT),
    ))
}

/// The chart of the page.
pub(super) fn chart() -> Chart {
    Chart {
        title: "Posts to one core, millions a second (log scale)",
        unit: "M/s",
        series: vec![Series {
            title: "M ops/s",
            metric: "mops_per_s",
            low: "mops_min_per_s",
            high: "mops_max_per_s",
        }],
    }
}
