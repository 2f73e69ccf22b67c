//! The columns of the scenario's table, and how to read them.

use super::super::common::figure_of;
use super::super::late;
use super::super::trial::{Conclusion, Rated};
use super::Shape;
use super::frames::Order;
use crate::report::{Chart, Column, Series};

/// Figures whose spread over the rounds is kept.
pub(super) const SPREADS: [[&str; 3]; 3] = [
    ["op_us", "op_min_us", "op_max_us"],
    late::SPREADS[0],
    late::SPREADS[1],
];

/// The columns, in order.
pub(super) fn columns() -> Vec<Column> {
    let (figure, spread) = (Column::figure, Column::spread);
    let mut all = vec![
        figure("exchanges/s", "exchanges_per_s"),
        figure("us each", "op_us"),
        spread("us spread", "op_min_us", "op_max_us"),
    ];
    all.extend(late::ratio("x tokio"));
    all.extend([
        figure("p50 us", "p50_us"),
        figure("p99 us", "p99_us"),
        spread("p99 spread", "p99_min_us", "p99_max_us"),
        figure("skipped", "skipped_count"),
        figure("CPU us/op", "cpu_us_per_op"),
        figure("sleeps/op", "wakeups_per_op"),
        figure("rings/op", "rings_per_op"),
        figure("stacked/1k", "stacked_per_1k"),
        figure("CPU %", "cpu_percent"),
        figure("syscalls/1k", "syscalls_per_1k"),
    ]);
    all
}

/// What the table shows.
pub(super) fn conclude(rated: &[Rated<'_>]) -> Conclusion {
    let of = |who, shape: Shape, metric| {
        let row = [who, shape.name(), metric];
        figure_of(rated.iter().map(|one| one.row), row)
    };
    let rate = |who| [1, 32].map(|pairs| of(who, Shape::Pairs(pairs), "exchanges_per_s"));
    let [one, many] = rate("doorbell");
    let [tokio_one, tokio_many] = rate("tokio");
    let frame =
        |who| [Order::Chain, Order::Burst].map(|order| of(who, Shape::Frames(order), "op_us"));
    let [chain, burst] = frame("doorbell");
    let [tokio_chain, tokio_burst] = frame("tokio");
    Conclusion::in_words(format!(
        "One pair exchanges {one} messages of 8 KiB a second with doorbell and {tokio_one} with tokio, 32 pairs \
         {many} and {tokio_many}. A frame of 8 tasks of 200 us takes {chain} us with doorbell and {tokio_chain} \
         with tokio as a chain, {burst} and {tokio_burst} as a burst."
    ))
}

/// The chart of the page.
pub(super) fn chart() -> Chart {
    Chart {
        title: "Time of the pass for each exchange, and of a frame, µs (log scale)",
        unit: "µs",
        series: vec![Series {
            title: "each",
            metric: "op_us",
            low: "op_min_us",
            high: "op_max_us",
        }],
    }
}
