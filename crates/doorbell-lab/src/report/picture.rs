//! A picture of `/healthz` while every core computes, from the JSON of `doorbell lab http`. For the README.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::error::LabError;

/// Where the bars begin, how long the longest is, and how high a row is.
const LEFT: f64 = 250.0;
const LENGTH: f64 = 400.0;
const ROW: f64 = 26.0;
/// The shortest time of the scale, in µs: 0.1 ms.
const FROM_US: f64 = 100.0;
const TITLE: &str =
    "/healthz while every core computes: median and p99, in ms, on a logarithmic scale";
/// The contestants, and their colours.
const SHOWN: [(&str, &str); 3] = [
    ("tokio", "#8a8f98"),
    ("doorbell, one class", "#5b8def"),
    ("doorbell, connections in class Rt", "#1d4ed8"),
];
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
}

/// Options of the command.
#[derive(Debug, clap::Args)]
pub(crate) struct PictureOptions {
    /// What `doorbell lab http --json` printed; several files, where the rows were measured in several runs
    #[arg(required = true)]
    json: Vec<PathBuf>,
}

/// The picture, as SVG.
pub(crate) fn draw(options: &PictureOptions) -> Result<String, LabError> {
    let mut rows = Vec::new();
    for path in &options.json {
        rows.extend(read(path)?.rows);
    }
    svg(&Measured { rows })
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
            let (median_us, p99_us) = times(measured, contestant, variant)?;
            let end = |us: f64| {
                LENGTH * (us / FROM_US).log10().max(0.02) / (longest_us / FROM_US).log10()
            };
            let (median, p99) = (end(median_us), end(p99_us));
            let (text, at) = (y + 15.0, LEFT + p99 + 8.0);
            let figures = format!("{}, {}", in_ms(median_us), in_ms(p99_us));
            let _ = writeln!(
                bars,
                r#"<text x="10" y="{text}">{contestant}</text><rect x="{LEFT}" y="{y}" width="{p99:.1}" height="18" fill="{colour}" opacity="0.45"/><rect x="{LEFT}" y="{y}" width="{median:.1}" height="18" fill="{colour}"/><text x="{at:.1}" y="{text}">{figures}</text>"#
            );
            y += ROW;
        }
        y += 22.0;
    }
    Ok(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"780\" height=\"{y}\" font-family=\"sans-serif\" \
         font-size=\"13\">\n<rect width=\"780\" height=\"{y}\" fill=\"#ffffff\"/>\n<text x=\"10\" \
         y=\"20\">{TITLE}</text>\n{bars}</svg>\n"
    ))
}

/// The median and the p99 of a row, in µs.
fn times(measured: &Measured, contestant: &str, variant: &str) -> Result<(f64, f64), LabError> {
    let figure = |metric| measured.figure(contestant, variant, metric);
    match (figure("p50_us"), figure("p99_us")) {
        (Some(median), Some(p99)) => Ok((median, p99)),
        _ => Err(LabError::NotMeasured {
            row: format!("{contestant}, {variant}"),
        }),
    }
}

/// The longest p99 of the picture, in µs.
fn longest(measured: &Measured) -> Result<f64, LabError> {
    let mut longest = 10.0 * FROM_US;
    for (variant, _) in CASES {
        for (contestant, _) in SHOWN {
            longest = f64::max(longest, times(measured, contestant, variant)?.1);
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
        let row = |contestant: &str, variant: &str| Row {
            contestant: contestant.to_owned(),
            variant: variant.to_owned(),
            metrics: [("p50_us".to_owned(), 260.0), ("p99_us".to_owned(), 4.25e6)].into(),
        };
        let rows = contestants
            .iter()
            .flat_map(|(contestant, _)| CASES.map(|(variant, _)| row(contestant, variant)));
        Measured {
            rows: rows.collect(),
        }
    }

    #[test]
    fn the_picture_has_each_row_with_its_figures_and_none_is_left_out_in_silence() {
        let picture = svg(&rows(&SHOWN)).expect("all rows are there");
        assert_eq!(
            picture.matches("0.26, 4250").count(),
            SHOWN.len() * CASES.len()
        );
        assert_eq!(
            picture.matches("<rect").count(),
            1 + 2 * SHOWN.len() * CASES.len()
        );
        let error = svg(&rows(&SHOWN[1..])).expect_err("tokio was not measured");
        assert!(error.to_string().contains("tokio, computing"), "{error}");
    }
}
