//! The report as one self-contained page.

use std::fmt::Write as _;

use super::chart::svg;
use super::{Grid, Report};

/// Light and dark colours, by the reader's preference.
const STYLE: &str = "\
:root{color-scheme:light dark;--back:#fff;--text:#1d2129;--dim:#626b78;--line:#dfe3e8;
--bar0:#2563c9;--bar1:#a9c4ee;--limit:#c2410c}
@media(prefers-color-scheme:dark){:root{--back:#15181d;--text:#e4e7ec;--dim:#98a2b3;
--line:#323843;--bar0:#6ea2f5;--bar1:#35507e;--limit:#fb923c}}
body{margin:2rem auto;max-width:76rem;padding:0 1rem;background:var(--back);color:var(--text);
font:15px/1.5 system-ui,sans-serif}
h1{font-size:1.5rem}h2{font-size:1.1rem;margin-top:2rem}
svg{width:100%;height:auto}svg text{fill:var(--text);font:13px system-ui,sans-serif}
svg .title,svg .who{font-weight:600}svg .small{fill:var(--dim);font-size:11px}
svg .bar0{fill:var(--bar0)}svg .bar1{fill:var(--bar1)}svg .grid{stroke:var(--line)}
svg .limit{stroke:var(--limit);stroke-dasharray:4 3}
svg .whisker{stroke:var(--text);stroke-width:1.2;fill:none}
.wide{overflow-x:auto}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:13px}
th,td{padding:.3rem .6rem;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}
th:nth-child(-n+2),td:nth-child(-n+2){text-align:left}th{color:var(--dim);font-weight:600}
p,li{max-width:60rem}.dim{color:var(--dim)}";

impl Report {
    /// A complete page: chart, table, how to read it, notes and the machine.
    pub(crate) fn to_html(&self) -> String {
        let title = escaped(&format!("doorbell lab {}", self.scenario));
        let mut out = format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
             <title>{title}</title>\n<style>\n{STYLE}\n</style></head>\n<body>\n<h1>{title}</h1>\n"
        );
        out.push_str(&svg(self));
        out.push_str(&html_table(&self.grid()));
        let _ = writeln!(out, "<p>{}</p>", escaped(&self.gist));
        if let Some(counters) = self.counters_grid() {
            out.push_str("<h2>The contestants' own counters</h2>\n");
            out.push_str(&html_table(&counters));
        }
        for table in &self.side_tables {
            let _ = writeln!(out, "<h2>{}</h2>", escaped(table.caption));
            out.push_str(&html_table(&table.grid()));
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
}

fn html_table(grid: &Grid) -> String {
    let mut out = String::from("<div class=\"wide\"><table>\n<thead>");
    out.push_str(&html_row("th", &grid.titles));
    out.push_str("</thead>\n<tbody>\n");
    for row in &grid.rows {
        out.push_str(&html_row("td", row));
        out.push('\n');
    }
    out.push_str("</tbody></table></div>\n");
    out
}

fn html_row(tag: &str, cells: &[String]) -> String {
    let mut out = String::from("<tr>");
    for cell in cells {
        let _ = write!(out, "<{tag}>{}</{tag}>", escaped(cell));
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
