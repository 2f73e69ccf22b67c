//! The first sleep of a process sets up nothing that all runtimes share.
//!
//! Each measurement is a process of its own, since a process has only one first sleep.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests play the outside world"
)]

use doorbell::time::{Duration, sleep};
use doorbell::{Builder, Handle};
use std::process::Command;

const TEST: &str = "t16_the_first_sleep_of_a_process_waits_for_nothing_but_its_time";

/// Set in the processes that sleep.
const CHILD: &str = "DOORBELL_FIRST_SLEEP";

/// The prefix of their output.
const SAYS: &str = "waits and parks: ";

const PROCESSES: usize = 10;

/// How often this thread has blocked.
fn waits_of_this_thread() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let count = status
        .lines()
        .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    count.unwrap().trim().parse().unwrap()
}

/// How often the worker blocked, and how often it parked, during the first sleep of this process.
fn first_sleep() -> (u64, u64) {
    let rt = Builder::new().cores(1).build().unwrap();
    let task = rt.spawn(async {
        let parks = || Handle::current().metrics().workers[0].counts.parks;
        let before = (waits_of_this_thread(), parks());
        sleep(Duration::from_micros(300)).await;
        let waits = waits_of_this_thread() - before.0;
        (waits, parks() - before.1)
    });
    rt.block_on(task).unwrap()
}

/// The same for a new process.
fn first_sleep_of_a_process() -> (u64, u64) {
    let child = Command::new(std::env::current_exe().unwrap())
        .args([TEST, "--exact", "--nocapture", "--test-threads=1"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stderr).into_owned();
    assert!(child.status.success(), "{said}");
    let counts = said.lines().find_map(|line| line.strip_prefix(SAYS));
    let (waits, parks) = counts.and_then(|counts| counts.split_once(' ')).unwrap();
    (waits.parse().unwrap(), parks.parse().unwrap())
}

/// The worker blocks only for its own parks. (The minimum over several processes counts, since a page fault
/// may block a thread too.)
#[test]
fn t16_the_first_sleep_of_a_process_waits_for_nothing_but_its_time() {
    if std::env::var_os(CHILD).is_some() {
        let (waits, parks) = first_sleep();
        eprintln!("{SAYS}{waits} {parks}");
        return;
    }
    let all: Vec<_> = (0..PROCESSES).map(|_| first_sleep_of_a_process()).collect();
    let least = all
        .iter()
        .map(|(waits, parks)| waits.saturating_sub(*parks));
    assert_eq!(least.min(), Some(0), "{all:?}");
    assert!(all.iter().any(|(_, parks)| *parks > 0), "{all:?}");
}
