//! The tables, one for each part, and what they show together.

use super::super::common::figure_of;
use super::super::limits;
use super::super::trial::{Conclusion, Rated, ratio};
use super::part::{ACTS, Part};
use super::promises::{self, Most};
use super::servers::{BASELINE, OURS, TOKIO_IDLE_THREADS, TWO};
use crate::report::{MainTable, SideTable, figure, known};

/// The content of a cell.
#[derive(Debug, Clone, Copy)]
enum Cell {
    Figure(&'static str),
    /// The minimum and maximum over the rounds.
    Spread(&'static str, &'static str),
    /// The rate, divided by that of this contestant in the same round.
    Ratio(&'static str),
    /// A figure, divided by tokio's in the same round.
    OfTokio(&'static str),
}

type Columns = &'static [(&'static str, Cell)];

const HELLO: Columns = &[
    ("req/s", Cell::Figure("rate_per_s")),
    ("spread", Cell::Spread("rate_min_per_s", "rate_max_per_s")),
    ("p50 us", Cell::Figure("p50_us")),
    ("p99 us", Cell::Figure("p99_us")),
    ("spread", Cell::Spread("p99_min_us", "p99_max_us")),
    ("x tokio", Cell::Ratio(BASELINE)),
    ("x two", Cell::Ratio(TWO)),
    ("errors", Cell::Figure("errors_count")),
    ("CPU us/req", Cell::Figure("server_cpu_us_per_op")),
    (
        "spread",
        Cell::Spread("server_cpu_min_us_per_op", "server_cpu_max_us_per_op"),
    ),
];

const COMPUTING: Columns = &[
    ("p50 us", Cell::Figure("p50_us")),
    ("p99 us", Cell::Figure("p99_us")),
    ("spread", Cell::Spread("p99_min_us", "p99_max_us")),
    ("max us", Cell::Figure("max_us")),
    ("errors", Cell::Figure("errors_count")),
    ("compute/s", Cell::Figure("rate_per_s")),
    ("spread", Cell::Spread("rate_min_per_s", "rate_max_per_s")),
    ("x tokio", Cell::Ratio(BASELINE)),
    ("probes", Cell::Figure("probes_count")),
];

const FLOOD: Columns = &[
    ("compute/s", Cell::Figure("rate_per_s")),
    ("alone", Cell::Figure("alone_per_s")),
    ("kept", Cell::Figure("kept_x")),
    ("spread", Cell::Spread("kept_min_x", "kept_max_x")),
    ("plain/s", Cell::Figure("plain_per_s")),
    ("spread", Cell::Spread("plain_min_per_s", "plain_max_per_s")),
    ("x tokio", Cell::OfTokio("plain_per_s")),
    ("errors", Cell::Figure("errors_count")),
    ("/healthz/s", Cell::Figure("flood_per_s")),
];

const IDLE: Columns = &[
    ("connections", Cell::Figure("connections_count")),
    ("wakeups/s", Cell::Figure("idle_wakeups_per_s")),
    (
        "spread",
        Cell::Spread("idle_wakeups_min_per_s", "idle_wakeups_max_per_s"),
    ),
    ("RSS/conn", Cell::Figure("rss_per_connection_bytes")),
    (
        "spread",
        Cell::Spread(
            "rss_min_per_connection_bytes",
            "rss_max_per_connection_bytes",
        ),
    ),
    ("fds left", Cell::Figure("fds_left_count")),
    (
        "RSS left/conn",
        Cell::Figure("rss_left_per_connection_bytes"),
    ),
];

/// With real-time priorities for urgent threads.
pub(super) fn conclude_privileged(rated: &[Rated<'_>]) -> Conclusion {
    conclude(rated, Most::Privileged)
}

/// Without them.
pub(super) fn conclude_unprivileged(rated: &[Rated<'_>]) -> Conclusion {
    conclude(rated, Most::Unprivileged)
}

fn conclude(rated: &[Rated<'_>], most: Most) -> Conclusion {
    let parts = [
        (Part::Hello, HELLO, "Greetings, 64 connections"),
        (
            Part::Computing,
            COMPUTING,
            "A probe while 32 connections compute",
        ),
        (
            Part::Flood,
            FLOOD,
            "A flood of /healthz beside 32 connections that compute, and beside plain threads",
        ),
        (Part::Idle, IDLE, "Idle connections"),
    ];
    let tables = parts.into_iter().filter_map(|(part, columns, caption)| {
        let rows = rows(rated, part, columns);
        let names = ["contestant", "variant"].into_iter();
        let titles = names
            .chain(columns.iter().map(|(title, _)| *title))
            .collect();
        (!rows.is_empty()).then_some(SideTable {
            caption,
            titles,
            rows,
        })
    });
    let mut tables: Vec<_> = tables.collect();
    let main = (!tables.is_empty()).then(|| tables.remove(0));
    tables.extend(limits::table(&promises::of(rated, most)));
    Conclusion {
        main: main.map(|table| MainTable {
            titles: table.titles,
            rows: table.rows,
        }),
        side_tables: tables,
        ..Conclusion::in_words(gist(rated))
    }
}

fn rows(rated: &[Rated<'_>], part: Part, columns: Columns) -> Vec<Vec<String>> {
    let of_part = |variant: &str| {
        let mut acts = ACTS.iter();
        acts.any(|act| act.part == part && act.name == variant)
    };
    let wanted = rated.iter().filter(|one| of_part(&one.row.variant));
    let made = wanted.map(|one| {
        let names = [one.row.contestant.clone(), one.row.variant.clone()];
        let cells = columns.iter().map(|(_, cell)| text(rated, one, *cell));
        names.into_iter().chain(cells).collect()
    });
    made.collect()
}

fn text(rated: &[Rated<'_>], one: &Rated<'_>, cell: Cell) -> String {
    let metric = |name| one.row.metrics.get(name);
    match cell {
        Cell::Figure(name) => known(metric(name)),
        Cell::Spread(low, high) => match (metric(low), metric(high)) {
            (Some(low), Some(high)) => format!("{}..{}", figure(low), figure(high)),
            _ => known(None),
        },
        Cell::Ratio(other) => known(ratio(rated, one, other, "rate_per_s")),
        Cell::OfTokio(name) => known(ratio(rated, one, BASELINE, name)),
    }
}

/// What the tables show.
fn gist(rated: &[Rated<'_>]) -> String {
    let [hello, _, kept, _, idle] = ACTS.map(|act| act.name);
    let of = |who, variant, metric| {
        let row = [who, variant, metric];
        figure_of(rated.iter().map(|one| one.row), row)
    };
    format!(
        "doorbell greets {} times a second, tokio with the same features {}, bare epoll {}; while they \
         compute, 99 of 100 probes are answered within {} us by doorbell, {} by tokio, {} by tokio with its \
         computations on two SCHED_IDLE threads; an idle connection costs doorbell {} bytes, tokio {}.",
        of(OURS, hello, "rate_per_s"),
        of(BASELINE, hello, "rate_per_s"),
        of("raw epoll", hello, "rate_per_s"),
        of(OURS, kept, "p99_us"),
        of(BASELINE, kept, "p99_us"),
        of(TOKIO_IDLE_THREADS, kept, "p99_us"),
        of(OURS, idle, "rss_per_connection_bytes"),
        of(BASELINE, idle, "rss_per_connection_bytes"),
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::report::fits::assert_main;
    use crate::report::{Metrics, Row};

    /// As long as a relevant figure gets.
    const LONG: f64 = 123_456.0;

    #[test]
    fn the_tables_fit_and_show_errors() {
        let parts = [
            (
                Part::Hello,
                HELLO,
                &["req/s", "p99 us", "x tokio", "errors", "CPU us/req"][..],
            ),
            (
                Part::Computing,
                COMPUTING,
                &["p99 us", "max us", "errors", "compute/s"],
            ),
            (
                Part::Flood,
                FLOOD,
                &["compute/s", "kept", "plain/s", "x tokio", "errors"],
            ),
            (
                Part::Idle,
                IDLE,
                &["wakeups/s", "RSS/conn", "fds left", "RSS left/conn"],
            ),
        ];
        for (part, columns, kept) in parts {
            let mut metrics = Metrics::default();
            for (_, cell) in columns {
                let names = match *cell {
                    Cell::Figure(name) | Cell::OfTokio(name) => [name, name],
                    Cell::Spread(low, high) => [low, high],
                    Cell::Ratio(_) => ["rate_per_s"; 2],
                };
                for name in names {
                    metrics.put(name, Some(LONG));
                }
            }
            let all: Vec<Row> = super::super::contestants(false)
                .iter()
                .map(|one| Row {
                    contestant: one.name().to_owned(),
                    variant: one.variant().to_owned(),
                    metrics: metrics.clone(),
                    counters: Metrics::default(),
                })
                .collect();
            let rounds = [BTreeMap::from([("rate_per_s", LONG)])];
            let rated: Vec<_> = all
                .iter()
                .map(|row| Rated {
                    row,
                    rounds: &rounds,
                })
                .collect();
            let names = ["contestant", "variant"].into_iter();
            let titles = names.chain(columns.iter().map(|(title, _)| *title));
            let table = MainTable {
                titles: titles.collect(),
                rows: rows(&rated, part, columns),
            };
            assert!(!table.rows.is_empty());
            assert_main(&table, kept);
        }
    }
}
