//! Where a task was spawned, and who says so while it is polled.

use super::{Bench, output};
use crate::scheduler::telemetry::Polled;
use crate::scheduler::telemetry::{Hooks, StallPlan, StallReporter, Telemetry, TelemetryPlan};
use crate::scheduler::{Scheduler, SchedulerSpec};
use crate::task::extras::Extras;
use crate::task::{About, Kind};
use crate::testing::launch_about;
use crate::worker::Local;
use doorbell_machine::Host;
use std::sync::Arc;

fn bench(stall: Option<StallPlan>) -> Bench {
    let plan = TelemetryPlan {
        hooks: Hooks {
            stall: stall.into_iter().collect(),
            ..Hooks::default()
        },
        ..TelemetryPlan::default()
    };
    let reporter = StallReporter::new(&plan.hooks).map(Arc::new);
    let spec = SchedulerSpec {
        telemetry: Some(Arc::new(Telemetry::new(plan, 1, reporter.as_ref()))),
        ..SchedulerSpec::default()
    };
    let remote = Scheduler::described(1, &Arc::default(), spec, |_, _| 0).remove(0);
    let local = Local::new(remote.clone());
    Bench { remote, local }
}

/// What the worker says that it polls.
fn polled(bench: &Bench) -> Option<(u64, Polled)> {
    bench
        .remote
        .scheduler()
        .telemetry()?
        .current_poll(0)?
        .read()
}

#[test]
fn miri_a_worker_says_what_it_polls_where_somebody_is_told_of_stalls() {
    let bench = bench(Some(StallPlan {
        after_ns: 1,
        hook: Arc::new(|_| ()),
    }));
    for (turn, rank) in [3, 9].into_iter().enumerate() {
        let about = About {
            rank,
            ..About::default()
        };
        assert_eq!(about.spawned_at.file(), file!());
        let says = || {
            Local::<Host>::with_current(|local| {
                local?
                    .remote()
                    .scheduler()
                    .telemetry()?
                    .current_poll(0)?
                    .read()
            })
        };
        let mut join = bench
            .on_worker(|| launch_about(&bench.remote, Kind::Task, about, async move { says() }));
        assert_eq!(polled(&bench), None);
        bench.run();
        let expected = Polled {
            task: join.id(),
            rank,
            spawned_at: about.spawned_at,
        };
        assert_eq!(
            output(&mut join).unwrap(),
            Some((turn as u64 + 1, expected))
        );
        assert_eq!(polled(&bench), None);
    }
    bench.end();
}

#[test]
fn without_a_hook_nothing_is_kept_of_a_task() {
    let bench = bench(None);
    let scheduler = bench.remote.scheduler();
    let telemetry = scheduler.telemetry().unwrap();
    assert!(telemetry.current_poll(0).is_none());
    let is_recorded = telemetry.is_of_tasks();
    assert!(Extras::<Host>::of(Kind::Task, &About::default(), is_recorded, false).is_none());
    assert_eq!(size_of::<Extras<Host>>(), 48, "of a task that has a name");
    bench.end();
}
