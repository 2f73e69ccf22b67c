//! The program with `--sim`.

use std::process::{Command, Output};

use serde_json::Value;

fn doorbell(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_doorbell"))
        .args(arguments)
        .output()
        .expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_scenario_on_a_simulated_machine_prints_only_json() {
    let arguments = "lab wake --sim smt-20 --workers 2 --seeds 1 --json --only off";
    let arguments: Vec<_> = arguments.split(' ').collect();
    let [once, again] = [(); 2].map(|()| doorbell(&arguments));
    assert!(once.status.success(), "{}", text(&once.stderr));
    assert_eq!(
        text(&once.stderr),
        "",
        "no progress where there is no terminal"
    );
    assert_eq!(once.stdout, again.stdout, "a seed gives the same figures");
    let json: Value = serde_json::from_slice(&once.stdout).expect("it is JSON");
    assert_eq!(json["scenario"], "wake");
    assert_eq!(json["machine"]["cores"], serde_json::json!([2]));
    assert_eq!(json["rows"].as_array().map(Vec::len), Some(8));
}

#[test]
fn what_cannot_be_measured_so_is_a_clear_error() {
    let cases: [(&[&str], &str); 5] = [
        (&["lab", "spawn", "--sim", "smt-20"], "leave out --sim"),
        (
            &["lab", "rt", "--sim", "xeon-40", "--period-us", "100"],
            "--period-us",
        ),
        (
            &["lab", "rank", "--sim", "xeon-40", "--unprivileged"],
            "--unprivileged",
        ),
        (&["lab", "wake", "--workers", "8"], "--sim <PROFILE>"),
        (
            &["lab", "wake", "--sim", "smt-20", "--rounds", "3"],
            "--rounds",
        ),
    ];
    for (arguments, part) in cases {
        let output = doorbell(arguments);
        let said = text(&output.stderr);
        assert!(
            !output.status.success() && said.contains(part),
            "{arguments:?}: {said}"
        );
    }
}
