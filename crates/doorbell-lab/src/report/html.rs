//! The report as one self-contained page.

use std::fmt::Write as _;

use super::{Chart, Report, SideTable, known, spread};

/// Light and dark colours, by the reader's preference.
const STYLE: &str = include_str!("page.css");

impl Report {
    /// A complete page: chart, table, how to read it, notes and the machine.
    pub(crate) fn to_html(&self) -> String {
        let title = escaped(&format!("doorbell lab {}", self.scenario));
        let mut out = format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
             <title>{title}</title>\n<style>\n{STYLE}</style></head>\n<body>\n<h1>{title}</h1>\n"
        );
        out.push_str(&self.bars());
        out.push_str(&html_table(&self.main_table()));
        let _ = writeln!(out, "<p>{}</p>", escaped(&self.gist));
        for table in &self.side_tables {
            let _ = writeln!(out, "<h2>{}</h2>", escaped(table.caption));
            out.push_str(&html_table(table));
        }
        out.push_str("<h2>How to read it</h2>\n<ul>\n");
        for sentence in self.reading() {
            let _ = writeln!(out, "<li>{}</li>", escaped(&sentence));
        }
        out.push_str("</ul>\n<h2>This run</h2>\n<ul>\n");
        for note in &self.notes {
            let _ = writeln!(out, "<li>{}</li>", escaped(note));
        }
        let _ = writeln!(
            out,
            "</ul>\n<p class=\"dim\">{}</p>",
            escaped(&self.machine.to_string())
        );
        out.push_str("</body></html>\n");
        out
    }

    /// The chart: a table with a bar for each figure, on a logarithmic scale. Empty without figures.
    fn bars(&self) -> String {
        let Chart {
            title,
            unit,
            series,
        } = &self.chart;
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
        let title = escaped(&format!("{title}, {unit}"));
        format!(
            "<h2>{title}</h2>\n<div class=\"wide\"><table class=\"bars\">\n{rows}</table></div>\n"
        )
    }
}

fn html_table(table: &SideTable) -> String {
    let mut out = String::from("<div class=\"wide\"><table>\n<thead>");
    out.push_str(&html_row("th", &table.titles));
    out.push_str("</thead>\n<tbody>\n");
    for row in &table.rows {
        out.push_str(&html_row("td", row));
        out.push('\n');
    }
    out.push_str("</tbody></table></div>\n");
    out
}

fn html_row(tag: &str, cells: &[impl AsRef<str>]) -> String {
    let mut out = String::from("<tr>");
    for cell in cells {
        let _ = write!(out, "<{tag}>{}</{tag}>", escaped(cell.as_ref()));
    }
    out + "</tr>"
}

/// Escapes text for HTML.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            other => out.push(other),
        }
    }
    out
}
