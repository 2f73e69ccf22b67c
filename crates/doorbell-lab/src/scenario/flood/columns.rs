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
