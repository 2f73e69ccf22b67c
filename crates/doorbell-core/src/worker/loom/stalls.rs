//! A worker that begins a poll while the thread that looks for stalls falls asleep.

use super::{check, mutant};
use crate::scheduler::telemetry::Polled;
use crate::scheduler::telemetry::{Hooks, StallPlan, StallReporter, Telemetry, TelemetryPlan};
use crate::scheduler::{RemoteRef, Scheduler, SchedulerSpec};
use ::loom::thread;
use doorbell_machine::Loom;
use std::panic::Location;
use std::sync::Arc;

fn a_poll_begins_while_the_stall_thread_falls_asleep() {
    let hooks = Hooks {
        stall: vec![StallPlan {
            after_ns: 1,
            hook: Arc::new(|_| ()),
        }],
        ..Hooks::default()
    };
    let reporter = StallReporter::<Loom>::new(&hooks).map(Arc::new);
    let plan = TelemetryPlan {
        hooks,
        ..TelemetryPlan::default()
    };
    let spec = SchedulerSpec {
        telemetry: Some(Arc::new(Telemetry::new(plan, 1, reporter.as_ref()))),
        ..SchedulerSpec::default()
    };
    let scheduler: Vec<RemoteRef<Loom>> = Scheduler::described(1, &Arc::default(), spec, |_, _| 0);
    let remote = scheduler[0].clone();
    let worker = thread::spawn(move || {
        let polled = Polled {
            task: 1,
            rank: 0,
            spawned_at: Location::caller(),
        };
        // A poll that does not end.
        let telemetry = remote
            .scheduler()
            .telemetry()
            .expect("it was made with some");
        let _ = telemetry.begin_poll(0, 1, polled);
    });
    reporter
        .expect("there is a hook")
        .sleep_if_quiet(&scheduler, &|| None);
    worker.join().unwrap();
}

#[test]
fn a_poll_that_begins_while_the_stall_thread_falls_asleep_wakes_it() {
    check(a_poll_begins_while_the_stall_thread_falls_asleep);
}

#[test]
fn mutant_no_stall_fence() {
    mutant!(
        WorkerStallNoFence,
        a_poll_begins_while_the_stall_thread_falls_asleep
    );
}
