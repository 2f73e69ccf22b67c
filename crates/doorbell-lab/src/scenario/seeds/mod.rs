//! `doorbell lab seeds`: the five kernel patches, each with its own table and doorbell's figures in the same shape.
//!
//! All that is shown is in `seeds.md`: for each patch a section with its table, a list of rows, and what they show. A row
//! names a command of the lab, and two rows of its report: without and with what the patch adds. Each command is run once.

mod page;

use std::time::Instant;

use anyhow::Result;
use clap::Parser as _;

use super::Options;
use crate::cli::{Chosen, Cli, Command, SimCommand};
use crate::frame::{matching, variation};
use crate::report::{Metrics, Report, Row, fits};
use crate::simulator;
use crate::text::Text;

pub(crate) const NAME: &str = "seeds";
pub(crate) const TEXT: Text = Text(include_str!("../seeds.md"));
/// The sections of the page.
const PATCHES: [&str; 6] = ["notify", "queue", "push", "pull", "claim", "scale"];
/// A change of doorbell's that is smaller is none.
const CHANGE_MIN: f64 = 0.01;
/// The least change of a patch that the size of doorbell's is compared with: the deviations that the documents print
/// are 0.2 to 2 per cent in most rows.
const SHARE_MIN: f64 = 0.02;

/// Commands that show how fast the simulator is, behind those of the section `scale`.
const SPEED: [&str; 2] = [
    "sim fuzz --shape ends --cores 64 --seeds 0..200",
    "sim fuzz --shape ends --cores 1024 --seeds 0..4",
];

/// A row of the page.
#[derive(Debug, Clone)]
struct Wanted {
    patch: &'static str,
    what: String,
    /// The patch's figures, as it prints them.
    theirs: [String; 2],
    patch_x: Option<f64>,
    /// "at most" or "at least" a ratio.
    goal: Option<String>,
    /// A command without the name of the program.
    command: String,
    metric: String,
    /// Names of rows: contestant and variant.
    ours: [String; 2],
}

impl Wanted {
    /// A row of a section: nine fields.
    fn parse(patch: &'static str, item: &str) -> Option<Self> {
        let fields: Vec<_> = item.split(" | ").map(str::to_owned).collect();
        let [what, theirs @ .., command, metric, before, after] = &fields[..] else {
            return None;
        };
        let [old, new, patch_x, goal] = theirs else {
            return None;
        };
        Some(Self {
            patch,
            what: what.clone(),
            theirs: [old.clone(), new.clone()],
            patch_x: patch_x.parse().ok(),
            goal: (goal != "-").then(|| goal.clone()),
            command: command.clone(),
            metric: metric.clone(),
            ours: [before.clone(), after.clone()],
        })
    }

    fn on(&self) -> &'static str {
        let is_simulated = self.command.contains(" --sim ");
        if is_simulated { "simulated" } else { "host" }
    }

    fn label(&self) -> String {
        format!("{}: {}, {}", self.patch, self.what, self.on())
    }

    /// Its figures in a report of its command.
    fn measured(&self, report: &Report) -> Row {
        let mut metrics = Metrics::default();
        let [before, after] = [("before", 0), ("after", 1)].map(|(when, place)| {
            let is_it = |row: &&Row| {
                let name = format!("{}, {}", row.contestant, row.variant);
                fits(&self.ours[place], &name)
            };
            let found = &report.rows.iter().find(is_it)?.metrics;
            let value = found.get(&self.metric);
            metrics.put(&format!("{when}_{}", self.metric), value);
            let percent = found.get(&variation(&self.metric));
            metrics.put(&format!("{when}_cv_percent"), percent);
            value
        });
        metrics.put("patch_x", self.patch_x);
        let ratio = after.zip(before).map(|(after, before)| after / before);
        metrics.put("ours_x", ratio);
        let large = self
            .patch_x
            .filter(|patch| (patch - 1.0).abs() >= SHARE_MIN);
        let share = large.zip(ratio);
        let share = share.map(|(patch, ours)| 100.0 * (ours - 1.0) / (patch - 1.0));
        metrics.put("share_percent", share);
        let variant = format!("{}, {}", self.what, self.on());
        Row::new(self.patch, &variant, metrics)
    }
}

/// All rows of the page.
fn wanted() -> Vec<Wanted> {
    let of = |patch: &'static str| {
        let items = TEXT.items(&format!("Rows of {patch}"));
        let parse = move |item: &String| {
            Wanted::parse(patch, item).unwrap_or_else(|| panic!("not a row: {item}"))
        };
        items.iter().map(parse).collect::<Vec<_>>()
    };
    PATCHES.into_iter().flat_map(of).collect()
}

/// A command of the page, as the command line understands it: words, some of them in quotes.
fn parsed(command: &str) -> Command {
    let parts = command.split('\'').enumerate();
    let words = parts.flat_map(|(at, part)| match at % 2 {
        0 => part.split_whitespace().collect(),
        _ => vec![part],
    });
    let cli = Cli::try_parse_from(["doorbell"].into_iter().chain(words));
    cli.unwrap_or_else(|error| panic!("{command}: {error}"))
        .command
}

fn chosen(command: &str) -> Chosen {
    match parsed(command) {
        Command::Lab {
            scenario: Some(chosen),
            ..
        } => chosen,
        other => panic!("no scenario: {command}: {other:?}"),
    }
}

/// A command of the page that was run.
struct Done<'a> {
    command: &'a str,
    report: Report,
    took_s: f64,
}

/// How fast the simulator is, as the commands of [`SPEED`] say.
fn speeds() -> Result<Vec<String>> {
    let mut all = Vec::new();
    for command in SPEED {
        let Command::Sim {
            command: SimCommand::Fuzz(options),
        } = parsed(command)
        else {
            panic!("no run of the simulator: {command}");
        };
        let report = simulator::fuzz(&options)?;
        report.check()?;
        all.push(format!("`doorbell {command}`: {}", report.speed()));
    }
    Ok(all)
}

/// Runs the commands, and returns the figures and the page.
pub(crate) fn run(options: &Options) -> Result<(Report, String)> {
    let all = wanted();
    let labels: Vec<_> = all.iter().map(Wanted::label).collect();
    let matches = matching(&labels, options.only.as_deref())?;
    let all = all.into_iter().zip(matches);
    let all = all.filter_map(|(one, is_wanted)| is_wanted.then_some(one));
    let all: Vec<_> = all.collect();
    let mut commands: Vec<&str> = Vec::new();
    for one in &all {
        if !commands.contains(&&*one.command) {
            commands.push(&one.command);
        }
    }
    let mut done = Vec::new();
    for (at, command) in commands.iter().enumerate() {
        let mut chosen = chosen(command);
        chosen.options.place = Some(format!("{} of {}", at + 1, commands.len()));
        if options.quick {
            chosen.options.quick = true;
            chosen.options.seeds = chosen.options.seeds.map(|_| 1);
            chosen.options.rounds = chosen.options.rounds.map(|_| 1);
        }
        let began = Instant::now();
        let report = chosen.report()?;
        done.push(Done {
            command,
            report,
            took_s: began.elapsed().as_secs_f64(),
        });
    }
    let has_scale = all.iter().any(|one| one.patch == "scale");
    let speeds = if has_scale { speeds()? } else { Vec::new() };
    let rows = all.iter().map(|one| {
        let at = commands.iter().position(|command| *command == one.command);
        one.measured(&done[at.unwrap_or_default()].report)
    });
    let rows = rows.collect();
    Ok(page::make(&all, rows, &done, &speeds))
}

#[cfg(test)]
pub(crate) fn labels() -> Vec<String> {
    wanted().iter().map(Wanted::label).collect()
}

#[cfg(test)]
mod tests;
