//! The report as JSON.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{MeasuredOn, Report, Row, SideTable};
use crate::error::LabError;

#[derive(Serialize)]
struct JsonReport<'a> {
    scenario: &'a str,
    machine: &'a MeasuredOn,
    rounds: u32,
    rows: Vec<JsonRow<'a>>,
    gist: &'a str,
    notes: &'a [String],
    tables: Vec<JsonTable<'a>>,
}

/// An additional table, as it is printed.
#[derive(Serialize)]
struct JsonTable<'a> {
    caption: &'a str,
    titles: &'a [&'static str],
    rows: &'a [Vec<String>],
}

#[derive(Serialize)]
struct JsonList<'a> {
    scenario: &'a str,
    reports: Vec<JsonReport<'a>>,
}

/// The common metrics and a contestant's own counters, in one map.
#[derive(Serialize)]
struct JsonRow<'a> {
    contestant: &'a str,
    variant: &'a str,
    metrics: BTreeMap<&'a str, f64>,
}

impl Report {
    /// One JSON object, without unknown metrics.
    ///
    /// # Errors
    /// [`LabError::Json`] if a figure has no JSON form.
    pub(crate) fn to_json(&self) -> Result<String, LabError> {
        Ok(serde_json::to_string_pretty(&self.json())?)
    }

    fn json(&self) -> JsonReport<'_> {
        JsonReport {
            scenario: self.scenario,
            machine: &self.machine,
            rounds: self.rounds,
            rows: self.rows.iter().map(json_row).collect(),
            gist: &self.gist,
            notes: &self.notes,
            tables: self.side_tables.iter().map(json_table).collect(),
        }
    }
}

/// Several reports as one JSON object.
pub(crate) fn to_json_list(scenario: &str, reports: &[Report]) -> Result<String, LabError> {
    let list = JsonList {
        scenario,
        reports: reports.iter().map(Report::json).collect(),
    };
    Ok(serde_json::to_string_pretty(&list)?)
}

fn json_table(table: &SideTable) -> JsonTable<'_> {
    JsonTable {
        caption: table.caption,
        titles: &table.titles,
        rows: &table.rows,
    }
}

fn json_row(row: &Row) -> JsonRow<'_> {
    JsonRow {
        contestant: &row.contestant,
        variant: &row.variant,
        metrics: row.metrics.iter().collect(),
    }
}
