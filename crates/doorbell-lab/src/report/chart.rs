//! A bar chart on a logarithmic axis, as SVG that takes its colours from the page.

use std::fmt::Write as _;

use super::html::escaped;
use super::{Chart, Report, Row, Series, figure, whole};

/// The drawing's size is in these units; the page scales it.
const WIDTH: f64 = 960.0;
/// Where the bars begin; the names are left of it.
const LEFT: f64 = 330.0;
/// Where the axis ends; the figures are right of it.
const RIGHT: f64 = WIDTH - 90.0;
/// Where the first row begins.
const TOP: f64 = 52.0;
/// The least distance of the smallest value from the start of the axis, in decades.
const LEAST_BAR: f64 = 0.25;
const BAR_HEIGHT: f64 = 13.0;
const BAR_GAP: f64 = 3.0;
const ROW_GAP: f64 = 16.0;

/// A logarithmic axis over whole decades.
struct Axis {
    /// The exponents of both ends.
    first: i32,
    last: i32,
}

impl Axis {
    /// An axis of the decades that contain all `values`, with some room below the least one so that its bar
    /// is visible.
    fn over(values: impl Iterator<Item = f64>) -> Option<Self> {
        let exponents = values.filter(|value| *value > 0.0).map(f64::log10);
        let (low, high) = exponents.fold(
            (f64::INFINITY, f64::NEG_INFINITY),
            |(low, high), exponent| (low.min(exponent), high.max(exponent)),
        );
        if low > high {
            return None;
        }
        let first = (low - LEAST_BAR).floor() as i32;
        Some(Self {
            first,
            last: (high.ceil() as i32).max(first + 1),
        })
    }

    /// The position of `value`, clamped to the axis.
    fn x(&self, value: f64) -> f64 {
        let span = f64::from(self.last - self.first);
        let part = (value.log10() - f64::from(self.first)) / span;
        LEFT + part.clamp(0.0, 1.0) * (RIGHT - LEFT)
    }
}

/// Draws the chart of a report; empty if there is nothing to draw.
pub(super) fn svg(report: &Report) -> String {
    let Chart {
        title,
        unit,
        series,
    } = &report.chart;
    let drawn = |row: &&Row| {
        series
            .iter()
            .any(|bar| row.metrics.get(bar.metric).is_some())
    };
    let rows: Vec<&Row> = report.rows.iter().filter(drawn).collect();
    let values = rows.iter().flat_map(|row| {
        series.iter().flat_map(|bar| {
            [bar.metric, bar.low, bar.high]
                .into_iter()
                .filter_map(|name| row.metrics.get(name))
        })
    });
    let Some(axis) = Axis::over(values.chain(report.limit_ns)) else {
        return String::new();
    };

    let row_height = series.len() as f64 * (BAR_HEIGHT + BAR_GAP) + ROW_GAP;
    let bottom = TOP + row_height * rows.len() as f64;
    let mut out = format!(
        "<svg viewBox=\"0 0 {WIDTH} {:.0}\" role=\"img\" aria-label=\"{}\">\n",
        bottom + 34.0,
        escaped(title)
    );
    legend(&mut out, title, series);
    grid(&mut out, &axis, unit, bottom);
    for (place, row) in rows.iter().enumerate() {
        bars(
            &mut out,
            &axis,
            series,
            row,
            TOP + row_height * place as f64 + ROW_GAP / 2.0,
        );
    }
    if let Some(limit_ns) = report.limit_ns {
        let x = axis.x(limit_ns);
        let _ = writeln!(
            out,
            "<line class=\"limit\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{bottom:.1}\"/>\
             <text class=\"small\" x=\"{:.1}\" y=\"{:.1}\">limit</text>",
            x + 4.0,
            TOP - 4.0
        );
    }
    out.push_str("</svg>\n");
    out
}

fn legend(out: &mut String, title: &str, series: &[Series]) {
    let _ = writeln!(
        out,
        "<text class=\"title\" x=\"0\" y=\"20\">{}</text>",
        escaped(title)
    );
    for (place, bar) in series.iter().enumerate() {
        let x = RIGHT - 60.0 * (series.len() - place) as f64 + 60.0;
        let _ = writeln!(
            out,
            "<rect class=\"bar{place}\" x=\"{x}\" y=\"10\" width=\"12\" height=\"12\" rx=\"2\"/>\
             <text x=\"{}\" y=\"20\">{}</text>",
            x + 17.0,
            escaped(bar.title)
        );
    }
}

fn grid(out: &mut String, axis: &Axis, unit: &str, bottom: f64) {
    for exponent in axis.first..=axis.last {
        let value = 10_f64.powi(exponent);
        let x = axis.x(value);
        let _ = writeln!(
            out,
            "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{bottom:.1}\"/>\
             <text class=\"small\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{} {}</text>",
            bottom + 18.0,
            whole(value),
            escaped(unit)
        );
    }
}

fn bars(out: &mut String, axis: &Axis, series: &[Series], row: &Row, top: f64) {
    let middle = top + (series.len() as f64 * (BAR_HEIGHT + BAR_GAP)) / 2.0;
    let _ = writeln!(
        out,
        "<text x=\"{0}\" y=\"{1:.1}\" text-anchor=\"end\"><tspan class=\"who\">{2}</tspan>\
         <tspan class=\"small\" x=\"{0}\" dy=\"14\">{3}</tspan></text>",
        LEFT - 12.0,
        middle - 2.0,
        escaped(&row.contestant),
        escaped(&row.variant)
    );
    for (place, bar) in series.iter().enumerate() {
        let Some(value) = row.metrics.get(bar.metric) else {
            continue;
        };
        let low = row.metrics.get(bar.low).unwrap_or(value);
        let high = row.metrics.get(bar.high).unwrap_or(value);
        let y = top + place as f64 * (BAR_HEIGHT + BAR_GAP);
        let centre = y + BAR_HEIGHT / 2.0;
        let (x_low, x_high, end) = (axis.x(low), axis.x(high), axis.x(value));
        let _ = writeln!(
            out,
            "<g><title>{} ({}) {}: {} (rounds {}..{})</title>\
             <rect class=\"bar{place}\" x=\"{LEFT}\" y=\"{y:.1}\" width=\"{:.1}\" \
             height=\"{BAR_HEIGHT}\" rx=\"2\"/>\
             <path class=\"whisker\" d=\"M{x_low:.1} {centre:.1}H{x_high:.1}M{x_low:.1} {:.1}v6\
             M{x_high:.1} {:.1}v6\"/>\
             <text class=\"small\" x=\"{:.1}\" y=\"{:.1}\">{}</text></g>",
            escaped(&row.contestant),
            escaped(&row.variant),
            escaped(bar.title),
            figure(value),
            figure(low),
            figure(high),
            (end - LEFT).max(1.0),
            centre - 3.0,
            centre - 3.0,
            x_high.max(end) + 7.0,
            centre + 4.0,
            figure(value)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_axis_covers_whole_decades() {
        let axis = Axis::over([240.0, 18_000.0].into_iter()).expect("there are values");
        assert_eq!((axis.first, axis.last), (2, 5));
        assert!((axis.x(100.0) - LEFT).abs() < 1e-9);
        assert!((axis.x(100_000.0) - RIGHT).abs() < 1e-9);
        assert!(axis.x(1_000.0) < axis.x(10_000.0));
    }

    #[test]
    fn one_value_on_a_decade_has_an_axis_and_a_bar() {
        let axis = Axis::over([100.0].into_iter()).expect("there is a value");
        assert_eq!((axis.first, axis.last), (1, 2));
        assert!(Axis::over([0.0].into_iter()).is_none());
        assert!(Axis::over([].into_iter()).is_none());
    }
}
