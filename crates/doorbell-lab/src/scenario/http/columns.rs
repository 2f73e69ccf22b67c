//! The columns of the scenario's tables, and how to read them.

use super::super::late;
use crate::report::Chart;

/// Figures whose spread over the rounds is kept.
pub(super) const SPREADS: [[&str; 3]; 9] = [
    ["rate_per_s", "rate_min_per_s", "rate_max_per_s"],
    late::SPREADS[0],
    late::SPREADS[1],
    late::MAX_SPREAD,
    [
        "server_cpu_us_per_op",
        "server_cpu_min_us_per_op",
        "server_cpu_max_us_per_op",
    ],
    ["kept_x", "kept_min_x", "kept_max_x"],
    ["plain_per_s", "plain_min_per_s", "plain_max_per_s"],
    [
        "idle_wakeups_per_s",
        "idle_wakeups_min_per_s",
        "idle_wakeups_max_per_s",
    ],
    [
        "rss_per_connection_bytes",
        "rss_min_per_connection_bytes",
        "rss_max_per_connection_bytes",
    ],
];

/// The chart of the page.
pub(super) fn chart() -> Chart {
    late::chart("How long answers take, greetings and probes, µs (log scale)")
}
