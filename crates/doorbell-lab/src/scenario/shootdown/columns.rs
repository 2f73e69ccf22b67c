//! The columns of the scenario's table, and how to read them.

use doorbell::CallCoalesce;

use super::super::trial::{Conclusion, Rated};
use super::callers::Callers;
use super::seed::{self, Change};
use crate::report::{Chart, Column, Series};

/// Figures whose spread over the rounds is kept.
pub(super) const SPREADS: [[&str; 3]; 2] = [
    ["calls_per_s", "calls_min_per_s", "calls_max_per_s"],
    ["rings_per_1k", "rings_min_per_1k", "rings_max_per_1k"],
];

/// The columns, in order.
pub(super) fn columns() -> Vec<Column> {
    let figure = Column::figure;
    let spread = Column::spread;
    vec![
        figure("calls/s", "calls_per_s"),
        spread("spread", "calls_min_per_s", "calls_max_per_s"),
        figure("x base", "ratio_x"),
        spread("x spread", "ratio_min_x", "ratio_max_x"),
        figure("rings/1k", "rings_per_1k"),
        spread("spread", "rings_min_per_1k", "rings_max_per_1k"),
        figure("awake/1k", "rings_awake_per_1k"),
        figure("parks/1k", "parks_per_1k"),
        figure("RES+CAL/1k", "interrupts_per_1k"),
        figure("syscalls/1k", "syscalls_per_1k"),
        figure("ctx/1k", "switches_per_1k"),
        figure("by workers %", "by_workers_percent"),
    ]
}

/// What the table shows.
pub(super) fn conclude(rated: &[Rated<'_>]) -> Conclusion {
    let find = |setting| {
        let wanted = Callers::variant_of(setting);
        rated.iter().find(|one| one.row.variant == wanted)
    };
    let (Some(base), Some(on)) = (find(CallCoalesce::Base), find(CallCoalesce::On)) else {
        let gist = "Only the baseline was measured, so there is nothing to compare.";
        return Conclusion::in_words(gist.to_owned());
    };
    Conclusion {
        side_tables: vec![seed::table(base, on)],
        ..Conclusion::in_words(gist(base, on))
    }
}

fn gist(base: &Rated<'_>, on: &Rated<'_>) -> String {
    let change = |metric| Change::of(metric, base, on);
    let goal = seed::RINGS_GOAL_PERCENT;
    let rings = change("rings_per_1k");
    let reached = match rings.percent {
        Some(percent) if percent <= goal => "reached",
        Some(_) => "not reached",
        None => "not known",
    };
    let workers = on.row.metrics.get("workers_count").unwrap_or_default();
    format!(
        "All call all: while {} threads and {workers:.0} workers call every core, ringing only workers \
         that sleep and were not notified yet makes {} wake syscalls (the goal, {:.0} % fewer, is \
         {reached}), {} interrupts between CPUs (the seed {}), and {} calls answered a second (the \
         seed {}): {} of the threads' and {} of the workers'.",
        super::THREADS,
        rings.in_words(),
        -goal,
        change("interrupts_per_1k").in_words(),
        seed::INTERRUPTS.change().in_words(),
        change("calls_per_s").in_words(),
        seed::THROUGHPUT.change().in_words(),
        change("thread_calls_per_s").in_words(),
        change("worker_calls_per_s").in_words(),
    )
}

/// The chart of the page.
pub(super) fn chart() -> Chart {
    Chart {
        title: "Calls to all cores a second, and rings per 1,000 of them (log scale)",
        unit: "",
        series: vec![
            Series {
                title: "calls/s",
                metric: "calls_per_s",
                low: "calls_min_per_s",
                high: "calls_max_per_s",
            },
            Series {
                title: "rings/1k",
                metric: "rings_per_1k",
                low: "rings_min_per_1k",
                high: "rings_max_per_1k",
            },
        ],
    }
}
