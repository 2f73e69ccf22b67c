//! Load from other programs, `h2load` over HTTP/2 and `wrk` over HTTP/1.1. Every request must be answered,
//! and the clinic must end when it is told to.
//!
//! If such a program is not installed, its tests print that and check nothing.

mod program;

use program::{Clinic, ask};
use rustix::process::Signal;
use std::io::Read as _;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How long a program with a second of work may take.
const LONG: Duration = Duration::from_mins(1);

/// What a program prints until it ends; `None` if it is not installed.
fn output_of(name: &str, arguments: &[&str]) -> Option<String> {
    let spawned = Command::new(name)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut child) = spawned else {
        println!("\nskipped: no program {name} in PATH");
        return None;
    };
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if start.elapsed() > LONG {
            child.kill().unwrap();
        }
        thread::sleep(Duration::from_millis(5));
    };
    let mut output = String::new();
    // The output is short enough for the pipe's buffer.
    child
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut output)
        .unwrap();
    println!("{output}");
    assert!(status.success(), "{name}: {status}");
    Some(output)
}

/// How often that path was requested, by the clinic's own count.
fn count(clinic: &Clinic, path: &str) -> u64 {
    let metrics = ask(clinic, "/metrics").body;
    let begin = format!("clinic_requests{{route=\"{path}\"}} ");
    let line = metrics.lines().find_map(|line| line.strip_prefix(&begin));
    line.unwrap().parse().unwrap()
}

/// Has `h2load` make requests, cycling through the paths on each connection. Returns whether it is
/// installed.
fn h2load(clinic: &Clinic, paths: &[&str], requests: u64) -> bool {
    let before: Vec<u64> = paths.iter().map(|path| count(clinic, path)).collect();
    let number = requests.to_string();
    let urls = paths
        .iter()
        .map(|path| format!("http://{}{path}", clinic.address()));
    let urls: Vec<String> = urls.collect();
    let mut arguments = vec!["-n", &number, "-c", "8", "-m", "16"];
    arguments.extend(urls.iter().map(String::as_str));
    let Some(said) = output_of("h2load", &arguments) else {
        return false;
    };
    for wants in [
        format!("{requests} total, {requests} started, {requests} done, {requests} succeeded"),
        ", 0 failed, 0 errored, 0 timeout".to_owned(),
        format!("{requests} 2xx, 0 3xx, 0 4xx, 0 5xx"),
    ] {
        assert!(said.contains(&wants), "{wants}: {said}");
    }
    // The clinic has counted each request once.
    let counts = paths.iter().map(|path| count(clinic, path));
    let asked: Vec<u64> = counts
        .zip(before)
        .map(|(now, before)| now - before)
        .collect();
    assert!(asked.iter().all(|count| *count > 0), "{paths:?}: {asked:?}");
    assert_eq!(asked.iter().sum::<u64>(), requests, "{paths:?}: {asked:?}");
    true
}

#[test]
fn each_request_of_h2load_is_answered() {
    let clinic = Clinic::start();
    let greets = h2load(&clinic, &["/"], 3_000);
    // Handled in the connection's task, and in two other classes on the same connection.
    if greets && h2load(&clinic, &["/healthz", "/"], 3_000) {
        h2load(&clinic, &["/compute", "/batch", "/healthz"], 150);
    }
    clinic.stop(Signal::TERM);
}

/// Has `wrk` request a path for a while. Returns whether it is installed.
fn wrk(clinic: &Clinic, path: &str) -> bool {
    const CONNECTIONS: u64 = 16;
    let before = count(clinic, path);
    let url = format!("http://{}{path}", clinic.address());
    let connections = CONNECTIONS.to_string();
    let arguments = [
        "-t",
        "1",
        "-c",
        &connections,
        "-d",
        "1s",
        "--timeout",
        "30s",
        &url,
    ];
    let Some(said) = output_of("wrk", &arguments) else {
        return false;
    };
    // It prints these only if there were any.
    for unwanted in ["Socket errors", "Non-2xx"] {
        assert!(!said.contains(unwanted), "{said}");
    }
    let requests = said.lines().find(|line| line.contains(" requests in "));
    let requests = requests.unwrap().trim().split(' ').next().unwrap();
    let requests: u64 = requests.parse().unwrap();
    assert!(requests > 0, "{said}");
    // At the end each connection may have had one request in flight.
    let counted = count(clinic, path) - before;
    let possible = requests..=requests + CONNECTIONS;
    assert!(possible.contains(&counted), "{counted}: {said}");
    true
}

#[test]
fn each_request_of_wrk_is_answered() {
    let clinic = Clinic::start();
    if wrk(&clinic, "/") {
        wrk(&clinic, "/compute");
    }
    clinic.stop(Signal::TERM);
}
