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

fn assert_narrow(text: &str) {
    let widest = text.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(120), "{text}");
}

#[test]
fn help_of_scenarios_teaches() {
    let timers = [
        "--rounds", "--quick", "--json", "--only", "--wide", "Columns:",
    ];
    for scenario in [
        "spawn",
        "flood",
        "shootdown",
        "idle",
        "timer-cost",
        "timer-acc",
        "timer-idle",
        "timer-sleepers",
        "requests",
        "urgent",
        "stuck",
        "wake",
        "pingpong",
        "rank",
        "rt",
        "busy",
        "http",
    ] {
        let output = doorbell(&["lab", scenario, "--help"]);
        let help = text(&output.stdout);
        for part in timers {
            assert!(
                help.contains(part),
                "{scenario} does not say {part}:\n{help}"
            );
        }
    }
}

#[test]
fn help_of_simulated_scenarios_teaches_both() {
    for scenario in [
        "call",
        "shootdown",
        "timer-cost",
        "timer-sleepers",
        "wake",
        "pingpong",
        "rank",
        "rt",
    ] {
        let output = doorbell(&["lab", scenario, "--help"]);
        let help = text(&output.stdout);
        let both = [
            "Columns:",
            "Columns with --sim:",
            "--seeds",
            "simulated machine",
        ];
        for part in both {
            assert!(
                help.contains(part),
                "{scenario} does not say {part}:\n{help}"
            );
        }
    }
}

#[test]
fn help_shows_examples() {
    let cases: [(&[&str], &[&str]); 3] = [
        (&["--help"], &["lab", "Examples:", "doorbell lab call"]),
        (
            &["lab", "--help"],
            &[
                "call",
                "spawn",
                "flood",
                "shootdown",
                "idle",
                "tour",
                "interleaved",
                "physical limit",
                "Examples:",
            ],
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
        let times = ["p50_ns", "p50_min_ns", "p50_max_ns", "ratio_to_limit_x"];
        for name in times.into_iter().filter(|_| counted > 0.0) {
            assert!(
                metrics[name].as_f64().is_some_and(|value| value > 0.0),
                "{name} of {row}"
            );
        }
        // 1,260 calls that are timed are enough for it, 63 are not.
        if counted > 0.0 && row["contestant"] == "line" {
            assert!(metrics["p99_ns"].is_number(), "{row}");
        }
        if row["contestant"] == "futex" {
            assert!(metrics["p99_ns"].is_null(), "{row}");
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
    for name in ["line", "futex", "crossbeam", "tokio"] {
        assert!(table.contains(name), "{name} is missing in:\n{table}");
        assert!(html.contains(name), "{name} is missing in the page");
    }
    assert!(table.contains("machine: "));
    assert_narrow(&table);
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

/// The rows of a scenario without a limit, run once; empty where the process may use one CPU only.
fn trial_rows(scenario: &str, only: &str) -> Vec<Value> {
    let arguments = ["--quick", "--rounds", "1", "--json", "--only", only];
    let output = doorbell(&[&["lab", scenario][..], &arguments].concat());
    if text(&output.stderr).contains("needs 2 CPUs") {
        eprintln!("not tested here: {}", text(&output.stderr));
        return Vec::new();
    }
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "", "nothing else is said");
    let json: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    assert_eq!(json["scenario"], scenario);
    assert_eq!(json["rounds"], 1);
    assert!(json["machine"]["cpu_model"].is_string());
    let rows = json["rows"].as_array().expect("rows are a list").clone();
    for row in &rows {
        assert!(row["variant"].is_string(), "{row}");
        assert_eq!(row["metrics"]["rounds_kept_count"], 1.0, "{row}");
        let operations = row["metrics"]["operations_count"].as_f64();
        assert!(operations > Some(0.0), "{row}");
    }
    rows
}

fn names(rows: &[Value]) -> Vec<&str> {
    let names = rows.iter().map(|row| row["contestant"].as_str());
    names
        .map(|name| name.expect("a contestant is a string"))
        .collect()
}

/// Every row has these metrics, and none of them is negative.
fn assert_metrics(rows: &[Value], metrics: &[&str]) {
    for row in rows {
        for name in metrics {
            let value = row["metrics"][name].as_f64();
            assert!(value.is_some_and(|value| value >= 0.0), "{name} of {row}");
        }
    }
}

#[test]
fn spawn_compares_with_tokio() {
    let rows = trial_rows("spawn", "chained");
    if rows.is_empty() {
        return;
    }
    assert_eq!(names(&rows), ["doorbell", "tokio"]);
    assert_metrics(&rows, &["op_ns", "op_min_ns", "ops_per_s", "ratio_x"]);
}

#[test]
fn flood_is_compared_with_the_limit() {
    let rows = trial_rows("flood", "doorbell (post_on, 8");
    if rows.is_empty() {
        return;
    }
    assert_eq!(names(&rows), ["SPSC rings", "doorbell"]);
    assert_metrics(&rows, &["mops_per_s", "mops_min_per_s", "ratio_x"]);
}

#[test]
fn shootdown_is_compared_with_the_seeds_baseline() {
    let rows = trial_rows("shootdown", "=on");
    if rows.is_empty() {
        return;
    }
    assert_eq!(names(&rows), ["doorbell", "doorbell"]);
    assert_eq!(rows[0]["variant"], "call_coalesce=base");
    let wanted = [
        "calls_per_s",
        "ratio_x",
        "rings_per_1k",
        "by_workers_percent",
    ];
    assert_metrics(&rows, &wanted);
    assert_eq!(rows[1]["metrics"]["rings_awake_per_1k"], 0.0);
    // Whatever else runs on this machine: every post to a worker that runs is such a ring.
    let awake = rows[0]["metrics"]["rings_awake_per_1k"].as_f64();
    assert!(awake.is_some_and(|count| count > 0.0), "{rows:?}");
}

#[test]
fn an_idle_runtime_is_looked_at() {
    let rows = trial_rows("idle", "doorbell");
    if rows.is_empty() {
        return;
    }
    assert_eq!(names(&rows), ["doorbell", "tokio"]);
    assert_metrics(&rows, &["idle_switches_count", "idle_span_s"]);
    for row in &rows {
        assert_eq!(row["metrics"]["threads_count"], 2.0, "{row}");
        // Far more than a runtime has that rests, far less than one that polls.
        let switches = row["metrics"]["idle_switches_count"].as_f64();
        assert!(switches.is_some_and(|count| count < 200.0), "{row}");
    }
}

#[test]
fn the_tour_shows_each_scenario_with_a_sentence() {
    let output = doorbell(&["lab", "--quick", "--only", "timer-c"]);
    if text(&output.stderr).contains("needs 2 CPUs") {
        eprintln!("not tested here: {}", text(&output.stderr));
        return;
    }
    assert!(output.status.success(), "{}", text(&output.stderr));
    let tour = text(&output.stdout);
    for part in [
        "timer-cost: ",
        "(1 of 1",
        "array wheel",
        "A timeout that",
        "machine: ",
    ] {
        assert!(tour.contains(part), "{part} is missing in:\n{tour}");
    }
    assert_narrow(&tour);

    let output = doorbell(&["lab", "--quick", "--json", "--only", "timer-a"]);
    let json: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    assert_eq!(json["scenario"], "tour");
    assert_eq!(json["reports"][0]["scenario"], "timer-acc");
    assert!(json["reports"][0]["gist"].is_string());

    let refused = doorbell(&["lab", "--only", "nothing"]);
    assert!(text(&refused.stderr).contains("there are:\n  call\n  spawn"));
}

#[test]
fn pingpong_is_compared_with_tokio() {
    let rows = trial_rows("pingpong", "doorbell (2 pairs");
    if rows.is_empty() {
        return;
    }
    assert_eq!(names(&rows), ["tokio", "doorbell"]);
    let wanted = ["exchanges_per_s", "op_us", "ratio_x", "cpu_us_per_op"];
    assert_metrics(&rows, &wanted);
    assert_metrics(&rows[1..], &["rings_per_op"]);
}

#[test]
fn rank_and_rt_count_what_waits() {
    let rows = trial_rows("rank", "doorbell (other idle");
    if rows.is_empty() {
        return;
    }
    // Threads have ranks only with a privilege.
    assert_eq!(names(&rows).last(), Some(&"doorbell"));
    assert_metrics(&rows, &["p50_us", "max_us", "moved_percent"]);
    let rows = trial_rows("rt", "doorbell (2 extra");
    assert_eq!(names(&rows)[1..], ["doorbell"]);
    // On a busy machine many ticks are missed, and the others are too few for a p99 and its ratio.
    let wanted = [
        "p50_us",
        "missed_count",
        "wait_p50_us",
        "wait_max_us",
        "skipped_count",
    ];
    assert_metrics(&rows, &wanted);
    assert_metrics(&rows[1..], &["rings_per_op"]);
}

#[test]
fn timer_cost_compares_with_the_floor_of_the_variant() {
    let rows = trial_rows("timer-cost", "doorbell (batches");
    if rows.is_empty() {
        return;
    }
    assert_eq!(names(&rows), ["array wheel", "doorbell", "doorbell"]);
    let wanted = ["op_ns", "op_min_ns", "op_max_ns", "ratio_x", "ratio_min_x"];
    assert_metrics(&rows, &wanted);
    assert_eq!(rows[0]["metrics"]["ratio_x"], 1.0);
}

#[test]
fn timer_acc_is_never_early() {
    let rows = trial_rows("timer-acc", "slack 0");
    if rows.is_empty() {
        return;
    }
    assert_eq!(names(&rows), ["OS threads", "doorbell", "doorbell"]);
    let wanted = ["p50_us", "p99_us", "max_us", "ratio_x", "cpu_percent"];
    assert_metrics(&rows, &wanted);
    for row in &rows {
        assert_eq!(row["metrics"]["early_count"], 0.0, "{row}");
        assert_eq!(row["metrics"]["operations_count"], 2_000.0, "{row}");
    }
}

#[test]
fn timer_idle_is_never_early() {
    let rows = trial_rows("timer-idle", "doorbell");
    if rows.is_empty() {
        return;
    }
    assert_eq!(names(&rows)[0], "tokio");
    assert_eq!(names(&rows)[1..], ["doorbell"; 4]);
    let wanted = [
        "wakeups_per_op",
        "ratio_x",
        "cpu_percent",
        "cpu_min_percent",
    ];
    assert_metrics(&rows, &wanted);
    let ticks = &rows[0]["metrics"]["operations_count"];
    for row in &rows {
        assert_eq!(row["metrics"]["early_count"], 0.0, "{row}");
        assert_eq!(&row["metrics"]["operations_count"], ticks, "{row}");
    }
}

#[test]
fn timer_sleepers_fires_each_timer_and_none_early() {
    let rows = trial_rows("timer-sleepers", "tokio");
    if rows.is_empty() {
        return;
    }
    assert_eq!(
        names(&rows),
        ["doorbell, off", "tokio", "doorbell, off", "tokio"]
    );
    let wanted = ["wakeups_per_op", "ratio_x", "cpu_percent", "p99_us"];
    assert_metrics(&rows, &wanted);
    for row in &rows {
        assert_eq!(row["metrics"]["early_count"], 0.0, "{row}");
        assert_eq!(row["metrics"]["operations_count"], 1_000.0, "{row}");
    }
}

#[test]
fn timer_scenarios_say_who_there_is() {
    let refused = doorbell(&["lab", "timer-cost", "--quick", "--only", "nobody"]);
    assert!(!refused.status.success());
    assert!(text(&refused.stderr).contains("smol (both cores at once)"));
}

#[test]
fn a_calibration_is_a_profile_that_can_be_simulated() {
    let folder = std::env::temp_dir().join(format!("doorbell-calibrate-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("the folder can be made");
    let file = folder.join("mine.toml");
    let path = file.to_str().expect("it is UTF-8");
    let output = doorbell(&["calibrate", "--rounds", "1", "--json", "--out", path]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    assert_eq!(
        (&json["program"], &json["rounds"]),
        (&"calibrate".into(), &1.into())
    );
    let probes = json["probes"].as_array().expect("a list");
    for name in [
        "own_hit", "own_rmw", "fence", "memory", "syscall", "hop", "late",
    ] {
        let probe = probes.iter().find(|probe| probe["probe"] == name);
        let median_ns = probe.and_then(|probe| probe["median_ns"].as_f64());
        assert!(
            median_ns.is_some_and(|ns| ns > 0.1),
            "{name}: {median_ns:?}"
        );
    }
    let sources = json["entries"].as_array().expect("a list").iter();
    let measured = sources.filter(|entry| {
        let source = entry["source"].as_str().expect("a text");
        source.starts_with("measured") && source.contains("median of 1 rounds")
    });
    assert!(measured.count() >= 10, "{json}");

    let fuzz = [
        "sim",
        "fuzz",
        "--seeds",
        "3",
        "--cores",
        "2",
        "--shape",
        "two-workers",
    ];
    let output = doorbell(&[&fuzz[..], &["--profile", path, "--json"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    assert_eq!((&json["seeds_run"], &json["runs"]), (&1.into(), &1.into()));
    assert!(json["failure"].is_null());
    std::fs::remove_dir_all(&folder).expect("it is there");
}

#[test]
fn a_calibration_that_cannot_be_written_says_so_before_it_measures() {
    let output = doorbell(&["calibrate", "--out", "/no/such/folder/mine.toml"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("cannot write /no/such/folder/mine.toml"));
}

#[test]
fn a_seed_is_replayed_as_a_trace() {
    let folder = std::env::temp_dir().join(format!("doorbell-replay-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("the folder can be made");
    let file = folder.join("out.json");
    let path = file.to_str().expect("it is UTF-8");
    let replay = ["sim", "replay", "5", "--shape", "storm", "--cores", "3"];
    let plain = doorbell(&replay);
    let traced = doorbell(&[&replay[..], &["--memory", "sc", "--trace", path]].concat());
    assert!(
        plain.status.success() && traced.status.success(),
        "{}",
        text(&traced.stderr)
    );
    let (plain, traced) = (text(&plain.stdout), text(&traced.stdout));
    let hash = |text: &str| {
        text.lines()
            .find(|line| line.starts_with("hash: "))
            .map(str::to_owned)
    };
    assert!(
        hash(&plain).is_some() && hash(&plain) == hash(&traced),
        "a trace changes nothing"
    );
    assert!(plain.contains("seed: 5\nshape: storm\ncores: 3"), "{plain}");
    let bytes = std::fs::read(&file).expect("it was written");
    let json: Value = serde_json::from_slice(&bytes).expect("it is JSON");
    let records = json["traceEvents"].as_array().expect("a list");
    for name in ["running", "parked", "process_name", "thread_name"] {
        assert!(
            records.iter().any(|record| record["name"] == name),
            "{name}"
        );
    }
    std::fs::remove_dir_all(&folder).expect("it is there");
}

#[test]
fn a_scenario_for_simulated_machines_only_says_so() {
    let output = doorbell(&["lab", "requests"]);
    assert!(!output.status.success());
    let error = text(&output.stderr);
    assert!(error.contains("--sim zen3-2x64"), "{error}");
}

#[test]
fn what_the_simulator_cannot_do_is_a_clear_error() {
    let cases: [(&[&str], &str); 9] = [
        (&["fuzz", "--seeds", "9..2"], "write `2..9`"),
        (&["fuzz", "--seeds", "4..4"], "write `4..=4`"),
        (&["fuzz", "--seeds", "some"], "is no range"),
        (&["fuzz", "--cores", "0..4"], "write `1..=3`"),
        (&["fuzz", "--cores", "2..=1025"], "write `2..=1024`"),
        (&["fuzz", "--profile", "epyc"], "did you mean `epyc-2x64`"),
        (
            &["fuzz", "--profile", "./none.toml"],
            "./none.toml: cannot read",
        ),
        (
            &["replay", "1", "--shape", "strom"],
            "no shape contains `strom`",
        ),
        (
            &["mutants", "--only", "Nonsense"],
            "no mutant contains `Nonsense`",
        ),
    ];
    for (arguments, part) in cases {
        let output = doorbell(&[&["sim"], arguments].concat());
        assert!(!output.status.success(), "{arguments:?}");
        let error = text(&output.stderr);
        assert!(
            error.contains(part),
            "{arguments:?} does not say {part}: {error}"
        );
    }
}
