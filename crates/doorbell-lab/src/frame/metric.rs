//! Metrics, and the columns that show them.

use crate::report::{Chart, Column};

/// A metric, and the titles of the columns of its median and of its spread.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Metric {
    pub(crate) title: &'static str,
    /// With the unit last.
    pub(crate) name: &'static str,
    /// The column of the spread; none if empty.
    spread: &'static str,
    is_shown: bool,
}

/// A metric with a column.
pub(crate) const fn figure(title: &'static str, name: &'static str) -> Metric {
    Metric {
        title,
        name,
        spread: "",
        is_shown: true,
    }
}

/// How many times the baseline's.
pub(crate) const fn ratio(title: &'static str) -> Metric {
    figure(title, "ratio_x").spread("x spread")
}

/// The percentiles of late times, and the greatest.
pub(crate) const P50: Metric = figure("p50 us", "p50_us").spread("p50 spread");
pub(crate) const P99: Metric = figure("p99 us", "p99_us").spread("p99 spread");
pub(crate) const MAX: Metric = figure("max us", "max_us").spread("max spread");

impl Metric {
    /// With a column for minimum and maximum; without one, if the title is empty.
    pub(crate) const fn spread(self, spread: &'static str) -> Self {
        Self { spread, ..self }
    }

    /// Without columns.
    pub(crate) const fn hidden(self) -> Self {
        Self {
            is_shown: false,
            ..self.spread("")
        }
    }

    /// Its columns.
    pub(crate) fn columns(self) -> impl Iterator<Item = Column> {
        let of = |title, is_spread| Column {
            title,
            metric: self.name,
            is_spread,
        };
        let shown = self.is_shown.then(|| of(self.title, false));
        let spread = (!self.spread.is_empty()).then(|| of(self.spread, true));
        shown.into_iter().chain(spread)
    }
}

/// The names of a metric's minimum and maximum: the word stands before the unit.
pub(crate) fn ends(metric: &str) -> [String; 2] {
    const UNITS: [&str; 8] = ["us", "ns", "per", "percent", "count", "x", "bytes", "s"];
    let parts: Vec<_> = match metric {
        "ratio_to_limit_x" => vec!["ratio", "x"],
        name => name.split('_').collect(),
    };
    let at = parts.iter().position(|part| UNITS.contains(part));
    let (name, unit) = parts.split_at(at.unwrap_or(parts.len()));
    ["min", "max"].map(|end| [name, &[end], unit].concat().join("_"))
}

/// A chart of these metrics.
pub(crate) const fn chart(
    title: &'static str,
    unit: &'static str,
    series: &'static [Metric],
) -> Chart {
    Chart {
        title,
        unit,
        series,
    }
}
