//! `doorbell lab`: most scenarios in a short form, one after another.

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use crate::cli::ROUNDS_MAX;
use crate::error::unknown;
use crate::report::{Report, notes_once, to_json};
use crate::scenario::{self, Options, Scenario};

/// Options of the tour.
#[derive(Debug, Args)]
pub(crate) struct TourOptions {
    /// How often each contestant runs [default: 1 to 7, depending on the scenario]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=ROUNDS_MAX))]
    rounds: Option<u32>,
    /// One round of each scenario: a first look, in about a minute
    #[arg(long, conflicts_with = "rounds")]
    quick: bool,
    /// Only scenarios whose name contains this
    #[arg(long, value_name = "SUBSTRING")]
    only: Option<String>,
    /// Print JSON instead of the tables: one object, with the list `reports`
    #[arg(long)]
    json: bool,
    /// Show all columns; by default columns beyond a width of 120 characters are omitted
    #[arg(long)]
    wide: bool,
}

/// All reports as one JSON object.
#[derive(Serialize)]
struct Tour<'a> {
    scenario: &'static str,
    reports: &'a [Report],
}

/// Runs the scenarios of the tour. `print` says whether anybody still reads.
pub(crate) fn run(tour: &TourOptions, mut print: impl FnMut(&str) -> Result<bool>) -> Result<()> {
    let stops = stops(tour.only.as_deref())?;
    let mut reports = Vec::new();
    for (at, (scenario, usual)) in stops.iter().enumerate() {
        let place = format!("{} of {}, {}", at + 1, stops.len(), scenario.name);
        let rounds = tour.rounds.unwrap_or(if tour.quick { 1 } else { *usual });
        let report = scenario.run(&Options {
            rounds: Some(rounds),
            quick: true,
            place: Some(place.clone()),
            ..Options::default()
        })?;
        if !tour.json {
            let heading = format!("{}: {} ({place})", scenario.name, scenario.text.about());
            let rule = "=".repeat(heading.chars().count());
            let table = report.to_short_table(tour.wide);
            if !print(&format!("{heading}\n{rule}\n{table}\n"))? {
                return Ok(());
            }
        }
        reports.push(report);
    }
    let end = if tour.json {
        to_json(&Tour {
            scenario: "tour",
            reports: &reports,
        })?
    } else {
        farewell(&reports)
    };
    print(&end).map(drop)
}

/// The scenarios of the tour, each with its number of rounds.
fn stops(only: Option<&str>) -> Result<Vec<(&'static Scenario, u32)>> {
    let all = scenario::ALL.iter();
    let all = all.filter_map(|scenario| Some((*scenario, scenario.tour_rounds?)));
    let wanted = only.unwrap_or_default();
    let found = all.clone().filter(|(one, _)| one.name.contains(wanted));
    let found: Vec<_> = found.collect();
    if found.is_empty() {
        let known = all.map(|(one, _)| one.name);
        return Err(unknown("scenario", wanted, known));
    }
    Ok(found)
}

/// What is said once, under all tables: what each scenario shows, notes and the machine.
fn farewell(reports: &[Report]) -> String {
    let mut text = "What it shows\n".to_owned();
    for report in reports {
        text += &report.gist_line();
    }
    text.push('\n');
    text += &notes_once(reports);
    let machine = reports.first().map(Report::machine_line);
    text += &machine.unwrap_or_default();
    text + "\nThese are short runs. `doorbell lab SCENARIO` takes longer and gives reliable figures;\n  \
         `doorbell help lab SCENARIO` says what is measured, and what each column means.\n"
}
