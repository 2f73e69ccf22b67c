//! Pictures from the JSON of the lab: `/healthz` while every core computes (`doorbell lab http`), for the README; and the
//! cost of operations on more and more cores (`doorbell lab scale`).

use std::path::PathBuf;

use anyhow::{Result, anyhow};
use serde::Deserialize;

use super::svg::{self, Bar, Line};
use super::{Row, figure};
use crate::read;

/// Where the bars begin.
const LEFT: f64 = 250.0;
/// The shortest time of the scale, in µs: 0.1 ms.
const FROM_US: f64 = 100.0;
const TITLE: &str =
    "/healthz while every core computes: median, p99 and maximum in ms, on a logarithmic scale";
/// The scenario whose picture has lines.
const SCALE: &str = "scale";
const SCALE_TITLE: &str = "The mean time of one operation in ns, by the number of simulated cores";
/// The contestants, and their colours.
const SHOWN: [(&str, &str); 4] = [
    ("tokio", "#8a8f98"),
    ("tokio, two SCHED_IDLE threads", "#b98b4a"),
    ("doorbell, one class", "#5b8def"),
    ("doorbell, connections in class Rt", "#1d4ed8"),
];
/// What a bar shows, and how strongly it is painted; the longest first.
const PARTS: [(&str, f64); 3] = [("max_us", 0.25), ("p99_us", 0.5), ("p50_us", 1.0)];
/// The beginnings of the variants, and what they are called.
const CASES: [(&str, &str); 2] = [
    ("computing", "32 connections compute"),
    ("computing by 200", "200 connections compute"),
];

#[derive(Debug, Deserialize)]
struct Measured {
    scenario: String,
    rows: Vec<Row>,
}

/// Options of the command.
#[derive(Debug, clap::Args)]
pub(crate) struct PictureOptions {
    /// What `doorbell lab http --json` printed, or `doorbell lab scale --json`; several files, where the rows were
    /// measured in several runs
    #[arg(required = true)]
    json: Vec<PathBuf>,
}

/// The picture, as SVG.
pub(crate) fn draw(options: &PictureOptions) -> Result<String> {
    let (mut is_scale, mut rows) = (false, Vec::new());
    for path in &options.json {
        let text = read(path)?;
        let read: Measured = serde_json::from_str(&text)?;
        is_scale |= read.scenario == SCALE;
        rows.extend(read.rows);
    }
    if is_scale {
        return Ok(svg::lines(SCALE_TITLE, &lines_of(&rows)));
    }
    bars(&rows)
}

/// A line for each program, from variants such as `call, 32 cores`.
fn lines_of(rows: &[Row]) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for row in rows {
        let point = |cores: &str| {
            let cores = cores.strip_suffix(" cores")?.parse().ok()?;
            Some([cores, row.metrics.get("op_ns")?])
        };
        let named = row.variant.split_once(", ");
        let Some((name, point)) = named.and_then(|(name, cores)| Some((name, point(cores)?)))
        else {
            continue;
        };
        match lines.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.push(point),
            None => lines.push(Line {
                name: name.to_owned(),
                points: vec![point],
            }),
        }
    }
    lines
}

fn bars(rows: &[Row]) -> Result<String> {
    let mut all = Vec::new();
    for (case, title) in CASES {
        for (contestant, colour) in SHOWN {
            let variant = format!("{case}, probe on new connections");
            let is_it = |row: &&Row| row.contestant == contestant && row.variant == variant;
            let row = rows.iter().find(is_it);
            let times_us = PARTS.map(|(metric, _)| row?.metrics.get(metric));
            let [Some(max), Some(p99), Some(median)] = times_us else {
                return Err(anyhow!(
                    "the JSON has no times of `{contestant}, {variant}`: measure it with `doorbell lab http --json`"
                ));
            };
            let times_us = [max, p99, median];
            let parts = times_us.into_iter().zip(PARTS.map(|(_, opacity)| opacity));
            let [max, p99, median] = times_us.map(|us| figure(us / 1e3));
            all.push(Bar {
                group: title,
                name: contestant.to_owned(),
                colour,
                parts: parts.collect(),
                text: format!("{median}, {p99}, {max}"),
            });
        }
    }
    Ok(svg::bars(TITLE, [LEFT, FROM_US], &all))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Metrics;

    fn row(contestant: &str, variant: &str, figures: &[(&str, f64)]) -> Row {
        let mut metrics = Metrics::default();
        for (name, value) in figures {
            metrics.put(name, Some(*value));
        }
        Row {
            contestant: contestant.to_owned(),
            variant: variant.to_owned(),
            metrics,
        }
    }

    #[test]
    fn each_program_on_more_and_more_cores_is_a_line() {
        let rows = [
            ("call, 4 cores", 9.0),
            ("wake, 4 cores", 8.0),
            ("call, 8 cores", 7.0),
        ];
        let lines = lines_of(&rows.map(|(variant, ns)| row("", variant, &[("op_ns", ns)])));
        let found: Vec<_> = lines
            .iter()
            .map(|line| (&*line.name, &line.points[..]))
            .collect();
        let call = [[4.0, 9.0], [8.0, 7.0]];
        assert_eq!(found, [("call", &call[..]), ("wake", &[[4.0, 8.0]])]);
    }

    #[test]
    fn the_picture_has_each_row_with_its_figures_and_none_is_left_out_in_silence() {
        let figures = [("p50_us", 260.0), ("p99_us", 4_250.0), ("max_us", 4.25e6)];
        let rows = |contestants: &[(&str, &str)]| {
            let each = contestants.iter();
            let how = |case| format!("{case}, probe on new connections");
            let row = |who, case| row(who, &how(case), &figures);
            let each = each.flat_map(|(who, _)| CASES.map(|(case, _)| row(who, case)));
            each.collect::<Vec<_>>()
        };
        let picture = bars(&rows(&SHOWN)).expect("all rows are there");
        let count = SHOWN.len() * CASES.len();
        assert_eq!(picture.matches("0.26, 4.25, 4,250").count(), count);
        assert_eq!(picture.matches("<rect").count(), 1 + 3 * count);
        let error = bars(&rows(&SHOWN[1..])).expect_err("tokio was not measured");
        assert!(error.to_string().contains("tokio, computing"), "{error}");
    }
}
