//! The text of a scenario: what it measures, examples, and the meaning of its columns. Each scenario has such a file.

use crate::frame::Metric;
use crate::report::Chart;

/// The sections of one file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Text(pub(crate) &'static str);

/// When a percentile exists: a part of the explanation of every table with percentiles.
const ENOUGH: &str = "A percentile needs at least 10 times beyond it, so p99 needs 1,000 times. If every round has \
     enough, it is taken in each round. Otherwise it is taken over all rounds together and has no spread. If those are \
     too few, it is n/a. max is the maximum over all rounds.";

impl Text {
    /// One line.
    pub(crate) fn about(self) -> &'static str {
        let line = self.0.lines().next().unwrap_or_default();
        line.trim_start_matches("# ")
    }

    /// The line and the paragraphs below it.
    pub(crate) fn long(self) -> String {
        let paragraphs = paragraphs(self.section(""), "\n\n");
        [&[self.about().to_owned()], &paragraphs[..]]
            .concat()
            .join("\n\n")
    }

    /// The lines of a section, such as examples.
    pub(crate) fn lines(self, section: &str) -> Vec<&'static str> {
        let lines = self.section(section).lines().map(str::trim);
        lines.filter(|line| !line.is_empty()).collect()
    }

    /// How to read the columns, on this host or on a simulated machine.
    pub(crate) fn columns(self, is_simulated: bool) -> Vec<String> {
        let with_sim = self.section("Columns with --sim");
        if is_simulated && !with_sim.is_empty() {
            return paragraphs(with_sim, "\n- ");
        }
        let text = self.section("Columns");
        let needs_more = text.contains("p99") && !text.contains("A percentile is taken");
        let mut all = paragraphs(text, "\n- ");
        all.extend(needs_more.then(|| ENOUGH.to_owned()));
        all
    }

    /// What the rows show together, from a section with a figure's name in each place:
    /// `{contestant | variant | metric}`, perhaps after `least |`, `most |` or `last |` of several rows. `None` without
    /// the section.
    pub(crate) fn gist(
        self,
        section: &str,
        figure: impl Fn(&str, [&str; 3]) -> String,
    ) -> Option<String> {
        let text = paragraphs(self.section(section), "\n\n").join(" ");
        let mut parts = text.split('{');
        let mut gist = parts.next().filter(|_| !text.is_empty())?.to_owned();
        for part in parts {
            let (place, rest) = part.split_once('}')?;
            let names: Vec<_> = place.split('|').map(str::trim).collect();
            let (choice, names) = names.split_at(names.len().checked_sub(3)?);
            let choice = choice.first().copied().unwrap_or_default();
            gist += &figure(choice, names.try_into().ok()?);
            gist += rest;
        }
        Some(gist)
    }

    /// The metrics of a section, in the order of their columns: `- name: title, title of the spread`. Of each the
    /// minimum and the maximum over the rounds are in the JSON too.
    pub(crate) fn metrics(self, section: &str) -> Vec<Metric> {
        let items = self.section(section).lines();
        let items = items.filter_map(|line| line.strip_prefix("- "));
        let metric = |item: &'static str| {
            let (name, titles) = item.split_once(": ").unwrap_or((item, ""));
            let (title, spread) = titles.split_once(", ").unwrap_or((titles, ""));
            Metric {
                title,
                name,
                spread,
            }
        };
        items.map(metric).collect()
    }

    /// The chart of a section: `title | unit | metric, metric`.
    pub(crate) fn chart(self, section: &str, metrics: &[Metric]) -> Chart {
        let mut parts = self.section(section).trim().split('|').map(str::trim);
        let [title, unit, names] = std::array::from_fn(|_| parts.next().unwrap_or_default());
        let of = |name| metrics.iter().find(|metric| metric.name == name);
        Chart {
            title,
            unit,
            series: names.split(", ").filter_map(of).copied().collect(),
        }
    }

    /// The value of an item `- name: value` of a section.
    pub(crate) fn value(self, section: &str, name: &str) -> Option<&'static str> {
        let mut items = self.section(section).lines();
        items.find_map(|line| {
            let value = line.strip_prefix("- ")?.strip_prefix(name)?;
            value.strip_prefix(": ")
        })
    }

    /// The items of a section's list.
    pub(crate) fn items(self, section: &str) -> Vec<String> {
        let items = paragraphs(self.section(section), "\n- ");
        let items = items.iter().map(|item| item.trim_start_matches("- "));
        items.map(str::to_owned).collect()
    }

    /// What follows the options in its help.
    pub(crate) fn after_help(self) -> String {
        let mut text = format!("Examples:\n  {}\n", self.lines("Examples").join("\n  "));
        for (title, is_simulated) in [("Columns", false), ("Columns with --sim", true)] {
            if !self.section(title).is_empty() {
                let sentences = self.columns(is_simulated).join("\n  ");
                text = format!("{text}\n{title}:\n  {sentences}\n");
            }
        }
        text + "\nIn the JSON, a metric that could not be taken is absent. Progress goes to standard error."
    }

    /// The text of a section; of what stands before all sections, if there is no title.
    pub(crate) fn section(self, title: &str) -> &'static str {
        let mut sections = self.0.split("\n## ");
        if title.is_empty() {
            let first = sections.next().unwrap_or_default();
            return first.split_once('\n').map_or("", |(_, rest)| rest);
        }
        let found = sections.find_map(|section| section.strip_prefix(title)?.strip_prefix('\n'));
        found.unwrap_or_default()
    }
}

/// Each paragraph on one line. They are divided by `between`.
fn paragraphs(text: &str, between: &str) -> Vec<String> {
    let parts = text.split(between).map(|part| {
        let words: Vec<_> = part.split_whitespace().collect();
        words.join(" ")
    });
    parts.filter(|part| !part.is_empty()).collect()
}
