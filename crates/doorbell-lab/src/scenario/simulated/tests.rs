//! The frame: rows, their machine, and errors that say what to do.

use super::*;
use doorbell::switches::{IdleClaim, RtPush, TimerPull};

const SIM: &str = "smt-20";

/// Rows whose label contains `only`, on so many workers.
fn options(workers: u32, only: &str) -> Options {
    Options {
        only: Some(only.to_owned()),
        workers: Some(workers),
        seeds: Some(1),
        ..Options::default()
    }
}

#[test]
fn a_report_names_its_machine_and_its_rows() {
    let options = Options {
        seeds: Some(2),
        ..options(4, "on (2 x 2 by threads")
    };
    let report = run("wake", SIM, &options).expect("it runs");
    let variants: Vec<_> = report.rows.iter().map(|row| row.variant.as_str()).collect();
    assert_eq!(variants, ["2 x 2 by threads", "2 x 2 by threads, together"]);
    let wakes = report.rows[0].metrics.get("wakes_count");
    assert_eq!(wakes, Some(2.0 * 4.0 * 100.0), "two seeds");
    let table = report.to_table(false);
    assert!(
        table.contains("profile smt-20") && table.contains("on 4 cores"),
        "{table}"
    );
    let json = crate::report::to_json(&report).expect("it has a JSON form");
    let json: serde_json::Value = serde_json::from_str(&json).expect("it is JSON");
    assert_eq!(json["machine"]["profile"], "smt-20");
    assert_eq!(json["machine"]["seeds"], 2);
    assert!(json["rows"][0]["metrics"]["p50_us"].is_number());
}

/// Where a scenario compares a switch, it has a row for each of its settings.
#[test]
fn each_setting_of_a_switch_is_compared() {
    let of = |name| {
        let profile = Profile::load(SIM).expect("it is built in");
        let plan = plan(name, &profile, None).expect("so many workers will do");
        plan.settings.into_iter().map(switches)
    };
    let claims: Vec<_> = of("wake").map(|it| it.idle_claim).collect();
    assert_eq!(claims, IdleClaim::ALL);
    // `auto` is one of the others.
    let pushes: Vec<_> = of("rt").map(|it| it.rt_push).collect();
    assert_eq!(pushes, RtPush::ALL[1..]);
    for name in ["timer-sleepers", "timer-cost", "requests"] {
        let pulls: Vec<_> = of(name).map(|it| it.timer_pull).collect();
        assert_eq!(pulls, [TimerPull::On, TimerPull::Off, TimerPull::Base]);
    }
}

/// A row of each other scenario, at a small size.
#[test]
fn each_scenario_has_its_figures() {
    let of = |name, workers, only, metrics: &[&str]| {
        let report = run(name, SIM, &options(workers, only)).expect("it runs");
        assert_eq!(report.rows.len(), 1, "{name}");
        for metric in metrics {
            assert!(
                report.rows[0].metrics.get(metric).is_some(),
                "{name}: {metric}"
            );
        }
    };
    of(
        "rt",
        12,
        "rt_push=on (12 workers, 1 extra",
        &["p99_us", "extra_max_us", "rings_per_core_s"],
    );
    of("rank", 2, "by the poll, others idle", &["p50_us", "max_us"]);
    of(
        "pingpong",
        2,
        "=on (1 pair)",
        &["ops_per_s", "p50_us", "p99_us"],
    );
    of(
        "timer-sleepers",
        4,
        "timer_pull=on (4 workers, 1 awake",
        &["wakes_per_timer", "p99_us", "fenced_count"],
    );
    of(
        "timer-cost",
        8,
        "timer_pull=base (arm and drop",
        &["op_ns", "mails_per_timer", "ratio_x"],
    );
    of(
        "call",
        4,
        "notify=on (1 caller)",
        &["op_ns", "rings_per_1k"],
    );
    of(
        "shootdown",
        4,
        "=base (4 workers",
        &["ratio_x", "calls_per_s"],
    );
    for what in ["call", "shootdown", "flood", "spawn", "urgent", "wake"] {
        of("scale", 8, what, &["op_ns"]);
    }
    of("kernel", 4, "2 us masked, base", &["op_ns"]);
    of(
        "kernel",
        4,
        "4 threads, 20 us apart, base",
        &["interrupts_per_1k"],
    );
    of(
        "requests",
        4,
        "timer_pull=base (8 pairs",
        &["ops_per_s", "timeouts_per_1k", "ratio_x"],
    );
}

/// `--workers` replaces numbers of workers, but not one that is always the same. A row may need more than that.
#[test]
fn workers_that_are_asked_for_are_those_of_each_row_that_may_have_them() {
    let has = |name, workers, row| {
        let labels = labels(name, SIM, &options(workers, ""));
        labels.iter().any(|label| label.ends_with(row))
    };
    assert!(has("timer-sleepers", 32, "(32 workers, 16 awake)"));
    assert!(!has("timer-sleepers", 30, "16 awake)"));
    let both = [
        "(ipistorm, 1 us masked, base)",
        "(7 threads, 20 us apart, base)",
    ];
    assert!(both.into_iter().all(|row| has("kernel", 7, row)));
    assert!(has("rt", 5, "(5 workers, 2 overloaded)"));
}

#[test]
fn what_cannot_be_simulated_says_what_to_do() {
    let fails = |name, sim, workers, only| {
        let error = run(name, sim, &options(workers, only)).expect_err("it cannot be run");
        error.to_string()
    };
    let none = fails("spawn", SIM, 4, "");
    assert!(
        none.contains("leave out --sim") && none.contains("wake"),
        "{none}"
    );
    let odd = fails("wake", SIM, 5, "");
    assert!(odd.contains("--workers is 5"), "{odd}");
    for (name, workers) in [
        ("rt", 3),
        ("rank", 1),
        ("pingpong", 1),
        ("timer-cost", 7),
        ("requests", 1),
        ("call", 1),
        ("shootdown", 1),
        ("kernel", 1),
        ("scale", 3),
    ] {
        let few = fails(name, SIM, workers, "");
        assert!(few.contains("at least"), "{few}");
    }
    let large = fails("wake", SIM, 1_024, "threads");
    assert!(large.contains("ask for fewer workers"), "{large}");
    let nobody = fails("wake", SIM, 4, "nobody");
    assert!(nobody.contains("2 x 2 by threads"), "{nobody}");
    let profile = fails("wake", "smt-2", 4, "");
    assert!(profile.contains("smt-20"), "{profile}");
}

/// The tables fit, and keep the columns that answer their question.
#[test]
fn the_tables_fit() {
    let kept: [(&str, &[&str]); 10] = [
        (
            "wake",
            &[
                "p50 us",
                "p99 us",
                "p99.5 us",
                "max us",
                "stacked/1k",
                "rings/wake",
            ],
        ),
        ("rt", &["p99 us", "max us", "extra p50", "rings/core/s"]),
        ("rank", &["p50 us", "p99 us", "max us", "skipped"]),
        ("pingpong", &["exchanges/s", "p50 us", "p99 us"]),
        ("timer-cost", &["ns", "x base", "mails", "rings/1k"]),
        ("requests", &["ops/s", "x base", "timeouts/1k", "rings"]),
        ("call", &["ns", "x off", "rings/1k", "passes/1k"]),
        ("shootdown", &["calls/s", "x base", "rings/1k"]),
        ("scale", &["ns"]),
        ("kernel", &["ns", "calls/s", "interrupts/1k"]),
    ];
    let profile = Profile::load("xeon-40").expect("it is built in");
    for (name, kept) in kept {
        let plan = plan(name, &profile, None).expect("it can be run");
        let names = pairs(&plan).map(|(setting, case)| (setting, case.variant.as_str()));
        let text = super::super::of_name(name).expect("it is a scenario").text;
        let metrics = text.metrics("Metrics with --sim");
        crate::report::assert_fits(names, &metrics, kept);
    }
}
