//! Two independent processes share the CPUs of the machine.
//!
//! Each test starts itself again as two child processes. They build a runtime and print on which CPUs its
//! workers may run.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests play the outside world"
)]

use doorbell::Builder;
use doorbell_machine::{Host, Machine};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

/// Set in child processes.
const CHILD: &str = "DOORBELL_TEST_PROCESS";

/// The prefix of the line that a child prints, followed by a list of CPUs per worker.
const WORKERS: &str = "workers:";

type Cpus = BTreeSet<usize>;

/// The CPUs that this process may use.
fn allowed() -> Vec<usize> {
    Host::topology().cpus.iter().map(|cpu| cpu.os_id).collect()
}

/// One CPU fewer, if possible.
fn fewer() -> usize {
    allowed().len().saturating_sub(1).max(1)
}

/// The CPUs on which the calling thread may run, in the OS's notation: `0-3,6`.
fn cpus_here() -> String {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.unwrap().trim().to_owned()
}

fn parse(list: &str) -> Cpus {
    let ranges = list.split(',').map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        first.parse::<usize>().unwrap()..=last.parse().unwrap()
    });
    ranges.flatten().collect()
}

/// Builds the runtime, prints where its workers are, and stays until its input is closed.
fn play(builder: Builder) {
    let rt = builder.build().unwrap();
    let workers: Vec<String> = (0..rt.cores())
        .map(|core| rt.call_blocking(core, cpus_here).unwrap())
        .collect();
    println!("\n{WORKERS}{}", workers.join(" "));
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

fn start(test: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(CHILD, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The workers of two child processes that run at the same time.
fn two_children(test: &str) -> [Vec<Cpus>; 2] {
    let mut children = [start(test), start(test)];
    let workers = children.each_mut().map(|child| {
        let said = BufReader::new(child.stdout.take().unwrap());
        let mut lines = said.lines().map(Result::unwrap);
        let workers = lines.find_map(|line| line.strip_prefix(WORKERS).map(str::to_owned));
        (workers.expect("a child has workers"), lines)
    });
    for child in &mut children {
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
    }
    workers.map(|(workers, _)| workers.split(' ').map(parse).collect())
}

/// By default a number of cores pins nothing: both processes may use every CPU.
#[test]
fn a_number_of_cores_leaves_both_the_whole_mask() {
    if is_child() {
        return play(Builder::new().cores(fewer()));
    }
    let mask: Cpus = allowed().into_iter().collect();
    for workers in two_children("a_number_of_cores_leaves_both_the_whole_mask") {
        assert_eq!(workers, vec![mask.clone(); fewer()]);
    }
}

/// Pinned on request: the first CPU is random, so not every process starts at CPU 0.
#[test]
fn pinned_runtimes_do_not_all_begin_at_the_first_cpu() {
    /// With two equally likely places, all these pairs agree once in two thousand million runs.
    const PAIRS: usize = 16;
    if is_child() {
        return play(Builder::new().cores(fewer()).pin(true));
    }
    let mut firsts = Cpus::new();
    for _ in 0..PAIRS {
        for workers in two_children("pinned_runtimes_do_not_all_begin_at_the_first_cpu") {
            assert!(workers.iter().all(|cpus| cpus.len() == 1), "{workers:?}");
            let all: Cpus = workers.iter().flatten().copied().collect();
            assert_eq!(all.len(), fewer(), "two workers on one CPU: {workers:?}");
            firsts.extend(&workers[0]);
        }
        if firsts.len() > 1 {
            return;
        }
    }
    assert_eq!(allowed().len(), 1, "all began at {firsts:?}");
}

/// These processes have an affinity mask that excludes some of the machine's CPUs: their workers are pinned
/// to its CPUs, in order. A mask of the whole machine, or a quota, pins nothing.
#[test]
fn a_mask_of_their_own_is_used_cpu_by_cpu() {
    let mask = allowed()[..fewer()].to_vec();
    if is_child() {
        Host::bind_thread(&mask).unwrap();
        return play(Builder::new());
    }
    let quota = Host::cpu_quota().unwrap_or(usize::MAX);
    let of_its_own = mask.len() < Host::cpu_count() && quota >= mask.len();
    for workers in two_children("a_mask_of_their_own_is_used_cpu_by_cpu") {
        assert_eq!(workers.len(), mask.len().min(quota));
        for (worker, cpus) in workers.iter().enumerate() {
            let whole = mask.iter().copied().collect();
            let own = Cpus::from([mask[worker]]);
            assert_eq!(*cpus, if of_its_own { own } else { whole });
        }
    }
}
