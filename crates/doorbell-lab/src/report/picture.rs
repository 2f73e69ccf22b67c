//! Pictures from the JSON of the lab: `/healthz` while every core computes (`doorbell lab http`), for the README; and the
//! cost of operations on more and more cores (`doorbell lab scale`).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::lines::{self, Line};
use crate::error::LabError;

/// Where the bars begin, how long the longest is, and how high a row is.
const LEFT: f64 = 250.0;
const LENGTH: f64 = 400.0;
const ROW: f64 = 26.0;
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
/// The variants, and what they are called.
const CASES: [(&str, &str); 2] = [
    (
        "computing, probe on new connections",
        "32 connections compute",
    ),
    (
        "computing by 200, probe on new connections",
        "200 connections compute",
    ),
];

#[derive(Debug, Deserialize)]
struct Measured {
    scenario: String,
    rows: Vec<Row>,
}

#[derive(Debug, Deserialize)]
struct Row {
    contestant: String,
    variant: String,
    metrics: BTreeMap<String, f64>,
}

impl Measured {
    /// A figure of a row, in µs, if it was measured.
    fn figure(&self, contestant: &str, variant: &str, metric: &str) -> Option<f64> {
        let mut rows = self.rows.iter();
        let row = rows.find(|row| row.contestant == contestant && row.variant == variant)?;
        row.metrics.get(metric).copied()
    }

    /// A line for each program, from variants such as `call, 32 cores`.
    fn lines(&self) -> Vec<Line> {
        let mut lines: Vec<Line> = Vec::new();
        for row in &self.rows {
            let named = row.variant.split_once(", ");
            let cores = named.and_then(|(_, cores)| cores.strip_suffix(" cores")?.parse().ok());
            let Some((((name, _), cores), op_ns)) = named.zip(cores).zip(row.metrics.get("op_ns"))
            else {
                continue;
            };
            let point = [cores, *op_ns];
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
pub(crate) fn draw(options: &PictureOptions) -> Result<String, LabError> {
    let (mut scenario, mut rows) = (String::new(), Vec::new());
    for path in &options.json {
        let read = read(path)?;
        scenario = read.scenario;
        rows.extend(read.rows);
    }
    let measured = Measured { scenario, rows };
    if measured.scenario == SCALE {
        return Ok(lines::svg(SCALE_TITLE, &measured.lines()));
    }
    svg(&measured)
}

fn read(path: &Path) -> Result<Measured, LabError> {
    let text = fs::read_to_string(path).map_err(|source| LabError::File {
        action: "read",
        path: path.to_owned(),
        source,
    })?;
    Ok(serde_json::from_str(&text)?)
}

fn svg(measured: &Measured) -> Result<String, LabError> {
    let mut bars = String::new();
    let mut y = 46.0;
    let longest_us = longest(measured)?;
    for (variant, title) in CASES {
        let _ = writeln!(
            bars,
            r#"<text x="10" y="{y}" font-weight="bold">{title}</text>"#
        );
        y += 12.0;
        for (contestant, colour) in SHOWN {
            let times_us = times(measured, contestant, variant)?;
            let end = |us: f64| {
                LENGTH * (us / FROM_US).log10().max(0.02) / (longest_us / FROM_US).log10()
            };
            let (text, at) = (y + 15.0, LEFT + end(times_us[0]) + 8.0);
            let _ = writeln!(bars, r#"<text x="10" y="{text}">{contestant}</text>"#);
            for (us, (_, opacity)) in times_us.iter().zip(PARTS) {
                let width = end(*us);
                let _ = writeln!(
                    bars,
                    r#"<rect x="{LEFT}" y="{y}" width="{width:.1}" height="18" fill="{colour}" opacity="{opacity}"/>"#
                );
            }
            let [max, p99, median] = times_us.map(in_ms);
            let _ = writeln!(
                bars,
                r#"<text x="{at:.1}" y="{text}">{median}, {p99}, {max}</text>"#
            );
            y += ROW;
        }
        y += 22.0;
    }
    Ok(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"800\" height=\"{y}\" font-family=\"sans-serif\" \
         font-size=\"13\">\n<rect width=\"800\" height=\"{y}\" fill=\"#ffffff\"/>\n<text x=\"10\" \
         y=\"20\">{TITLE}</text>\n{bars}</svg>\n"
    ))
}

/// The times of a row, in the order of [`PARTS`], in µs.
fn times(measured: &Measured, contestant: &str, variant: &str) -> Result<[f64; 3], LabError> {
    let mut found = [0.0; 3];
    for (us, (metric, _)) in found.iter_mut().zip(PARTS) {
        *us = measured
            .figure(contestant, variant, metric)
            .ok_or_else(|| {
                LabError::Said(format!(
                    "the JSON has no times of `{contestant}, {variant}`: measure it with `doorbell lab http --json`"
                ))
            })?;
    }
    Ok(found)
}

/// The longest time of the picture, in µs.
fn longest(measured: &Measured) -> Result<f64, LabError> {
    let mut longest = 10.0 * FROM_US;
    for (variant, _) in CASES {
        for (contestant, _) in SHOWN {
            longest = f64::max(longest, times(measured, contestant, variant)?[0]);
        }
    }
    Ok(longest)
}

/// Milliseconds, with two digits that count.
fn in_ms(us: f64) -> String {
    let ms = us / 1e3;
    if ms < 10.0 {
        format!("{ms:.2}")
    } else {
        format!("{ms:.0}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(contestants: &[(&str, &str)]) -> Measured {
        let figures = [("p50_us", 260.0), ("p99_us", 4_250.0), ("max_us", 4.25e6)];
        let row = |contestant: &str, variant: &str| Row {
            contestant: contestant.to_owned(),
            variant: variant.to_owned(),
            metrics: figures.map(|(name, us)| (name.to_owned(), us)).into(),
        };
        let rows = contestants
            .iter()
            .flat_map(|(contestant, _)| CASES.map(|(variant, _)| row(contestant, variant)));
        Measured {
            scenario: "http".to_owned(),
            rows: rows.collect(),
        }
    }

    #[test]
    fn each_program_on_more_and_more_cores_is_a_line() {
        let row = |variant: &str, ns: f64| Row {
            contestant: "default switches".to_owned(),
            variant: variant.to_owned(),
            metrics: [("op_ns".to_owned(), ns)].into(),
        };
        let rows = [
            ("call, 4 cores", 9.0),
            ("wake, 4 cores", 8.0),
            ("call, 8 cores", 7.0),
        ];
        let measured = Measured {
            scenario: SCALE.to_owned(),
            rows: rows.map(|(variant, ns)| row(variant, ns)).into(),
        };
        let lines = measured.lines();
        let found: Vec<_> = lines
            .iter()
            .map(|line| (&*line.name, &line.points[..]))
            .collect();
        let call = [[4.0, 9.0], [8.0, 7.0]];
        assert_eq!(found, [("call", &call[..]), ("wake", &[[4.0, 8.0]])]);
    }

    #[test]
    fn the_picture_has_each_row_with_its_figures_and_none_is_left_out_in_silence() {
        let picture = svg(&rows(&SHOWN)).expect("all rows are there");
        assert_eq!(
            picture.matches("0.26, 4.25, 4250").count(),
            SHOWN.len() * CASES.len()
        );
        assert_eq!(
            picture.matches("<rect").count(),
            1 + 3 * SHOWN.len() * CASES.len()
        );
        let error = svg(&rows(&SHOWN[1..])).expect_err("tokio was not measured");
        assert!(error.to_string().contains("tokio, computing"), "{error}");
    }
}
