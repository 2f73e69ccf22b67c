//! The goals of a scenario, which are in its text, as a table of their own.
//!
//! A goal is an item of the section `Goals`: `what | unit | bound | contestant | variant | metric`. Each row whose names
//! fit has it, and stands in its words as `{who}` and `{}`. A unit or a bound in brackets holds where no thread may run
//! before all others; a dash is no goal, nor is one beside a row that did not run. A metric is as `Results::figure` reads
//! it. Of goals between `OR` one has to be met.

use super::rows::{Rated, Results, other_of};
use crate::peers::Want;
use crate::report::{SideTable, fits, known};

/// The cells of a goal, and whether it was met.
type Found = (Vec<String>, Option<bool>);

/// The table, if there are any.
pub(super) fn table(goals: &[String], results: &Results<'_>) -> Option<SideTable> {
    let is_first = Want::First.is_given() && !results.options.unprivileged;
    let mut rows = Vec::new();
    for goal in goals {
        for one in &results.rated {
            let each = goal.split(" OR ");
            let found: Vec<_> = each
                .filter_map(|goal| judged(goal, one, results, is_first))
                .collect();
            let met = found.iter().find(|(_, is_met)| *is_met == Some(true));
            rows.extend(met.or(found.last()).map(|(cells, _)| cells.clone()));
        }
    }
    (!rows.is_empty()).then(|| SideTable {
        caption: "Goals, and whether this run met them",
        titles: vec!["what", "unit", "goal", "found", "met"],
        rows,
    })
}

/// A goal, and what was found; `None` if it is none of this row, or here.
fn judged(goal: &str, one: &Rated<'_>, results: &Results<'_>, is_first: bool) -> Option<Found> {
    let parts: Vec<_> = goal.split(" | ").collect();
    let [what, unit, bound, contestant, variant, metric] = parts[..] else {
        return None;
    };
    if !fits(contestant, &one.row.contestant) || !fits(variant, &one.row.variant) {
        return None;
    }
    let mut others = metric.split(" & ").filter_map(|part| other_of(part, one));
    if !others.all(|(who, how)| results.of(who, how).is_some()) {
        return None;
    }
    let (words, number) = bound.split_at(bound.find(|c: char| c.is_ascii_digit() || c == '-')?);
    let wanted: f64 = chosen(number, is_first).parse().ok()?;
    let found = results.figure(metric, one);
    let is_met = found.map(|found| meets(found, words.trim_end(), wanted));
    let cells = vec![
        what.replace("{who}", &one.row.contestant)
            .replace("{}", &one.row.variant),
        chosen(unit, is_first).to_owned(),
        format!("{words}{}", known(Some(wanted))),
        known(found),
        as_word(is_met).to_owned(),
    ];
    Some((cells, is_met))
}

/// Whether a figure is `at most` or `at least` this.
pub(crate) fn meets(found: f64, words: &str, bound: f64) -> bool {
    match words {
        "at most" => found <= bound,
        _ => found >= bound,
    }
}

/// Whether a goal is met, in a table.
pub(crate) fn as_word(is_met: Option<bool>) -> &'static str {
    is_met.map_or("n/a", |is_met| if is_met { "yes" } else { "NO" })
}

/// Of `first (other)`, one.
fn chosen(text: &str, is_first: bool) -> &str {
    let both = text
        .strip_suffix(')')
        .and_then(|text| text.split_once(" ("));
    both.map_or(text, |(first, other)| if is_first { first } else { other })
}

#[cfg(test)]
mod tests {
    use super::super::rounds::Figures;
    use super::*;
    use crate::report::{Metrics, Row};
    use crate::scenario::{ALL, Options};

    fn row(contestant: &str, variant: &str, us: f64) -> Row {
        let mut metrics = Metrics::default();
        metrics.put("p99_us", Some(us));
        metrics.put("max_us", Some(2.0 * us));
        Row {
            contestant: contestant.to_owned(),
            variant: variant.to_owned(),
            metrics,
        }
    }

    fn cells(goal: &str) -> Vec<String> {
        let rows = [
            row("ours", "so: one", 3.0),
            row("ours", "else", 9.0),
            row("theirs", "so: one", 2.0),
        ];
        let rated = rows.iter().map(|row| Rated {
            row,
            rounds: &[] as &[Figures],
        });
        let results = Results {
            rated: rated.collect(),
            options: &Options::default(),
        };
        let table = table(&[goal.to_owned()], &results);
        table.map_or_else(Vec::new, |table| {
            table.rows.iter().map(|row| row.join(", ")).collect()
        })
    }

    #[test]
    fn a_goal_is_met_or_not_or_not_known() {
        let of = |bound, metric| cells(&format!("it, {{}} | us | {bound} | ours | so* | {metric}"));
        assert_eq!(
            of("at most 3", "p99_us"),
            ["it, so: one, us, at most 3.00, 3.00, yes"]
        );
        assert_eq!(
            of("at least 4", "p99_us"),
            ["it, so: one, us, at least 4.00, 3.00, NO"]
        );
        assert_eq!(
            of("at most 2", "p50_us"),
            ["it, so: one, us, at most 2.00, n/a, n/a"]
        );
        assert_eq!(
            of("at most 2", "p99_us / theirs"),
            ["it, so: one, us, at most 2.00, 1.50, yes"]
        );
        assert_eq!(
            of("at most 2", "p99_us / ours: else"),
            ["it, so: one, us, at most 2.00, 0.33, yes"]
        );
        assert_eq!(
            of("at most 2", "p99_us & max_us"),
            ["it, so: one, us, at most 2.00, 6.00, NO"]
        );
    }

    #[test]
    fn a_goal_is_that_of_each_row_that_fits() {
        let both = cells("{who} | us | at least 1 | ours | * | p99_us");
        assert_eq!(
            both,
            [
                "ours, us, at least 1.00, 3.00, yes",
                "ours, us, at least 1.00, 9.00, yes"
            ]
        );
        assert!(cells("it | us | at least 1 | nobody | * | p99_us").is_empty());
        assert!(cells("it | us | at least 1 | ours | * | p99_us / nobody").is_empty());
        let or = "a | us | at most 1 | ours | else | p99_us OR b | us | at most 9 | ours | else | p99_us";
        assert_eq!(cells(or), ["b, us, at most 9.00, 9.00, yes"]);
    }

    #[test]
    fn what_is_in_brackets_holds_without_the_privilege() {
        for (is_first, unit, bound) in [(true, "x FIFO", "1.5"), (false, "x slice", "2")] {
            assert_eq!(chosen("x FIFO (x slice)", is_first), unit);
            assert_eq!(chosen("1.5 (2)", is_first), bound);
        }
        assert!(cells("it | us | at most - (-) | ours | * | p99_us").is_empty());
    }

    #[test]
    fn each_goal_of_a_text_is_whole() {
        let goals = ALL.iter().flat_map(|scenario| scenario.text.items("Goals"));
        let each: Vec<String> = goals
            .flat_map(|goal| goal.split(" OR ").map(str::to_owned).collect::<Vec<_>>())
            .collect();
        assert!(each.len() > 30, "{each:?}");
        for goal in each {
            let parts: Vec<_> = goal.split(" | ").collect();
            assert_eq!(parts.len(), 6, "{goal}");
            let bound = parts[2]
                .strip_prefix("at most ")
                .or(parts[2].strip_prefix("at least "));
            let bound = bound.unwrap_or_else(|| panic!("{goal}"));
            for is_first in [true, false] {
                let bound = chosen(bound, is_first);
                assert!(bound == "-" || bound.parse::<f64>().is_ok(), "{goal}");
            }
        }
    }

    #[test]
    fn each_table_of_a_text_has_metrics_with_titles() {
        for scenario in ALL {
            let items = scenario.text.section("Tables").lines();
            for item in items.filter_map(|line| line.strip_prefix("- ")) {
                let (caption, _) = item.split_once(" | ").expect(item);
                let metrics = scenario.text.metrics(caption);
                assert!(!metrics.is_empty(), "{caption}");
                let has_title = |metric: &crate::frame::Metric| !metric.title.is_empty();
                assert!(metrics.iter().all(has_title), "{caption}");
            }
        }
    }
}
