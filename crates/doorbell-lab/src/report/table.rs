//! The report as text: aligned columns, then how to read them.

use super::{Grid, Report};

/// The first columns hold names and are aligned on the left, all others on the right.
const NAME_COLUMNS: usize = 2;
/// How long a line below the table may be.
const LINE_MAX: usize = 100;
/// Between two columns.
const GAP: &str = "  ";

impl Report {
    /// The table, and under it what it shows, how to read it and what is particular about this run.
    pub fn to_table(&self) -> String {
        let mut text = self.grid().aligned();
        if let Some(counters) = self.counters_grid() {
            text.push('\n');
            text.push_str(&counters.aligned());
        }
        for table in &self.side_tables {
            text.push('\n');
            push_wrapped(&mut text, table.caption);
            text.push_str(&table.grid().aligned());
        }
        text.push('\n');
        push_wrapped(&mut text, &self.gist);
        text.push('\n');
        for sentence in self.reading {
            push_wrapped(&mut text, sentence);
        }
        text.push('\n');
        for note in &self.notes {
            push_wrapped(&mut text, note);
        }
        text.push_str(&self.machine_line());
        text
    }

    /// The table, and under it what it shows and what is particular about this run.
    pub(crate) fn to_short_table(&self) -> String {
        let mut text = self.grid().aligned();
        text.push('\n');
        push_wrapped(&mut text, &self.gist);
        for note in &self.notes {
            push_wrapped(&mut text, note);
        }
        text
    }

    /// What the figures were taken on.
    pub(crate) fn machine_line(&self) -> String {
        let mut text = String::new();
        push_wrapped(&mut text, &format!("machine: {}", self.machine));
        text
    }
}

/// Adds a paragraph in lines of at most [`LINE_MAX`] characters; all but its first are indented.
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

impl Grid {
    /// The rows under their titles and a rule, each column as wide as its widest cell.
    pub(super) fn aligned(&self) -> String {
        let widths = self.widths();
        let rule: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
        let mut text = String::new();
        for row in [&self.titles, &rule].into_iter().chain(&self.rows) {
            let cells: Vec<String> = row
                .iter()
                .zip(&widths)
                .enumerate()
                .map(|(place, (cell, &width))| {
                    if place < NAME_COLUMNS {
                        format!("{cell:<width$}")
                    } else {
                        format!("{cell:>width$}")
                    }
                })
                .collect();
            text.push_str(cells.join(GAP).trim_end());
            text.push('\n');
        }
        text
    }

    fn widths(&self) -> Vec<usize> {
        let widest = |place: usize| {
            let cells = self.rows.iter().map(|row| row[place].chars().count());
            cells.fold(self.titles[place].chars().count(), usize::max)
        };
        (0..self.titles.len()).map(widest).collect()
    }
}
