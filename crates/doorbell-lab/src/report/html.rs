//! The report as one self-contained page.

use super::svg::{self, Bar};
use super::{Chart, Report, figure, spread};

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

    /// The chart: a bar for each figure. Empty without figures.
    fn bars(&self) -> String {
        let Chart {
            title,
            unit,
            series,
        } = &self.chart;
        let mut all = Vec::new();
        for (row, metric) in self
            .rows
            .iter()
            .flat_map(|row| series.iter().map(move |one| (row, one)))
        {
            let value = row.metrics.get(metric.name);
            let Some(value) = value.filter(|value| *value > 0.0) else {
                continue;
            };
            let name = format!("{} ({}), {}", row.contestant, row.variant, metric.title);
            all.push(Bar {
                group: "",
                name: escaped(&name),
                colour: "#2563c9",
                parts: vec![(value, 1.0)],
                text: format!("{}; {}", figure(value), spread(row, metric.name)),
            });
        }
        let least = all.iter().map(|bar| bar.parts[0].0).reduce(f64::min);
        let longest = all.iter().map(|bar| bar.name.chars().count()).max();
        let Some((least, longest)) = least.zip(longest) else {
            return String::new();
        };
        let left = 7.5 * longest as f64 + 10.0;
        let title = escaped(&format!("{title}, {unit}"));
        let picture = svg::bars(&title, [left, least / 1.5], &all);
        format!("<div class=\"wide\">{picture}</div>\n")
    }
}

/// Escapes text for HTML.
fn escaped(text: &str) -> String {
    // The ampersand first, since the others bring more of it.
    let text = text.replace('&', "&amp;").replace('"', "&quot;");
    text.replace('<', "&lt;").replace('>', "&gt;")
}
