//! The page: a section for each patch, in Markdown. The same rows are the report for programs and for the chart.

use std::fmt::Write as _;
use std::process::Command;

use super::{CHANGE_MIN, Done, NAME, PATCHES, TEXT, Wanted};
use crate::frame::{as_word, meets};
use crate::report::{MeasuredOn, Report, Row, SideTable, figure, known};

const TITLES: [&str; 9] = [
    "patch",
    "what",
    "the patch",
    "x",
    "doorbell (CV %)",
    "x",
    "change",
    "goal",
    "command",
];

/// The report and the page. `speeds` are lines behind those of the commands.
pub(super) fn make(
    all: &[Wanted],
    rows: Vec<Row>,
    done: &[Done<'_>],
    speeds: &[String],
) -> (Report, String) {
    let number = |one: &Wanted| done.iter().position(|it| it.command == one.command);
    let cells = all.iter().zip(&rows).map(|(one, row)| {
        let number = number(one).map_or_else(String::new, |at| (at + 1).to_string());
        cells(one, row, number)
    });
    let main = SideTable {
        caption: "",
        titles: TITLES.into(),
        rows: cells.collect(),
    };
    let notes = done.iter().map(|it| {
        let (command, machine) = (it.command, &it.report.machine);
        format!("`doorbell {command}`, {:.0} s: {machine}", it.took_s)
    });
    let notes = notes.chain(speeds.iter().cloned()).enumerate();
    let notes = notes.map(|(at, note)| format!("{}. {note}", at + 1));
    let goals = main.rows.iter().map(|row| &*row[7]);
    let goals = goals.filter(|goal| !goal.is_empty());
    let met = goals.clone().filter(|goal| goal.ends_with("yes")).count();
    let metrics = TEXT.metrics("Metrics");
    let on_host = |it: &&Done<'_>| matches!(it.report.machine, MeasuredOn::Host(_));
    let of_machine = &done.iter().find(on_host).unwrap_or(&done[0]).report;
    let report = Report {
        scenario: NAME,
        machine: of_machine.machine.clone(),
        rounds: of_machine.rounds,
        gist: format!("{met} of {} goals are met.", goals.count()),
        rows,
        notes: notes.collect(),
        side_tables: Vec::new(),
        chart: TEXT.chart("Chart", &metrics),
        main,
    };
    let page = markdown(&report);
    (report, page)
}

fn cells(one: &Wanted, row: &Row, number: String) -> Vec<String> {
    let found = |name: &str| row.metrics.get(name);
    let ours = ["before", "after"].map(|when| {
        let value = known(found(&format!("{when}_{}", one.metric)));
        let percent = found(&format!("{when}_cv_percent"));
        percent.map_or(value.clone(), |percent| format!("{value} ({percent:.1})"))
    });
    let ratio = found("ours_x");
    let goal = one.goal.as_ref();
    let goal = goal.map(|goal| format!("{goal}: {}", verdict(goal, ratio)));
    vec![
        one.patch.to_owned(),
        format!("{}, {}", one.what, one.on()),
        one.theirs.join(" → "),
        one.patch_x.map_or_else(|| "-".to_owned(), figure),
        ours.join(" → "),
        known(ratio),
        change(one.patch_x, ratio, found("share_percent")),
        goal.unwrap_or_default(),
        number,
    ]
}

/// Whether a ratio meets a goal.
fn verdict(goal: &str, ratio: Option<f64>) -> &'static str {
    let parts = goal.rsplit_once(' ');
    let bound = parts.and_then(|(words, bound)| Some((words, bound.parse().ok()?)));
    let both = bound.zip(ratio);
    as_word(both.map(|((words, bound), ratio)| meets(ratio, words, bound)))
}

/// Doorbell's change beside the patch's; `-` where the patch changes as little as its runs deviate.
fn change(patch_x: Option<f64>, ours_x: Option<f64>, share_percent: Option<f64>) -> String {
    if patch_x.is_none() {
        return String::new();
    }
    let Some((ours_x, percent)) = ours_x.zip(share_percent) else {
        return "-".to_owned();
    };
    if (ours_x - 1.0).abs() < CHANGE_MIN {
        "none".to_owned()
    } else if percent < 0.0 {
        "opposite sign".to_owned()
    } else {
        format!("same sign, {percent:.0} %")
    }
}

fn markdown(report: &Report) -> String {
    let today = Command::new("date").arg("+%F").output();
    let today = today.map_or_else(
        |_| "a day that is not known".to_owned(),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    );
    let mut page = format!(
        "# The five kernel patches\n\n`doorbell lab seeds` wrote this page on {today}. {}\n\n",
        report.gist
    );
    for sentence in TEXT.items("Columns") {
        let _ = writeln!(page, "- {sentence}");
    }
    for patch in PATCHES {
        let rows = report.main.rows.iter();
        let of_patch: Vec<_> = rows.filter(|row| row[0] == patch).collect();
        if of_patch.is_empty() {
            continue;
        }
        let _ = writeln!(page, "\n## {patch}\n\n{}\n", TEXT.section(patch).trim());
        let titles = TITLES[1..].join(" | ");
        let _ = writeln!(page, "| {titles} |\n|---|---|---:|---|---:|---|---|---:|");
        for row in of_patch {
            let _ = writeln!(page, "| {} |", row[1..].join(" | "));
        }
        let shows = TEXT.section(&format!("What {patch} shows"));
        let _ = writeln!(page, "\n{}", shows.trim());
    }
    let notes = report.notes.join("\n");
    let _ = writeln!(page, "\n## Commands and machines\n\n{notes}");
    page
}
