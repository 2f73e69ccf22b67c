//! The texts for made-up machines and for this one.

use super::look::KERNEL_CLOCK;
use super::*;
use crate::report::text_of;

/// A machine on which everything is as wanted.
fn fine() -> Seen {
    let files = [
        ("/proc/sys/kernel/osrelease", "6.18.0-test\n"),
        (
            "/sys/devices/system/clocksource/clocksource0/current_clocksource",
            "tsc\n",
        ),
        ("/proc/sys/kernel/sched_rt_runtime_us", "950000\n"),
        ("/proc/sys/kernel/sched_rt_period_us", "1000000\n"),
    ];
    let read = |path: &str| {
        let file = files.iter().find(|(name, _)| *name == path)?;
        Some(file.1.to_owned())
    };
    Seen {
        cpus: vec![0, 3],
        cpus_on_machine: 4,
        clock: "TSC",
        sched_fifo: Asked::Given,
        short_slice: Asked::Given,
        sched_idle: Asked::Given,
        cap_sys_nice: Some(true),
        rtprio_max: Some(0),
        timer_slack_ns: Some(50_000),
        worker_timer_slack_ns: Some(1),
        ..Seen::of_files(read)
    }
}

fn worker(class: &str, wanted: &str, got: &str) -> WorkerFact {
    WorkerFact {
        core: 0,
        class: class.to_owned(),
        wanted: wanted.to_owned(),
        got: Some(got.to_owned()),
        is_as_wanted: wanted == got,
        says: String::new(),
    }
}

fn table(seen: Seen, workers: Vec<WorkerFact>) -> String {
    let info = Info::of(seen, workers, "idle_notify=on".to_owned());
    let text = text_of(&serde_json::to_value(info).expect("it can be written"));
    // Without the breaks of long lines.
    text.replace("\n  ", " ")
}

fn assert_says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part} is missing in:\n{text}");
    }
}

#[test]
fn a_fine_machine_needs_nothing() {
    let workers = vec![
        worker("Rt", "SCHED_FIFO 10", "SCHED_FIFO 10"),
        worker("Batch", "SCHED_IDLE", "SCHED_IDLE"),
    ];
    let text = table(fine(), workers);
    assert_says(
        &text,
        &[
            "6.18.0-test",
            "cpus: 0, 3\ncpus_on_machine: 4",
            "cpu_quota: -",
            "clock: TSC\nkernel_clock_source: tsc",
            "sched_fifo: given",
            "rt_runtime_us: 950000\nrt_period_us: 1000000",
            "timer_slack_ns: 50000\nworker_timer_slack_ns: 1",
            "0     Rt     SCHED_FIFO 10  SCHED_FIFO 10  true",
            "idle_notify=on",
        ],
    );
    assert!(!text.contains("remedies: "), "{text}");
}

#[test]
fn where_nothing_can_be_read_it_says_so() {
    let seen = Seen::of_files(|_| None);
    assert_eq!((seen.clock, seen.rt_runtime_us), (KERNEL_CLOCK, None));
    let unreadable = Seen::of_files(|_| Some("not a number".to_owned()));
    assert_eq!(unreadable.rt_runtime_us, None);
    let text = table(seen, Vec::new());
    assert!(text.matches(": -\n").count() >= 7, "{text}");
}

#[test]
fn what_is_refused_comes_with_its_remedy() {
    let refused = Seen {
        sched_fifo: Asked::Refused("Operation not permitted (os error 1)".to_owned()),
        cap_sys_nice: Some(false),
        ..fine()
    };
    let workers = vec![worker("Rt", "SCHED_FIFO 10", "SCHED_OTHER, slice 100 us")];
    let text = table(refused.clone(), workers);
    assert_says(
        &text,
        &[
            "sched_fifo: refused: Operation not permitted",
            "SCHED_FIFO 10  SCHED_OTHER, slice 100 us  false",
            "CAP_SYS_NICE (`setcap",
            "ulimit -r",
        ],
    );
    // With the privilege, the remedy is a different one.
    for privileged in [
        Seen {
            cap_sys_nice: Some(true),
            ..refused.clone()
        },
        Seen {
            rtprio_max: Some(10),
            ..refused
        },
    ] {
        let text = table(privileged, Vec::new());
        assert_says(&text, &["has the privilege", "cpu.rt_runtime_us"]);
        assert!(!text.contains("setcap"), "{text}");
    }
}

#[test]
fn everything_else_that_could_be_better_is_named() {
    let poor = Seen {
        rt_runtime_us: Some(0),
        short_slice: Asked::Ignored,
        clock: KERNEL_CLOCK,
        kernel_clock_source: Some("hpet".to_owned()),
        cpu_quota: Some(1),
        ..fine()
    };
    let info = Info::of(
        poor,
        vec![worker("Fair", "SCHED_IDLE", "SCHED_IDLE")],
        String::new(),
    );
    let parts = [
        "sched_rt_runtime_us",
        "6.12",
        "hpet",
        "1 of 2 CPUs",
        "SCHED_IDLE",
    ];
    assert_eq!(info.remedies.len(), parts.len(), "{:?}", info.remedies);
    for (remedy, part) in info.remedies.iter().zip(parts) {
        assert!(remedy.contains(part), "{remedy}");
    }
}

#[test]
fn this_machine_is_looked_at() {
    let info = run().expect("a runtime can be built");
    let seen = &info.seen;
    assert!(!seen.cpus.is_empty() && seen.cpus_on_machine >= seen.cpus.len());
    // This needs no privilege.
    assert_eq!(seen.sched_idle, Asked::Given);
    let classes = |class: &'static str| {
        let workers = info.workers.iter();
        workers.filter(move |worker| worker.class == class)
    };
    for class in ["Rt", "Fair", "Batch"] {
        let cores = seen.cpus.len().min(2);
        assert!((1..=cores).contains(&classes(class).count()), "{info:?}");
    }
    assert!(classes("Batch").all(|worker| worker.got.as_deref() == Some("SCHED_IDLE")));
    let fifo = seen.sched_fifo == Asked::Given;
    assert!(
        classes("Rt").all(|worker| worker.is_as_wanted == fifo),
        "{info:?}"
    );
    assert!(info.switches.contains("idle_notify="), "{}", info.switches);
}
