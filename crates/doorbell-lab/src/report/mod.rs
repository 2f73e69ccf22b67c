//! The results of a scenario, and their three forms: a table, JSON and a page. And any JSON as text.

mod html;
pub(crate) mod picture;
mod svg;
mod table;
mod value;

pub(crate) use table::notes_once;
pub(crate) use value::text_of;

use std::collections::BTreeMap;
use std::fmt;

use anyhow::Result;
use indicatif::HumanCount;
use serde::{Deserialize, Serialize};

use crate::frame::{Metric, ends, variation};
use crate::measure::{Machine, variation_percent};
use crate::text::Text;

/// Figures by name. Names end with their unit: `p50_ns`, `ratio_to_limit_x`, `rounds_kept_count`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Metrics(BTreeMap<String, f64>);

impl Metrics {
    /// Adds a figure, unless it is unknown.
    pub(crate) fn put(&mut self, name: &str, value: Option<f64>) {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            self.0.insert(name.to_owned(), value);
        }
    }

    /// Adds how much a figure varies over several runs; nothing for a single one.
    pub(crate) fn put_variation(&mut self, name: &str, values: &[f64]) {
        if values.len() > 1 {
            self.put(&variation(name), variation_percent(values));
        }
    }

    /// The same of each figure.
    pub(crate) fn put_variations(&mut self, runs: &[Self]) {
        let names: Vec<_> = self.0.keys().cloned().collect();
        for name in names {
            let values: Vec<_> = runs.iter().filter_map(|run| run.get(&name)).collect();
            self.put_variation(&name, &values);
        }
    }

    /// A figure, if it is known.
    pub(crate) fn get(&self, name: &str) -> Option<f64> {
        self.0.get(name).copied()
    }
}

/// One contestant in one variant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) contestant: String,
    pub(crate) variant: String,
    pub(crate) metrics: Metrics,
}

impl Row {
    pub(crate) fn new(contestant: &str, variant: &str, metrics: Metrics) -> Self {
        Self {
            contestant: contestant.to_owned(),
            variant: variant.to_owned(),
            metrics,
        }
    }
}

/// The chart of the page.
#[derive(Debug, Clone)]
pub(crate) struct Chart {
    pub(crate) title: &'static str,
    pub(crate) unit: &'static str,
    /// The bars of each row.
    pub(crate) series: Vec<Metric>,
}

/// A table of texts, such as one below the main one. The first two columns are names.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct SideTable {
    /// Its caption.
    pub(crate) caption: &'static str,
    /// The columns.
    pub(crate) titles: Vec<&'static str>,
    /// The rows, each with one cell per column.
    pub(crate) rows: Vec<Vec<String>>,
}

/// All results of a scenario. In the JSON there are no columns: a metric that is not known is absent.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Report {
    /// The scenario's name.
    pub(crate) scenario: &'static str,
    /// The machine on which the figures were taken.
    pub(crate) machine: MeasuredOn,
    /// How often each contestant was run.
    pub(crate) rounds: u32,
    /// The figures.
    pub(crate) rows: Vec<Row>,
    /// What the table shows, in one sentence.
    pub(crate) gist: String,
    /// What is special about this run.
    pub(crate) notes: Vec<String>,
    /// Tables laid out as other ones, such as a seed's.
    #[serde(rename = "tables")]
    pub(crate) side_tables: Vec<SideTable>,
    /// The main table.
    #[serde(skip)]
    pub(crate) main: SideTable,
    /// The chart.
    #[serde(skip)]
    pub(crate) chart: Chart,
}

/// Whether a name is the wanted one, in which a star stands for anything.
pub(crate) fn fits(wanted: &str, name: &str) -> bool {
    let ends = |(start, end): (&str, &str)| name.starts_with(start) && name.ends_with(end);
    wanted.split_once('*').map_or(wanted == name, ends)
}

/// What the rows of a scenario show together, by its text.
pub(crate) fn gist_of(text: Text, section: &str, rows: &[Row]) -> String {
    let figure = |choice: &str, [contestant, variant, metric]: [&str; 3]| {
        let is_it = |row: &&Row| fits(contestant, &row.contestant) && fits(variant, &row.variant);
        let rows = rows.iter().filter(is_it);
        let mut values = rows.filter_map(|row| row.metrics.get(metric));
        known(match choice {
            "least" => values.reduce(f64::min),
            "most" => values.reduce(f64::max),
            "last" => values.next_back(),
            _ => values.next(),
        })
    };
    text.gist(section, figure).unwrap_or_default()
}

/// As JSON, on several lines.
pub(crate) fn to_json(value: &impl Serialize) -> Result<String> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
}

/// The machine on which figures were taken.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub(crate) enum MeasuredOn {
    /// This host.
    Host(Machine),
    /// A simulated machine; all times are simulated time.
    Simulated(SimulatedMachine),
}

/// A simulated machine, and how often it was run.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct SimulatedMachine {
    /// The name of its profile.
    pub(crate) profile: String,
    /// Which machine that is.
    pub(crate) about: String,
    /// On how many cores doorbell had workers: each number that some row had.
    pub(crate) cores: Vec<usize>,
    /// Each row was run with the seeds from 0 to this number, exclusive.
    pub(crate) seeds: u32,
}

impl fmt::Display for MeasuredOn {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(machine) => machine.fmt(out),
            Self::Simulated(machine) => machine.fmt(out),
        }
    }
}

impl fmt::Display for SimulatedMachine {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cores: Vec<String> = self.cores.iter().map(usize::to_string).collect();
        let (profile, about, seeds, cores) =
            (&self.profile, &self.about, self.seeds, cores.join(", "));
        let parts = format!("as many parts of profile {profile} ({about}) as needed");
        write!(
            out,
            "simulated, {parts}; workers on {cores} cores; seeds 0..{seeds}"
        )
    }
}

impl Report {
    /// How to read it.
    fn reading(&self) -> Vec<String> {
        let is_simulated = matches!(self.machine, MeasuredOn::Simulated(_));
        let scenario = crate::scenario::of_name(self.scenario);
        scenario.map_or_else(Vec::new, |one| one.text.columns(is_simulated))
    }
}

/// A row for each contestant.
pub(crate) fn main_table(metrics: &[Metric], rows: &[Row], rounds: u32) -> SideTable {
    table_of("", metrics, rows.iter(), |row, metric| {
        let value = row.metrics.get(metric);
        match metric {
            "rounds_kept_count" => format!("{:.0}/{rounds}", value.unwrap_or_default()),
            _ => known(value),
        }
    })
}

/// A table with the columns of these metrics. `cell` is the text of a figure.
pub(crate) fn table_of<'a>(
    caption: &'static str,
    metrics: &[Metric],
    rows: impl Iterator<Item = &'a Row>,
    cell: impl Fn(&Row, &str) -> String,
) -> SideTable {
    let titles = metrics.iter().flat_map(Metric::columns);
    let titles = ["contestant", "variant"]
        .into_iter()
        .chain(titles.map(|(title, _)| title));
    let cells = |row: &Row| {
        let mut cells = vec![row.contestant.clone(), row.variant.clone()];
        for metric in metrics {
            let text = |(_, is_spread)| match metric.name {
                name if is_spread => spread(row, name),
                name => cell(row, name),
            };
            cells.extend(metric.columns().map(text));
        }
        cells
    };
    SideTable {
        caption,
        titles: titles.collect(),
        rows: rows.map(cells).collect(),
    }
}

/// The minimum and maximum of a metric over the rounds.
pub(crate) fn spread(row: &Row, metric: &str) -> String {
    let [low, high] = ends(metric).map(|name| row.metrics.get(&name));
    let ends = low.zip(high);
    let text = |(low, high)| format!("{}..{}", figure(low), figure(high));
    ends.map_or_else(not_available, text)
}

/// The text for an unknown figure.
fn not_available() -> String {
    "n/a".to_owned()
}

/// A figure, or the text for an unknown one.
pub(crate) fn known(value: Option<f64>) -> String {
    value.map_or_else(not_available, figure)
}

/// A number with about three significant digits, and commas between thousands.
pub(crate) fn figure(value: f64) -> String {
    let decimals = match value.abs() {
        0.0 => 0,
        size if size < 9.995 => 2,
        size if size < 99.95 => 1,
        _ => 0,
    };
    with_commas(&format!("{value:.decimals$}"))
}

fn with_commas(number: &str) -> String {
    let (sign, unsigned) = number.split_at(usize::from(number.starts_with('-')));
    let (whole, fraction) = unsigned.split_at(unsigned.find('.').unwrap_or(unsigned.len()));
    let whole = HumanCount(whole.parse().unwrap_or(u64::MAX));
    format!("{sign}{whole}{fraction}")
}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use tests::assert_fits;
