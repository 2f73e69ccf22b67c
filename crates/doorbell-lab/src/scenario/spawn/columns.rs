//! The columns of the scenario's table, and how to read them.

use super::super::trial::{Conclusion, Rated};
use super::shape::Shape;
use crate::report::{Cell, Chart, Column, MainTable, Metrics, Series, figure, known};

/// Figures whose spread over the rounds is kept.
pub(super) const SPREADS: [[&str; 3]; 1] = [["op_ns", "op_min_ns", "op_max_ns"]];

/// The columns of a contestant.
pub(super) fn columns() -> Vec<Column> {
    vec![
        Column {
            title: "ns",
            cell: Cell::Figure("op_ns"),
        },
        Column {
            title: "ns spread",
            cell: Cell::Spread {
                low: "op_min_ns",
                high: "op_max_ns",
            },
        },
    ]
}

/// The chart of the page.
pub(super) fn chart() -> Chart {
    Chart {
        title: "A task spawned, a pair of messages, a yield; ns (log scale)",
        unit: "ns",
        series: vec![Series {
            title: "ns",
            metric: "op_ns",
            low: "op_min_ns",
            high: "op_max_ns",
        }],
    }
}

/// One row for each shape.
pub(super) fn conclude(rated: &[Rated<'_>]) -> Conclusion {
    let shapes = Shape::ALL.iter();
    let rows = shapes.filter_map(|shape| shape_cells(*shape, rated));
    let titles = [
        "shape",
        "of",
        "doorbell ns",
        "spread",
        "tokio ns",
        "spread",
        "x tokio",
        "x spread",
        "syscalls/1k",
        "RES+CAL/1k",
    ];
    Conclusion {
        main: Some(MainTable {
            titles: titles.to_vec(),
            rows: rows.collect(),
        }),
        ..Conclusion::in_words(gist(rated))
    }
}

fn find<'a>(rated: &'a [Rated<'_>], who: &str, shape: Shape) -> Option<&'a Metrics> {
    let wanted = |one: &&Rated<'_>| one.row.contestant == who && one.row.variant == shape.name();
    rated.iter().find(wanted).map(|one| &one.row.metrics)
}

fn spread(metrics: &Metrics, [low, high]: [&str; 2]) -> String {
    match (metrics.get(low), metrics.get(high)) {
        (Some(low), Some(high)) => format!("{}..{}", figure(low), figure(high)),
        _ => known(None),
    }
}

fn shape_cells(shape: Shape, rated: &[Rated<'_>]) -> Option<Vec<String>> {
    let own = find(rated, "doorbell", shape);
    let other = find(rated, "tokio", shape);
    let metrics = own.or(other)?;
    let of = |whose: Option<&Metrics>, name| known(whose.and_then(|one| one.get(name)));
    let ends = |whose: Option<&Metrics>| {
        whose.map_or_else(
            || known(None),
            |one| spread(one, ["op_min_ns", "op_max_ns"]),
        )
    };
    let both = |name| format!("{} | {}", of(own, name), of(other, name));
    // Without doorbell's row only tokio is left, compared with itself.
    let ratio = own.map_or_else(|| known(None), |one| known(one.get("ratio_x")));
    let ratios = own.map_or_else(
        || known(None),
        |_| spread(metrics, ["ratio_min_x", "ratio_max_x"]),
    );
    Some(vec![
        shape.name().to_owned(),
        shape.operation().to_owned(),
        of(own, "op_ns"),
        ends(own),
        of(other, "op_ns"),
        ends(other),
        ratio,
        ratios,
        both("syscalls_per_1k"),
        both("interrupts_per_1k"),
    ])
}

/// What the table shows, in one sentence.
fn gist(rated: &[Rated<'_>]) -> String {
    let mut own: Vec<(f64, &str)> = rated
        .iter()
        .filter(|one| one.row.contestant == "doorbell")
        .filter_map(|one| Some((one.row.metrics.get("ratio_x")?, one.row.variant.as_str())))
        .collect();
    own.sort_by(|one, other| one.0.total_cmp(&other.0));
    if own.is_empty() {
        return "Only tokio was measured, so there is nothing to compare.".to_owned();
    }
    let each: Vec<String> = own
        .iter()
        .map(|(ratio, shape)| format!("{} ({shape})", figure(*ratio)))
        .collect();
    format!(
        "Spawned tasks: by medians doorbell is this many times as fast as tokio, where less than 1 is slower: {}.",
        each.join(", "),
    )
}
