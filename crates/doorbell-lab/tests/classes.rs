//! The scenarios of classes and of wakes as a user runs them.

use std::process::Command;

use serde_json::Value;

/// The report of a scenario, run once; `None` where the process may use one CPU only.
fn report(arguments: &[&str]) -> Option<Value> {
    let little = ["--quick", "--rounds", "1", "--json"];
    let output = Command::new(env!("CARGO_BIN_EXE_doorbell"))
        .arg("lab")
        .args(arguments)
        .args(little)
        .output()
        .expect("the program can be started");
    let errors = String::from_utf8_lossy(&output.stderr);
    if errors.contains("needs 2 CPUs") {
        eprintln!("not tested here: {errors}");
        return None;
    }
    assert!(output.status.success(), "{errors}");
    Some(serde_json::from_slice(&output.stdout).expect("it is JSON"))
}

fn names(report: &Value) -> Vec<(&str, &str)> {
    let rows = report["rows"].as_array().expect("rows are a list").iter();
    rows.map(|row| {
        let name = |key: &str| row[key].as_str().expect("it is a string");
        (name("contestant"), name("variant"))
    })
    .collect()
}

/// Every row has these metrics, and none of them is negative.
fn assert_metrics(report: &Value, metrics: &[&str]) {
    for row in report["rows"].as_array().expect("rows are a list") {
        for name in metrics {
            let value = row["metrics"][name].as_f64();
            assert!(value.is_some_and(|value| value >= 0.0), "{name} of {row}");
        }
    }
}

/// No row has this metric: there are too few times for it.
fn assert_no_metric(report: &Value, name: &str) {
    for row in report["rows"].as_array().expect("rows are a list") {
        assert!(row["metrics"][name].is_null(), "{name} of {row}");
    }
}

/// The first cells of the table of promises.
fn promises(report: &Value) -> Vec<&str> {
    let rows = report["tables"][0]["rows"].as_array();
    let rows = rows.expect("there are promises").iter();
    rows.map(|row| row[0].as_str().expect("it is a string"))
        .collect()
}

#[test]
fn ordinary_tasks_beside_batch_are_compared_with_a_bare_thread() {
    let Some(report) = report(&["urgent", "--unprivileged", "--only", "beside Batch"]) else {
        return;
    };
    let expected = [
        ("bare thread", "plain beside SCHED_IDLE, from a thread"),
        ("doorbell", "Fair on a core beside Batch, from a thread"),
        ("doorbell", "Fair beside Batch, from a thread"),
    ];
    assert_eq!(names(&report), expected);
    assert_metrics(&report, &["p50_us", "max_max_us", "polls_per_s"]);
    assert_no_metric(&report, "p999_us");
    let both = [
        "p99 Fair on a core beside Batch, from a thread",
        "p99 Fair beside Batch, from a thread",
    ];
    assert_eq!(promises(&report), both);
    // Where the limits give the privilege to everybody, it cannot be given up.
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let of_priority = limits
        .lines()
        .find(|line| line.contains("realtime priority"));
    if of_priority.is_some_and(|line| line.split_whitespace().nth(3) == Some("0")) {
        let notes = report["notes"].as_array().expect("notes are a list").iter();
        let mut notes = notes.filter_map(Value::as_str);
        assert!(notes.any(|note| note.contains("doorbell info")), "{report}");
    }
}

#[test]
fn a_stuck_core_is_compared_with_tokios() {
    let Some(report) = report(&["stuck", "--only", "1 task, other parked"]) else {
        return;
    };
    let both = ["tokio", "doorbell"].map(|who| (who, "1 task, other parked"));
    assert_eq!(names(&report), both);
    assert_metrics(&report, &["p50_us", "max_us"]);
    // 40 times are too few for it.
    assert_no_metric(&report, "p99_us");
    assert_eq!(promises(&report), ["p99 1 task, other parked"]);
    for row in report["rows"].as_array().expect("rows are a list") {
        assert_eq!(row["metrics"]["early_count"], 0.0, "{row}");
        assert_eq!(row["metrics"]["operations_count"], 40.0, "{row}");
    }
}

#[test]
fn wakes_are_compared_with_tokio() {
    let Some(report) = report(&["wake", "--only", "pool (light, p"]) else {
        return;
    };
    let both = ["tokio", "spinning pool"].map(|who| (who, "light, pinned"));
    assert_eq!(names(&report), both);
    for row in report["rows"].as_array().expect("rows are a list") {
        let metric = |name: &str| row["metrics"][name].as_f64().expect("it is a number");
        let all = metric("operations_count") + metric("skipped_count");
        assert!((all - 4_000.0).abs() < 0.5, "{row}");
        // On a loaded computer most wakes may be skipped. There is what there are enough times for.
        for (name, least) in [("p50_us", 20.0), ("p99_us", 1_000.0), ("p995_us", 2_000.0)] {
            let is_there = row["metrics"][name].is_number();
            assert_eq!(
                is_there,
                metric("operations_count") >= least,
                "{name} of {row}"
            );
        }
    }
}

#[test]
fn what_waits_beside_computing_tasks_is_compared_with_tokio() {
    let Some(report) = report(&["busy", "--only", "doorbell (1 core, 1 task, 20 us"]) else {
        return;
    };
    let parts = ["socket", "sleep", "spawn"].map(|part| format!("1 core, 1 task, 20 us: {part}"));
    let both = ["tokio", "doorbell"];
    let expected = both.map(|who| parts.each_ref().map(|part| (who, part.as_str())));
    assert_eq!(names(&report), expected.concat());
    assert_metrics(&report, &["p50_us", "max_us", "ratio_x", "computed_per_s"]);
    let goals = promises(&report);
    assert_eq!(goals[0], format!("{}, p50", parts[0]));
    assert_eq!(goals.len(), 10);
}

#[test]
fn a_lone_task_counts_its_yields_in_passes_of_a_second() {
    let Some(report) = report(&[
        "busy",
        "--seconds",
        "1",
        "--only",
        "doorbell (socket beside",
    ]) else {
        return;
    };
    let variant = "socket beside a lone task";
    let expected = ["tokio", "doorbell"].map(|who| (who, variant));
    assert_eq!(names(&report), expected);
    assert_metrics(&report, &["p50_us", "yields_count", "yields_max_count"]);
    assert_eq!(promises(&report).len(), 1);
}

#[test]
fn a_service_that_computes_answers_on_kept_and_on_new_connections() {
    let Some(report) = report(&["busy", "--only", "doorbell (service, 10"]) else {
        return;
    };
    let parts = ["kept", "new"].map(|part| format!("service, 10 x 1 ms: {part}"));
    let both = ["tokio", "doorbell"];
    let expected = both.map(|who| parts.each_ref().map(|part| (who, part.as_str())));
    assert_eq!(names(&report), expected.concat());
    assert_metrics(&report, &["p50_us", "max_us", "ratio_x", "computed_per_s"]);
    assert_eq!(promises(&report).len(), 5);
}
