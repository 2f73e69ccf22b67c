//! The cost of generic code: post, take and run of calls on one thread, beside the same steps written by
//! hand with std atomics. callgrind counts the instructions.
//!
//! `cargo bench -p doorbell-torture --bench call_path` prints both and their ratio. The instructions of a
//! single-threaded path do not vary between runs, so there are no rounds. With the argument `check` it
//! fails if generic code costs over one per cent more.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a program of its own"
)]

mod by_hand;
mod generic;

use std::process::{Command, ExitCode};

const CALLS: usize = 10_000;

/// How many calls are posted between two takes.
const BATCHES: [usize; 2] = [1, 100];

/// The most that generic code may cost, relative to hand-written code.
const RATIO_MAX: f64 = 1.01;

fn main() -> ExitCode {
    // `cargo bench` and `cargo test --benches` pass the flags of the standard harness.
    let words: Vec<String> = std::env::args()
        .skip(1)
        .filter(|w| !w.starts_with("--"))
        .collect();
    match words.first().map(String::as_str) {
        Some("run") => run(&words[1], words[2].parse().expect("a number of calls")),
        Some("check") => compare(RATIO_MAX),
        _ => compare(f64::INFINITY),
    }
}

/// What callgrind runs: one side, once.
fn run(side: &str, batch: usize) -> ExitCode {
    let ran = match side {
        "generic" => generic::calls(CALLS, batch),
        "by_hand" => by_hand::calls(CALLS, batch),
        other => panic!("there is no side `{other}`"),
    };
    assert_eq!(ran, CALLS as u64, "a call was lost or ran twice");
    ExitCode::SUCCESS
}

fn compare(ratio_max: f64) -> ExitCode {
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("skipped: valgrind is not installed (Debian: apt-get install valgrind)");
        return ExitCode::SUCCESS;
    }
    println!("instructions for {CALLS} calls on one thread (post, take, run)");
    println!(
        "{:>10}  {:>10}  {:>10}  {:>7}",
        "batch", "by hand", "doorbell", "ratio"
    );
    let mut worst = 0.0_f64;
    for batch in BATCHES {
        let by_hand = count("by_hand", batch);
        let generic = count("generic", batch);
        let ratio = generic as f64 / by_hand as f64;
        println!("{batch:>10}  {by_hand:>10}  {generic:>10}  {ratio:>7.4}");
        worst = worst.max(ratio);
    }
    if worst > ratio_max {
        println!("the ratio is above {ratio_max}: the generic code has become dearer");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Runs this program under callgrind, counting only below the side's entry.
fn count(side: &str, batch: usize) -> u64 {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(format!("--toggle-collect=call_path::{side}::calls"))
        .arg(std::env::current_exe().expect("this program has a path"))
        .args(["run", side, &batch.to_string()])
        .output()
        .expect("valgrind runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "the run under callgrind failed:\n{text}"
    );
    text.lines()
        .find_map(|line| line.split("Collected :").nth(1)?.trim().parse().ok())
        .unwrap_or_else(|| panic!("callgrind said nothing of what it collected:\n{text}"))
}
