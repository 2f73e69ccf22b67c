//! The columns of the scenario's table, and how to read them.

use super::super::common::figure_of;
use crate::report::{Cell, Chart, Column, Row, Series};

/// The columns, in order.
pub(super) fn columns() -> Vec<Column> {
    let figure = Column::figure;
    let spread = Column::spread;
    vec![
        figure("p50 ns", "p50_ns"),
        figure("p99 ns", "p99_ns"),
        spread("p50 spread", "p50_min_ns", "p50_max_ns"),
        figure("x limit", "ratio_to_limit_x"),
        spread("x spread", "ratio_min_x", "ratio_max_x"),
        figure("crossed %", "crossed_percent"),
        Column {
            title: "rounds",
            cell: Cell::OfRounds("rounds_kept_count"),
        },
        figure("syscalls/1k", "syscalls_per_1k"),
        figure("RES+CAL/1k", "interrupts_per_1k"),
        figure("ctx/1k", "switches_per_1k"),
    ]
}

/// What the table shows, in one sentence.
pub(super) fn gist(rows: &[Row]) -> String {
    let limits = |who, how| figure_of(rows, [who, how, "ratio_to_limit_x"]);
    let ns = |who, how| figure_of(rows, [who, how, "p50_ns"]);
    format!(
        "A call to another core and back: to a core that spins doorbell takes {} times a cache \
         line's round trip, with {} system calls in 1,000 calls; to one that sleeps {} ns, which is one \
         wake (a futex {}), and {} ns if the caller sleeps too, which is two (a futex {}, tokio between two \
         runtimes {}).",
        limits("doorbell", "blocking, spinning"),
        figure_of(rows, ["doorbell", "blocking, spinning", "syscalls_per_1k"]),
        ns("doorbell", "blocking, callee parked"),
        ns("futex", "callee parked"),
        ns("doorbell", "await, both parked"),
        ns("futex", "both parked"),
        ns("tokio", "two runtimes, mpsc, both parked"),
    )
}

/// The chart of the page.
pub(super) fn chart() -> Chart {
    Chart {
        title: "A call to another core and back, ns (log scale)",
        unit: "ns",
        series: vec![
            Series {
                title: "p50",
                metric: "p50_ns",
                low: "p50_min_ns",
                high: "p50_max_ns",
            },
            Series {
                title: "p99",
                metric: "p99_ns",
                low: "p99_min_ns",
                high: "p99_max_ns",
            },
        ],
    }
}
