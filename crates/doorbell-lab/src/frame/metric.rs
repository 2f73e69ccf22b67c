//! Metrics, and the columns that show them.

/// A metric, and the titles of the columns of its median and of its spread; without a column if empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Metric {
    pub(crate) title: &'static str,
    /// With the unit last.
    pub(crate) name: &'static str,
    pub(crate) spread: &'static str,
}

impl Metric {
    /// The titles of its columns, and whether each has the spread.
    pub(crate) fn columns(&self) -> impl Iterator<Item = (&'static str, bool)> {
        let both = [(self.title, false), (self.spread, true)];
        both.into_iter().filter(|(title, _)| !title.is_empty())
    }
}

/// The names of a metric's minimum and maximum: the word stands before the unit.
pub(crate) fn ends(metric: &str) -> [String; 2] {
    let (name, unit) = parts(metric);
    ["min", "max"].map(|end| [&name[..], &[end], &unit[..]].concat().join("_"))
}

/// The name of a metric's coefficient of variation.
pub(crate) fn variation(metric: &str) -> String {
    [&parts(metric).0[..], &["cv_percent"]].concat().join("_")
}

/// The words of the name, and those of the unit.
fn parts(metric: &str) -> (Vec<&str>, Vec<&str>) {
    const UNITS: [&str; 8] = ["us", "ns", "per", "percent", "count", "x", "bytes", "s"];
    let mut parts: Vec<_> = match metric {
        "ratio_to_limit_x" => vec!["ratio", "x"],
        name => name.split('_').collect(),
    };
    let at = parts.iter().position(|part| UNITS.contains(part));
    let unit = parts.split_off(at.unwrap_or(parts.len()));
    (parts, unit)
}
