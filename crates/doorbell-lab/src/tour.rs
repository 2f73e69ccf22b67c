//! `doorbell lab`: every scenario in a short form, one after another.

use std::fmt::Write as _;

use crate::error::LabError;
use crate::report::{Report, notes_once, to_json_list};
use crate::scenario::{Effort, Options};
use crate::scenario::{
    call, flood, idle, pingpong, rank, rt, shootdown, spawn, stuck, timer_acc, timer_cost,
    timer_idle, urgent, wake,
};

/// A scenario, and the rounds of its quick form that the tour has time for.
struct Stop {
    name: &'static str,
    rounds: u32,
    about: &'static str,
    run: fn(&Options) -> Result<Report, LabError>,
}

/// The stops of the tour; together about three minutes.
const STOPS: [Stop; 14] = [
    Stop {
        name: "call",
        rounds: 7,
        about: "a call to another core and back",
        run: call::run,
    },
    Stop {
        name: "spawn",
        rounds: 7,
        about: "tasks spawned, chained, woken and yielding",
        run: spawn::run,
    },
    Stop {
        name: "flood",
        rounds: 7,
        about: "posts to one core, without waiting",
        run: flood::run,
    },
    Stop {
        name: "shootdown",
        rounds: 7,
        about: "all cores and threads call all cores at once, and wait",
        run: shootdown::run,
    },
    Stop {
        name: "idle",
        rounds: 5,
        about: "a runtime with nothing to do",
        run: idle::run,
    },
    Stop {
        name: "timer-cost",
        rounds: 7,
        about: "a timer that never fires",
        run: timer_cost::run,
    },
    Stop {
        name: "timer-acc",
        rounds: 7,
        about: "how late sleeps end",
        run: timer_acc::run,
    },
    Stop {
        name: "timer-idle",
        rounds: 5,
        about: "what wakes up for periodic timers",
        run: timer_idle::run,
    },
    Stop {
        name: "urgent",
        rounds: 1,
        about: "urgent work while every core computes",
        run: urgent::run,
    },
    Stop {
        name: "rank",
        rounds: 2,
        about: "the most urgent task behind a less urgent poll",
        run: rank::run,
    },
    Stop {
        name: "rt",
        rounds: 1,
        about: "periodic urgent tasks on all cores at once, like cyclictest",
        run: |options| rt::run(options, rt::PERIOD),
    },
    Stop {
        name: "wake",
        rounds: 1,
        about: "woken workers, like schbench",
        run: wake::run,
    },
    Stop {
        name: "pingpong",
        rounds: 1,
        about: "pairs that exchange messages, and frames of short tasks",
        run: pingpong::run,
    },
    Stop {
        name: "stuck",
        rounds: 2,
        about: "the work of a core inside a long poll",
        run: stuck::run,
    },
];

/// The options of the tour.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TourOptions {
    /// Rounds of every scenario, instead of each scenario's default.
    pub rounds: Option<u32>,
    /// JSON instead of tables.
    pub json: bool,
    /// All columns of the tables, even beyond 120 characters.
    pub is_wide: bool,
    /// Only scenarios whose name contains this.
    pub only: Option<String>,
}

/// Runs the scenarios. Each table goes to `print` as soon as it is ready; `print` returns whether to
/// continue.
///
/// # Errors
/// Any [`LabError`] of a scenario or of `print`, or if the filter matches no scenario.
pub fn run(
    options: &TourOptions,
    mut print: impl FnMut(&str) -> Result<bool, LabError>,
) -> Result<(), LabError> {
    let stops = chosen(options.only.as_deref())?;
    let mut reports = Vec::new();
    for (place, stop) in stops.iter().enumerate() {
        let place = format!("{} of {}, {}", place + 1, stops.len(), stop.name);
        let report = (stop.run)(&short(stop, options.rounds, &place))?;
        if !options.json {
            let heading = format!("{}: {} ({place})", stop.name, stop.about);
            if !print(&section(&heading, &report, options.is_wide))? {
                return Ok(());
            }
        }
        reports.push(report);
    }
    let end = if options.json {
        to_json_list("tour", &reports)? + "\n"
    } else {
        farewell(&reports)
    };
    print(&end).map(drop)
}

/// The quick form, with the rounds that there is time for.
fn short(stop: &Stop, rounds: Option<u32>, place: &str) -> Options {
    Options {
        effort: Effort {
            rounds: rounds.unwrap_or(stop.rounds),
            ..Effort::QUICK
        },
        quick: true,
        only: None,
        json: false,
        is_wide: false,
        html: None,
        place: Some(place.to_owned()),
        sim: None,
    }
}

fn chosen(only: Option<&str>) -> Result<Vec<&'static Stop>, LabError> {
    let wanted = only.unwrap_or_default();
    let stops: Vec<_> = STOPS
        .iter()
        .filter(|stop| stop.name.contains(wanted))
        .collect();
    if stops.is_empty() {
        return Err(LabError::NoSuchScenario {
            filter: wanted.to_owned(),
            known: STOPS.iter().map(|stop| stop.name).collect(),
        });
    }
    Ok(stops)
}

fn section(heading: &str, report: &Report, is_wide: bool) -> String {
    let rule = "=".repeat(heading.chars().count());
    format!("{heading}\n{rule}\n{}\n", report.to_short_table(is_wide))
}

/// The machine, and the notes of all runs without duplicates.
fn farewell(reports: &[Report]) -> String {
    let mut text = notes_once(reports);
    if let Some(report) = reports.first() {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{}", report.machine_line());
    }
    text.push_str(
        "These are short runs. `doorbell lab SCENARIO` takes longer and gives reliable figures;\n  \
         `doorbell help lab SCENARIO` says what is measured, and what each column means.\n",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_chooses_scenarios_and_says_which_there_are() {
        assert_eq!(chosen(None).expect("all").len(), STOPS.len());
        let timers = chosen(Some("timer")).expect("three");
        assert_eq!(timers.len(), 3);
        let Err(error) = chosen(Some("nothing")) else {
            panic!("there is none of that name");
        };
        assert!(error.to_string().contains("spawn, flood"), "{error}");
    }

    #[test]
    fn rounds_that_are_asked_for_win() {
        let stop = &STOPS[0];
        assert_eq!(short(stop, None, "here").effort.rounds, stop.rounds);
        let options = short(stop, Some(2), "here");
        assert_eq!((options.effort.rounds, options.quick), (2, true));
        assert_eq!(options.place.as_deref(), Some("here"));
    }
}
