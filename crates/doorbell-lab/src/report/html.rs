//! The report as one self-contained page.

use std::fmt::Write as _;

use super::{Chart, Report, known, spread};

/// Light and dark colours, by the reader's preference.
const STYLE: &str = include_str!("page.css");

impl Report {
    /// A complete page: the chart, and what the program prints.
    pub(crate) fn to_html(&self) -> String {
        let title = escaped(&format!("doorbell lab {}", self.scenario));
        format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
             <title>{title}</title>\n<style>\n{STYLE}</style></head>\n<body>\n<h1>{title}</h1>\n{}\
             <pre class=\"wide\">{}</pre>\n</body></html>\n",
            self.bars(),
            escaped(&self.to_table(true)),
        )
    }

    /// The chart: a table with a bar for each figure, on a logarithmic scale. Empty without figures.
    fn bars(&self) -> String {
        let Chart { series, .. } = &self.chart;
        let figures = self.rows.iter().flat_map(|row| {
            let known = series.iter().filter_map(move |metric| {
                let value = row.metrics.get(metric.name)?;
                Some((row, metric, value))
            });
            known.filter(|(.., value)| *value > 0.0)
        });
        let logs = figures.clone().map(|(.., value)| value.log10());
        let (low, high) = logs.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), log| {
            (low.min(log), high.max(log))
        });
        let mut rows = String::new();
        for (row, metric, value) in figures {
            // The shortest bar has a tenth of the width.
            let width = 10.0 + 90.0 * (value.log10() - low) / (high - low).max(1e-9);
            let who = format!("{} ({}), {}", row.contestant, row.variant, metric.title);
            let _ = writeln!(
                rows,
                "<tr><td>{}</td><td>{}</td><td>{}</td><td><i class=\"bar\" style=\"width:{width:.1}%\"></i></td></tr>",
                escaped(&who),
                known(Some(value)),
                spread(row, metric.name),
            );
        }
        if rows.is_empty() {
            return rows;
        }
        let title = escaped(&format!("{}, {}", self.chart.title, self.chart.unit));
        format!(
            "<h2>{title}</h2>\n<div class=\"wide\"><table class=\"bars\">\n{rows}</table></div>\n"
        )
    }
}

/// Escapes text for HTML.
fn escaped(text: &str) -> String {
    // The ampersand first, since the others bring more of it.
    let text = text.replace('&', "&amp;").replace('"', "&quot;");
    text.replace('<', "&lt;").replace('>', "&gt;")
}
