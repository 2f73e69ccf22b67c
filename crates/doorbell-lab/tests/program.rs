//! The program as a user runs it.

use std::process::{Command, Output};

use serde_json::Value;

fn doorbell(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_doorbell"))
        .args(arguments)
        .output()
        .expect("the program can be started")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("the program writes UTF-8")
}

/// A run of little work; `None` where the process may use one CPU only.
fn small_run(more: &[&str]) -> Option<Output> {
    let little = ["lab", "call", "--quick", "--rounds", "1", "--calls", "1280"];
    let output = doorbell(&[&little[..], more].concat());
    if text(&output.stderr).contains("needs 2 CPUs") {
        eprintln!("not tested here: {}", text(&output.stderr));
        return None;
    }
    assert!(output.status.success(), "{}", text(&output.stderr));
    Some(output)
}

#[test]
fn help_teaches() {
    let cases: [(&[&str], &[&str]); 3] = [
        (&["--help"], &["lab", "Examples:", "doorbell lab call"]),
        (
            &["lab", "--help"],
            &["call", "interleaved", "physical limit", "Examples:"],
        ),
        (
            &["lab", "call", "--help"],
            &[
                "--rounds", "--calls", "--quick", "--json", "--html", "--only", "Columns:",
                "x limit",
            ],
        ),
    ];
    for (arguments, parts) in cases {
        let output = doorbell(arguments);
        assert!(output.status.success(), "{arguments:?}");
        let help = text(&output.stdout);
        for part in parts {
            assert!(
                help.contains(part),
                "{arguments:?} does not say {part}:\n{help}"
            );
        }
    }
}

#[test]
fn json_is_all_that_is_printed() {
    let Some(output) = small_run(&["--json"]) else {
        return;
    };
    assert_eq!(
        text(&output.stderr),
        "",
        "no progress where there is no terminal"
    );
    let json: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    assert_eq!(json["scenario"], "call");
    assert_eq!(json["rounds"], 1);
    let rows = json["rows"].as_array().expect("rows are a list");
    assert!(rows.len() >= 5, "the limit and at least four peers");
    for row in rows {
        let metrics = &row["metrics"];
        let counted = metrics["rounds_kept_count"]
            .as_f64()
            .expect("rounds are counted");
        // A round may be dropped on a busy machine; then there are no times.
        let times = [
            "p50_ns",
            "p99_ns",
            "p50_min_ns",
            "p50_max_ns",
            "ratio_to_limit_x",
        ];
        for name in times.into_iter().filter(|_| counted > 0.0) {
            assert!(
                metrics[name].as_f64().is_some_and(|value| value > 0.0),
                "{name} of {row}"
            );
        }
    }
}

#[test]
fn the_table_and_the_page_name_everybody() {
    let page = std::env::temp_dir().join(format!("doorbell-lab-{}.html", std::process::id()));
    let Some(output) = small_run(&["--html", &page.to_string_lossy()]) else {
        return;
    };
    let table = text(&output.stdout);
    let html = std::fs::read_to_string(&page).expect("the page was written");
    std::fs::remove_file(&page).expect("the page can be removed");
    for name in ["line", "futex", "crossbeam-channel", "tokio"] {
        assert!(table.contains(name), "{name} is missing in:\n{table}");
        assert!(html.contains(name), "{name} is missing in the page");
    }
    assert!(table.contains("machine: "));
}

#[test]
fn only_filters_and_refuses_what_nobody_is_called() {
    let Some(output) = small_run(&["--only", "futex", "--json"]) else {
        return;
    };
    let json: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    let rows = json["rows"].as_array().expect("rows are a list");
    assert!(rows.iter().any(|row| row["contestant"] == "futex"));
    assert!(!rows.iter().any(|row| row["contestant"] == "tokio"));

    let refused = doorbell(&["lab", "call", "--only", "nobody"]);
    assert!(!refused.status.success());
    assert!(
        text(&refused.stderr).contains("tokio (two runtimes"),
        "it says who there is"
    );
    assert_eq!(text(&refused.stdout), "");
}
