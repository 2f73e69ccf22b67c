//! `doorbell info` as a user runs it.

use std::process::{Command, Output};

use serde_json::Value;

fn info(arguments: &[&str], switches: Option<&str>) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_doorbell"));
    if let Some(switches) = switches {
        program.env("DOORBELL_SWITCHES", switches);
    }
    let output = program.arg("info").args(arguments).output();
    output.expect("the program can be started")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("the program writes UTF-8")
}

#[test]
fn it_says_what_there_is() {
    let output = info(&[], None);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "", "nothing else is said");
    let table = text(&output.stdout);
    for part in [
        "cpus: ",
        "clock: ",
        "sched_fifo: ",
        "rtprio_max: ",
        "cap_sys_nice: ",
        "worker_timer_slack_ns: ",
        "\nworkers\n",
        "switches: ",
    ] {
        assert!(table.contains(part), "{part} is missing in:\n{table}");
    }
}

#[test]
fn json_has_the_same() {
    let output = info(&["--json"], Some("idle_notify=off"));
    let json: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    assert!(json["cpus"].as_array().is_some_and(|cpus| !cpus.is_empty()));
    assert_eq!(json["sched_idle"], "given");
    let workers = json["workers"].as_array().expect("workers are a list");
    let idle = workers
        .iter()
        .filter(|worker| worker["got"] == "SCHED_IDLE");
    assert!(idle.count() >= 1, "{json}");
    assert!(json["remedies"].is_array());
    let switches = json["switches"].as_str();
    assert!(switches.is_some_and(|switches| switches.contains("idle_notify=off")));
}

#[test]
fn wrong_switches_are_an_error_with_a_remedy() {
    let output = info(&[], Some("nonsense"));
    assert!(!output.status.success());
    assert!(text(&output.stderr).contains("DOORBELL_SWITCHES"));
    assert_eq!(text(&output.stdout), "");
}

#[test]
fn help_teaches() {
    let help = text(&info(&["--help"], None).stdout);
    for part in ["--json", "Examples:", "policies", "`-`"] {
        assert!(help.contains(part), "{part} is missing in:\n{help}");
    }
}

#[test]
fn an_error_that_cannot_be_written_is_no_panic() {
    let full = std::fs::File::options().write(true).open("/dev/full");
    let mut program = Command::new(env!("CARGO_BIN_EXE_doorbell"));
    program.arg("info").env("DOORBELL_SWITCHES", "nonsense");
    let status = program
        .stderr(full.expect("there is such a device"))
        .status();
    assert_eq!(status.expect("the program can be started").code(), Some(1));
}
