//! Scenarios that have no physical limit: contestants interleaved in rounds, and compared with one
//! of them, the baseline, in the same round. No round is dropped.

mod report;
mod rows;
mod runner;

use super::contestant::Stage;
use super::options::Options;
use crate::error::LabError;
use crate::report::{Chart, Column, MainTable, Report, Row, SideTable};

use runner::Figures;
pub use runner::{Outcome, Trial, Work};

/// What a scenario is made of, besides its contestants.
#[derive(Debug)]
pub(super) struct Plan {
    /// Its name.
    pub(super) scenario: &'static str,
    /// How much a contestant does.
    pub(super) work: Work,
    /// The figure of which ratios to the baseline are taken, as `ratio_x`.
    pub(super) compared: &'static str,
    /// Figures whose spread over the rounds is kept, and the names of its ends.
    pub(super) spreads: &'static [[&'static str; 3]],
    /// What the table shows.
    pub(super) columns: Vec<Column>,
    /// How to read it.
    pub(super) reading: &'static [&'static str],
    /// The picture.
    pub(super) chart: Chart,
    /// What all rows together say.
    pub(super) conclude: fn(&[Rated<'_>]) -> Conclusion,
}

/// A row, and the rounds behind it.
#[derive(Debug)]
pub(super) struct Rated<'a> {
    /// The row.
    pub(super) row: &'a Row,
    /// All figures of every round.
    pub(super) rounds: &'a [Figures],
}

impl Rated<'_> {
    /// One figure of every round that has it.
    pub(super) fn over_rounds(&self, name: &str) -> Vec<f64> {
        rows::over_rounds(self.rounds, name)
    }
}

/// What a scenario says of its rows.
#[derive(Debug)]
pub(super) struct Conclusion {
    /// In one sentence.
    pub(super) gist: String,
    /// As a table of its own form.
    pub(super) main: Option<MainTable>,
    /// As tables that mirror somebody else's.
    pub(super) side_tables: Vec<SideTable>,
}

impl Conclusion {
    /// Nothing but a sentence.
    pub(super) fn in_words(gist: String) -> Self {
        Self {
            gist,
            main: None,
            side_tables: Vec::new(),
        }
    }
}

/// Runs a scenario.
///
/// # Errors
/// Any [`LabError`]: too few CPUs, a filter that leaves nobody, a contestant that fails.
pub(super) fn run(
    plan: Plan,
    options: &Options,
    contestants: impl FnOnce(Stage) -> Vec<Box<dyn Trial>>,
) -> Result<Report, LabError> {
    report::run(plan, options, contestants)
}
