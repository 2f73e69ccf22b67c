//! Both runtimes work and then idle. The bounds on their wake-ups are generous.

use std::io::ErrorKind::NotFound;

use super::super::common::assert_fits;
use super::super::trial::{Outcome, Trial};
use super::*;
use crate::measure::ThreadsUse;

/// Far more than an idle runtime has in this time, and far less than one that polls.
const SWITCHES_MAX: f64 = 50.0;

#[test]
fn both_work_and_rest() {
    let Some(stage) = Stage::for_tests() else {
        return;
    };
    for mut one in contestants(stage, SyscallSource::find().ok()) {
        let name = one.name().to_owned();
        assert!(matches!(one.run(10), Err(LabError::NotSetUp)), "{name}");
        let figures = idled(&mut *one, &name).figures;
        // Other tests may start threads at the same time.
        assert!(figures["threads_count"] >= 2.0, "{name}");
        if figures["threads_count"] < 3.0 {
            assert!(figures["idle_switches_count"] < SWITCHES_MAX, "{name}");
        }
        one.teardown().expect(&name);
    }
}

/// Runs a contestant and returns its figures. Threads that other tests start meanwhile count as its own. If
/// one of those ends in between, it runs again.
fn idled(one: &mut dyn Trial, name: &str) -> Outcome {
    for _ in 0..50 {
        one.setup().expect(name);
        match one.run(200) {
            Ok(outcome) => return outcome,
            Err(LabError::File { source, .. }) if source.kind() == NotFound => {}
            Err(error) => panic!("{name}: {error}"),
        }
        one.teardown().expect(name);
    }
    panic!("{name}: threads of other tests ended each time");
}

#[test]
fn what_is_not_known_is_left_out() {
    let used = ThreadsUse {
        voluntary_switches: 3,
        involuntary_switches: 1,
        cpu_ns: Some(2_000_000),
    };
    let span = Duration::from_secs(2);
    let figures = idling::outcome(used, span, Some(7), 2).figures;
    assert_eq!(figures.get("idle_switches_count"), Some(&4.0));
    assert_eq!(figures.get("idle_syscalls_count"), Some(&7.0));
    assert!((figures["idle_cpu_percent"] - 0.1).abs() < 1e-9);
    let unknown = ThreadsUse {
        cpu_ns: None,
        ..used
    };
    let figures = idling::outcome(unknown, span, None, 2).figures;
    assert!(!figures.contains_key("idle_cpu_percent"));
    assert!(!figures.contains_key("idle_syscalls_count"));
}

#[test]
fn the_table_fits() {
    if let Some(stage) = Stage::for_tests() {
        let kept = ["ctx", "CPU %", "syscalls", "threads", "idle s"];
        assert_fits(&contestants(stage, None), &columns::columns(), &kept);
    }
}
