//! Scenarios without a physical limit: contestants run interleaved in rounds, and each is compared with a
//! baseline of the same round. No round is dropped.

mod report;
mod rows;
mod runner;

use super::contestant::Stage;
use super::options::Options;
use crate::error::LabError;
use crate::measure::median;
use crate::report::{Chart, Column, MainTable, Report, Row, SideTable};

use runner::Figures;
pub(crate) use runner::{Outcome, Trial, Work};

/// The parts of a scenario beside its contestants.
#[derive(Debug)]
pub(super) struct Plan {
    /// Its name.
    pub(super) scenario: &'static str,
    /// The work of a contestant.
    pub(super) work: Work,
    /// The figure whose ratio to the baseline is reported, as `ratio_x`.
    pub(super) compared: &'static str,
    /// Figures whose spread over the rounds is kept, with the names of minimum and maximum.
    pub(super) spreads: &'static [[&'static str; 3]],
    /// The columns of the table.
    pub(super) columns: Vec<Column>,
    /// How to read it.
    /// The chart.
    pub(super) chart: Chart,
    /// The conclusion from all rows.
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

/// A figure of one row divided by that of another contestant in the same variant: the median of the ratios
/// of the rounds, or the ratio of the rows' figures if no round has it.
pub(super) fn ratio(rated: &[Rated<'_>], one: &Rated<'_>, other: &str, name: &str) -> Option<f64> {
    let variant = &one.row.variant;
    let is_other = |row: &&Rated<'_>| row.row.contestant == other && row.row.variant == *variant;
    let other = rated.iter().find(is_other)?;
    let pairs = one
        .over_rounds(name)
        .into_iter()
        .zip(other.over_rounds(name));
    let ratios = pairs.map(|(own, theirs)| own / theirs);
    let ratios: Vec<f64> = ratios.filter(|ratio| ratio.is_finite()).collect();
    median(&ratios).or_else(|| {
        let of_all = |row: &Rated<'_>| row.row.metrics.get(name);
        Some(of_all(one)? / of_all(other)?).filter(|ratio| ratio.is_finite())
    })
}

/// A scenario's conclusion from its rows.
#[derive(Debug)]
pub(super) struct Conclusion {
    /// In one sentence.
    pub(super) gist: String,
    /// A main table of its own form.
    pub(super) main: Option<MainTable>,
    /// Tables laid out as other ones, such as a seed's.
    pub(super) side_tables: Vec<SideTable>,
}

impl Conclusion {
    /// A conclusion that is only a sentence.
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
/// Any [`LabError`], for example too few CPUs, a filter that matches no contestant, or a failing
/// contestant.
pub(super) fn run(
    plan: Plan,
    options: &Options,
    contestants: impl FnOnce(Stage) -> Vec<Box<dyn Trial>>,
) -> Result<Report, LabError> {
    report::run(plan, options, contestants)
}
