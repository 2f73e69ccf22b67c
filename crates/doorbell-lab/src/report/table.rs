//! The report as text: aligned columns, then an explanation.

use super::{Report, SideTable};

/// The first columns hold names and are aligned on the left, all others on the right.
const NAME_COLUMNS: usize = 2;
/// The greatest width of a table, unless all columns are requested.
pub(super) const TABLE_MAX: usize = 120;
/// The greatest length of a line below the table.
const LINE_MAX: usize = 100;
/// The gap between two columns.
const GAP: &str = "  ";

impl Report {
    /// The tables, and below them what they show, how to read them and what is special about this run.
    /// Omits columns that do not fit, unless it `is_wide`.
    pub(crate) fn to_table(&self, is_wide: bool) -> String {
        let mut text = self.tables(is_wide);
        text.push('\n');
        for sentence in self.reading() {
            push_wrapped(&mut text, &sentence);
        }
        text.push('\n');
        for note in &self.notes {
            push_wrapped(&mut text, note);
        }
        text.push_str(&self.machine_line());
        text
    }

    /// The main table, and below it what it shows.
    pub(crate) fn to_short_table(&self, is_wide: bool) -> String {
        let mut text = self.main.clone().printed(is_wide);
        text.push('\n');
        push_wrapped(&mut text, &self.gist);
        text
    }

    /// What it shows, with its scenario's name.
    pub(crate) fn gist_line(&self) -> String {
        let mut text = String::new();
        push_wrapped(&mut text, &format!("{}: {}", self.scenario, self.gist));
        text
    }

    /// All tables, and what they show.
    fn tables(&self, is_wide: bool) -> String {
        let mut text = self.main.clone().printed(is_wide);
        for table in &self.side_tables {
            text.push('\n');
            push_wrapped(&mut text, table.caption);
            text.push_str(&table.clone().printed(is_wide));
        }
        text.push('\n');
        push_wrapped(&mut text, &self.gist);
        text
    }

    /// The machine on which the figures were taken.
    pub(crate) fn machine_line(&self) -> String {
        let mut text = String::new();
        push_wrapped(&mut text, &format!("machine: {}", self.machine));
        text
    }
}

/// Appends a paragraph in lines of at most [`LINE_MAX`] characters, indented after the first.
pub(super) fn push_wrapped(text: &mut String, paragraph: &str) {
    let mut column = 0;
    for word in paragraph.split_whitespace() {
        let width = word.chars().count();
        if column > 0 && column + 1 + width > LINE_MAX {
            text.push_str("\n ");
            column = 1;
        }
        if column > 0 {
            text.push(' ');
            column += 1;
        }
        text.push_str(word);
        column += width;
    }
    text.push('\n');
}

/// The notes of several runs, without duplicates.
pub(crate) fn notes_once(reports: &[Report]) -> String {
    let mut said: Vec<&String> = Vec::new();
    let mut text = String::new();
    for note in reports.iter().flat_map(|report| &report.notes) {
        if !said.contains(&note) {
            said.push(note);
            push_wrapped(&mut text, note);
        }
    }
    text
}

impl SideTable {
    /// The table as text: with all columns, or with those that fit and a line that names the omitted ones.
    fn printed(mut self, is_wide: bool) -> String {
        let left_out = self.fit(if is_wide { usize::MAX } else { TABLE_MAX });
        let mut text = self.aligned();
        if !left_out.is_empty() {
            let left_out = left_out.join(", ");
            push_wrapped(&mut text, &format!("Only with --wide: {left_out}."));
        }
        text
    }

    /// Removes columns until the table is at most `most` wide: first spreads from the last one on, then
    /// others from the last one on, never names. Returns the titles of the removed columns.
    pub(super) fn fit(&mut self, most: usize) -> Vec<&'static str> {
        let mut left_out = Vec::new();
        while self.width() > most {
            let mut figures = NAME_COLUMNS..self.titles.len();
            let is_spread = |place: &usize| self.titles[*place].ends_with("spread");
            let spread = figures.clone().rev().find(is_spread);
            let Some(place) = spread.or_else(|| figures.next_back()) else {
                break;
            };
            let title = self.titles.remove(place);
            for row in &mut self.rows {
                row.remove(place);
            }
            left_out.push(title);
        }
        left_out.reverse();
        left_out
    }

    pub(super) fn width(&self) -> usize {
        let widths = widths(&self.with_titles());
        widths.iter().sum::<usize>() + GAP.len() * widths.len().saturating_sub(1)
    }

    pub(super) fn aligned(&self) -> String {
        aligned(&self.with_titles(), NAME_COLUMNS)
    }

    fn with_titles(&self) -> Vec<Vec<String>> {
        let titles = self.titles.iter().map(|&title| title.to_owned()).collect();
        [titles].into_iter().chain(self.rows.clone()).collect()
    }
}

/// The titles, which are the first row, a rule and the other rows, each column as wide as its widest cell. So many
/// columns begin at the left, the others end at the right.
pub(super) fn aligned(rows: &[Vec<String>], left: usize) -> String {
    let widths = widths(rows);
    let rule: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
    let mut text = String::new();
    let (titles, others) = rows.split_at(rows.len().min(1));
    for row in titles.iter().chain([&rule]).chain(others) {
        let cells = row.iter().zip(&widths).enumerate();
        let cells = cells.map(|(place, (cell, &width))| match place {
            _ if place < left => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        let cells: Vec<String> = cells.collect();
        text.push_str(cells.join(GAP).trim_end());
        text.push('\n');
    }
    text
}

fn widths(rows: &[Vec<String>]) -> Vec<usize> {
    let widest = |place: usize| {
        let cells = rows.iter().map(|row| row[place].chars().count());
        cells.max().unwrap_or_default()
    };
    (0..rows.first().map_or(0, Vec::len)).map(widest).collect()
}
