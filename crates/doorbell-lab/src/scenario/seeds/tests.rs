//! The rows of the page: each names what there is, and says what was found.

use super::*;
use crate::frame::{Contestant, testing};
use crate::report::{MeasuredOn, SideTable, SimulatedMachine};
use crate::scenario::simulated;

fn report(figures: [(&str, f64); 2]) -> Report {
    let row = |(contestant, value): (&str, f64)| {
        let mut metrics = Metrics::default();
        metrics.put("max_us", Some(value));
        metrics.put("max_cv_percent", Some(2.0));
        Row {
            contestant: contestant.to_owned(),
            variant: "4 workers".to_owned(),
            metrics,
        }
    };
    Report {
        scenario: "rt",
        machine: MeasuredOn::Simulated(SimulatedMachine {
            profile: "xeon-40".to_owned(),
            about: "a test".to_owned(),
            cores: vec![4],
            seeds: 10,
        }),
        rounds: 10,
        rows: figures.map(row).into(),
        gist: String::new(),
        notes: Vec::new(),
        side_tables: Vec::new(),
        main: SideTable::default(),
        chart: TEXT.chart("Chart", &[]),
    }
}

fn row(goal: &str, figures: [f64; 2]) -> (Row, Vec<String>) {
    row_beside(0.38, goal, figures)
}

fn row_beside(patch_x: f64, goal: &str, [before, after]: [f64; 2]) -> (Row, Vec<String>) {
    let item = format!(
        "maximum | 400 | 150 | {patch_x} | {goal} | lab rt --sim xeon-40 | max_us | old, 4* | new, 4*"
    );
    let one = Wanted::parse("push", &item).expect("it has nine fields");
    let report = report([("new", after), ("old", before)]);
    let row = one.measured(&report);
    let (all, page) = page::make(
        &[one],
        vec![row.clone()],
        &[Done {
            command: "lab rt --sim xeon-40",
            report,
            took_s: 2.0,
        }],
        &["`doorbell sim`: 3 events".to_owned()],
    );
    assert!(
        page.contains("## push")
            && page.contains("1. `doorbell lab rt --sim xeon-40`, 2 s: simulated")
            && page.contains("seeds 0..10\n2. `doorbell sim`: 3 events"),
        "{page}"
    );
    (row, all.main.rows[0].clone())
}

#[test]
fn a_row_says_by_how_much_doorbell_changes_and_whether_a_goal_is_met() {
    let (metrics, cells) = row("at most 0.5", [8.0, 2.0]);
    assert_eq!(metrics.metrics.get("ours_x"), Some(0.25));
    assert_eq!(
        cells[4..],
        [
            "8.00 (2.0) → 2.00 (2.0)",
            "0.25",
            "same sign, 121 %",
            "at most 0.5: yes",
            "1"
        ]
    );
    let (_, cells) = row("at least 0.5", [8.0, 2.0]);
    assert_eq!(cells[7], "at least 0.5: NO");
    for (after, said) in [(9.0, "opposite sign"), (8.01, "none")] {
        assert_eq!(row("-", [8.0, after]).1[6..8], [said, ""]);
    }
}

#[test]
fn a_change_of_the_patch_that_is_as_small_as_its_deviations_is_not_compared_with() {
    let said = |patch_x, after| row_beside(patch_x, "-", [8.0, after]).1[6].clone();
    assert_eq!(said(0.98, 4.0), "same sign, 2500 %");
    for patch_x in [0.99, 1.0, 1.01] {
        assert_eq!(
            [4.0, 8.01, 16.0].map(|after| said(patch_x, after)),
            ["-"; 3]
        );
    }
}

/// Each command can be parsed, and each row that is wanted of it is one of its rows.
#[test]
fn each_row_is_one_of_its_command() {
    let all = wanted();
    for patch in PATCHES {
        assert!(
            all.iter().any(|one| one.patch == patch),
            "{patch} has no rows"
        );
    }
    for one in all {
        let chosen = chosen(&one.command);
        let (name, options) = (chosen.scenario.name, &chosen.options);
        let (labels, section) = if let Some(sim) = &options.sim {
            (simulated::labels(name, sim, options), "Metrics with --sim")
        } else {
            let plan = chosen.scenario.plan.expect("it is measured on a host");
            let all = testing::contestants(plan, options);
            (all.iter().map(Contestant::label).collect(), "Metrics")
        };
        let only = options.only.as_deref().unwrap_or_default();
        for ours in &one.ours {
            let is_it = |label: &&String| {
                let (contestant, variant) = label.split_once(" (").expect("a label has both");
                let variant = variant.trim_end_matches(')');
                fits(ours, &format!("{contestant}, {variant}"))
            };
            let found = labels.iter().find(is_it);
            assert!(
                labels.is_empty() || found.is_some(),
                "{ours} is none of {labels:?}"
            );
            assert!(
                found.is_none_or(|label| only.split('|').any(|part| label.contains(part))),
                "{one:?}"
            );
        }
        let metrics = chosen.scenario.text.metrics(section);
        assert!(
            metrics.iter().any(|metric| metric.name == one.metric),
            "{one:?}"
        );
        assert!(one.goal.is_none_or(|goal| goal.starts_with("at ")));
    }
}

/// The page in the tree is written anew when a row is. The rows of a host need one that is at rest.
#[test]
fn the_page_in_the_tree_has_each_row_of_a_simulated_machine() {
    let page = include_str!("../../../../../docs/measurements/seeds.md");
    let simulated = wanted().into_iter().filter(|one| one.on() == "simulated");
    for one in simulated {
        let row = format!("| {}, {} |", one.what, one.on());
        assert!(
            page.contains(&row),
            "write it with `doorbell lab seeds`: {row}"
        );
        let command = format!("`doorbell {}`", one.command);
        assert!(page.contains(&command), "{command}");
    }
}
