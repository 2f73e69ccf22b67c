//! The three forms of one small report.

use serde_json::Value;

use super::*;
use crate::measure::{Clock, IdleMachine, Placement};

fn metrics(pairs: &[(&str, f64)]) -> Metrics {
    let mut metrics = Metrics::default();
    for (name, value) in pairs {
        metrics.put(name, Some(*value));
    }
    metrics
}

fn machine() -> Machine {
    let mut clock = Clock::calibrated();
    (clock.overhead_ns, clock.step_ns) = (15.0, 10.0);
    Machine {
        cpu_model: "Test & CPU".to_owned(),
        virtual_machine: true,
        cpus_allowed: vec![0, 1],
        placement: Placement {
            caller_cpu: 0,
            callee_cpu: 1,
            smt_siblings: false,
        },
        kernel: "6.18".to_owned(),
        kernel_clock_source: "tsc".to_owned(),
        idle: "haltpoll/haltpoll".to_owned(),
        clock,
        rest: IdleMachine {
            interrupts_per_s: 3.0,
            busy_percent: 0.0,
        },
    }
}

const P50: Metric = Metric {
    title: "p50",
    name: "p50_ns",
    spread: "",
};

fn report() -> Report {
    let row = |contestant: &str, figures: &[(&str, f64)]| Row {
        contestant: contestant.to_owned(),
        variant: "so".to_owned(),
        metrics: metrics(figures),
    };
    let short = [
        ("p50_ns", 146.2),
        ("p50_min_ns", 140.0),
        ("p50_max_ns", 1_480.4),
        ("rounds_kept_count", 7.0),
    ];
    let long = [
        ("p50_ns", 17_346.0),
        ("syscalls_per_1k", 4_000.0),
        ("rounds_kept_count", 0.0),
    ];
    let column = |title, name, spread| Metric {
        title,
        name,
        spread,
    };
    let columns = [
        column("p50 ns", "p50_ns", "spread"),
        column("syscalls", "syscalls_per_1k", ""),
        column("rounds", "rounds_kept_count", ""),
    ];
    let rows = vec![row("line", &short), row("a<b", &long)];
    Report {
        scenario: "call",
        machine: MeasuredOn::Host(machine()),
        rounds: 7,
        main: main_table(&columns, &rows, 7),
        rows,
        gist: "What it shows & means.".to_owned(),
        side_tables: vec![SideTable {
            caption: "A seed & its figures",
            titles: vec!["ours", "theirs", "won"],
            rows: vec![vec!["on".to_owned(), "new".to_owned(), "0.20".to_owned()]],
        }],
        notes: vec!["a note".to_owned()],
        chart: Chart {
            title: "times",
            unit: "ns",
            series: vec![P50],
        },
    }
}

/// A figure that is wider than most.
const LONG: f64 = 123_456.0;

/// Checks that the table of such rows fits, and still has the columns `kept`.
pub(crate) fn assert_fits<'a>(
    names: impl Iterator<Item = (&'a str, &'a str)>,
    columns: &[Metric],
    kept: &[&str],
) {
    let mut metrics = Metrics::default();
    for column in columns {
        let [low, high] = ends(column.name);
        for metric in [column.name, &low, &high] {
            metrics.put(metric, Some(LONG));
        }
    }
    let rows = names.map(|(contestant, variant)| Row {
        contestant: contestant.to_owned(),
        variant: variant.to_owned(),
        metrics: metrics.clone(),
    });
    let mut grid = main_table(columns, &rows.collect::<Vec<_>>(), 7);
    let left_out = grid.fit(table::TABLE_MAX);
    let text = grid.aligned();
    let fits = |line: &str| line.chars().count() <= table::TABLE_MAX;
    assert!(text.lines().all(fits), "{text}");
    for title in kept {
        let is_there = grid.titles.contains(title);
        assert!(is_there, "{title} is not in\n{text}but in {left_out:?}");
    }
}

#[test]
fn figures_show_about_three_digits() {
    let shown = [
        0.0,
        0.254,
        1.0,
        1.018,
        9.996,
        34.567,
        99.96,
        146.4,
        17_346.2,
        -1_234_567.0,
    ];
    let texts: Vec<String> = shown.into_iter().map(figure).collect();
    assert_eq!(
        texts,
        [
            "0",
            "0.25",
            "1.00",
            "1.02",
            "10.0",
            "34.6",
            "100",
            "146",
            "17,346",
            "-1,234,567"
        ]
    );
}

#[test]
fn figures_that_are_not_numbers_are_left_out() {
    let mut metrics = Metrics::default();
    metrics.put("p50_ns", None);
    metrics.put("ratio_x", Some(f64::NAN));
    metrics.put("other_x", Some(f64::INFINITY));
    assert_eq!(metrics, Metrics::default());
}

#[test]
fn the_columns_of_the_table_are_aligned() {
    assert_eq!(
        report().main.aligned(),
        "\
contestant  variant  p50 ns      spread  syscalls  rounds
----------  -------  ------  ----------  --------  ------
line        so          146  140..1,480       n/a     7/7
a<b         so       17,346         n/a     4,000     0/7
"
    );
}

#[test]
fn the_table_is_explained() {
    let table = report().to_table(false);
    for part in [
        "p50, p99: half of the calls",
        "a note",
        "machine: Test & CPU",
    ] {
        assert!(table.contains(part), "{part} is missing in:\n{table}");
    }
    assert!(table.is_ascii());
}

fn wide_grid() -> SideTable {
    let titles = [
        "contestant",
        "variant",
        "p50",
        "p50 spread",
        "p99",
        "p99 spread",
        "last",
    ];
    SideTable {
        caption: "",
        titles: titles.to_vec(),
        rows: vec![titles.map(|title| title.repeat(3)).to_vec()],
    }
}

#[test]
fn what_does_not_fit_is_left_out_spreads_first() {
    let full = wide_grid().width();
    let cases: [(usize, &[&str]); 5] = [
        (full, &[]),
        (full - 1, &["p99 spread"]),
        (full - 2 * 32, &["p50 spread", "p99 spread"]),
        (full - 2 * 32 - 1, &["last", "p50 spread", "p99 spread"]),
        (0, &["p50", "p99", "last", "p50 spread", "p99 spread"]),
    ];
    for (most, expected) in cases {
        let mut grid = wide_grid();
        assert_eq!(grid.fit(most), expected, "{most}");
        assert!(grid.width() <= most || grid.titles.len() == 2, "{most}");
        assert!(grid.rows.iter().all(|row| row.len() == grid.titles.len()));
    }
}

#[test]
fn a_table_says_which_columns_are_left_out_and_shows_them_if_it_is_to() {
    let mut report = report();
    let one_line = |text: &str| text.lines().map(|line| line.chars().count()).max();
    report.main.titles[3] = "p50 spread";
    report.main.rows[0][0] = "n".repeat(80);
    let narrow = report.to_table(false);
    assert!(one_line(&narrow) <= Some(120), "{narrow}");
    assert!(narrow.contains("Only with --wide: p50 spread"), "{narrow}");
    let wide = report.to_table(true);
    assert!(
        one_line(&wide) > Some(120) && !wide.contains("--wide"),
        "{wide}"
    );
}

#[test]
fn a_note_of_several_reports_is_said_once() {
    let mut other = report();
    other.notes.push("another note".to_owned());
    assert_eq!(
        table::notes_once(&[report(), other]),
        "a note\nanother note\n"
    );
}

#[test]
fn paragraphs_are_wrapped_and_indented() {
    let mut text = String::new();
    table::push_wrapped(&mut text, &["word"; 45].join(" "));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert!(
        lines
            .iter()
            .all(|line| line.len() <= 100 && line.ends_with("word")),
        "{text}"
    );
    assert!(
        lines[1].starts_with("  word") && lines[0].starts_with("word"),
        "{text}"
    );
    let mut short = String::new();
    table::push_wrapped(&mut short, "short");
    assert_eq!(short, "short\n");
}

#[test]
fn json_has_the_agreed_shape() {
    let text = to_json(&report()).expect("a report can be written");
    let json: Value = serde_json::from_str(&text).expect("it is JSON");
    assert_eq!(json["scenario"], "call");
    assert_eq!(json["rounds"], 7);
    assert_eq!(json["machine"]["caller_cpu"], 0);
    assert_eq!(json["machine"]["clock_overhead_ns"], 15.0);
    let rows = json["rows"].as_array().expect("rows are a list");
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[0]["contestant"], "line");
    assert_eq!(rows[0]["variant"], "so");
    assert_eq!(rows[0]["metrics"]["p50_ns"], 146.2);
    assert!(
        rows[0]["metrics"].get("syscalls_per_1k").is_none(),
        "an unknown metric is absent"
    );
    assert_eq!(json["tables"][0]["caption"], "A seed & its figures");
    assert_eq!(json["tables"][0]["rows"][0][2], "0.20");
}

#[test]
fn the_page_is_complete_and_needs_nothing_from_elsewhere() {
    let page = report().to_html();
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</body></html>\n"));
    for part in [
        "<rect",
        "prefers-color-scheme:dark",
        "140..1,480",
        ">17,346; n/a<",
    ] {
        assert!(page.contains(part), "{part} is missing");
    }
    let page = page.replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
    for part in [
        "<script", "http:", "https:", "<link", "@import", "url(", "NaN", "inf",
    ] {
        assert!(!page.contains(part), "{part} must not be there");
    }
    assert!(
        page.contains("a&lt;b") && !page.contains("a<b"),
        "names are escaped"
    );
    assert!(page.contains("Test &amp; CPU"));
}

#[test]
fn a_page_without_figures_has_no_chart() {
    let mut report = report();
    report.rows.clear();
    assert!(!report.to_html().contains("<svg"));
}

#[test]
fn a_side_table_stands_under_its_caption_in_text_and_page() {
    let text = report().to_table(false);
    let at = text
        .find("A seed & its figures")
        .expect("the caption is there");
    assert!(text[at..].contains("ours  theirs   won"), "{text}");
    assert!(text[at..].contains("on    new     0.20"), "{text}");
    let page = report().to_html();
    assert!(page.contains("A seed &amp; its figures"), "{page}");
}
