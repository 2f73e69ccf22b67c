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
