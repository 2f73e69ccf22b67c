//! The memory of timers goes back to the OS.
//!
//! The measurement is a process of its own, whose allocator is set up before it starts.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests play the outside world"
)]

use doorbell::{Builder, Runtime};
use std::process::Command;
use std::time::Duration;

const TEST: &str = "t20_the_memory_of_many_timers_goes_back_when_their_runtime_ends";

/// Set in the process that measures.
const CHILD: &str = "DOORBELL_TIMER_MEMORY";

/// The prefix of what it says.
const SAYS: &str = "KiB before and after: ";

/// Together they need more than 30 MB.
const TIMERS: u64 = 300_000;

/// How much more memory the process may have than before.
const MORE_KIB: u64 = 10_000;

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let mut lines = status.lines();
    let resident = lines.find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    resident.trim_end_matches("kB").trim().parse().unwrap()
}

fn polls(rt: &Runtime) -> u64 {
    let workers = rt.metrics().workers;
    workers.iter().map(|worker| worker.counts.polls).sum()
}

/// The memory of the process after so many tasks have slept in a runtime that has ended.
fn kib_after(timers: u64) -> u64 {
    let rt = Builder::new().cores(2).build().unwrap();
    for _ in 0..timers {
        drop(rt.spawn(doorbell::time::sleep(Duration::from_secs(3_600))));
    }
    while polls(&rt) < timers {
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(rt);
    resident_kib()
}

#[test]
fn t20_the_memory_of_many_timers_goes_back_when_their_runtime_ends() {
    if std::env::var_os(CHILD).is_some() {
        let (before, after) = (kib_after(1_000), kib_after(TIMERS));
        eprintln!("{SAYS}{before} {after}");
        return;
    }
    if cfg!(doorbell_tsan) {
        eprintln!("not tested here: the sanitizer has an allocator of its own");
        return;
    }
    let child = Command::new(std::env::current_exe().unwrap())
        .args([TEST, "--exact", "--nocapture", "--test-threads=1"])
        .env(CHILD, "1")
        // Freed blocks that glibc keeps for each thread count as used: one of the test's own thread, above those of the
        // tasks, would hold all of them back.
        .env("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stderr).into_owned();
    assert!(child.status.success(), "{said}");
    let measured = said.lines().find_map(|line| line.strip_prefix(SAYS));
    let (before, after) = measured.and_then(|kib| kib.split_once(' ')).unwrap();
    let kib = |number: &str| number.parse::<u64>().unwrap();
    assert!(
        kib(after) <= kib(before) + MORE_KIB,
        "{after} KiB, and {before} KiB before"
    );
}
