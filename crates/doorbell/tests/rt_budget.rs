//! Urgent workers that are throttled when they have used up their CPU budget.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests play the outside world"
)]

use doorbell::{
    BuildError, Builder, Class, ClassKind, Runtime, metrics::Policy, metrics::raw::WorkerCounts,
};
use std::time::{Duration, Instant};

const PERIOD: Duration = Duration::from_millis(20);

/// An urgent task that computes in short polls for `time`, pinned to core 0.
fn compute(runtime: &Runtime, class: Class, time: Duration) {
    let task = runtime.task().class(class).on(0).spawn(async move {
        let start = Instant::now();
        while start.elapsed() < time {
            let poll = Instant::now();
            while poll.elapsed() < Duration::from_micros(100) {
                std::hint::spin_loop();
            }
            doorbell::yield_now().await;
        }
    });
    runtime.block_on(task).unwrap();
}

fn counts(runtime: &Runtime, kind: ClassKind) -> WorkerCounts {
    let workers = runtime.metrics().workers;
    let mut workers = workers.iter().filter(|worker| worker.class == kind);
    workers
        .find(|worker| worker.core.index() == 0)
        .unwrap()
        .raw()
}

/// Whether the urgent workers have real-time priority here.
fn goes_first(runtime: &Runtime) -> bool {
    let policies = runtime.policies();
    let urgent = policies
        .iter()
        .find(|worker| worker.class() == ClassKind::Rt);
    matches!(urgent.unwrap().got(), Some(Policy::Fifo { .. }))
}

#[test]
fn an_urgent_worker_that_always_computes_is_throttled_if_nobody_could_stop_it() {
    let runtime = Builder::new().cores(1).rt_budget(0.5, PERIOD).build();
    let runtime = runtime.unwrap();
    let start = Instant::now();
    compute(&runtime, Class::rt(50), Duration::from_millis(400));
    let took = start.elapsed();
    let WorkerCounts {
        throttles,
        throttled_ns,
        ..
    } = counts(&runtime, ClassKind::Rt);
    if goes_first(&runtime) {
        let throttled = Duration::from_nanos(throttled_ns);
        // Half of 400 ms; less if other programs used the CPU meanwhile.
        assert!(
            throttles >= 3 && throttled <= took,
            "{throttles}: {throttled:?} of {took:?}"
        );
        assert!(throttled >= Duration::from_millis(30), "{throttled:?}");
    } else {
        assert_eq!((throttles, throttled_ns), (0, 0), "the OS shares the CPU");
    }
}

#[test]
fn what_has_no_budget_is_never_throttled() {
    let runtime = Builder::new().cores(1).rt_budget(1.0, PERIOD).build();
    let runtime = runtime.unwrap();
    compute(&runtime, Class::rt(50), Duration::from_millis(60));
    compute(&runtime, Class::FAIR, Duration::from_millis(60));
    compute(&runtime, Class::BATCH, Duration::from_millis(60));
    for kind in [ClassKind::Rt, ClassKind::Fair, ClassKind::Batch] {
        assert_eq!(counts(&runtime, kind).throttles, 0, "{kind}");
    }
}

#[test]
fn the_budget_is_one_of_urgent_workers() {
    let runtime = Builder::new().cores(1).rt_budget(0.01, PERIOD).build();
    let runtime = runtime.unwrap();
    compute(&runtime, Class::FAIR, Duration::from_millis(60));
    compute(&runtime, Class::BATCH, Duration::from_millis(60));
    for kind in [ClassKind::Fair, ClassKind::Batch] {
        assert_eq!(counts(&runtime, kind).throttles, 0, "{kind}");
    }
}

#[test]
fn a_runtime_ends_while_an_urgent_worker_is_throttled() {
    let runtime = Builder::new().cores(1).rt_budget(0.1, PERIOD).build();
    let runtime = runtime.unwrap();
    drop(runtime.task().class(Class::rt(9)).spawn(async {
        loop {
            doorbell::yield_now().await;
        }
    }));
    std::thread::sleep(3 * PERIOD);
    drop(runtime);
}

#[test]
fn budgets_that_cannot_be_are_refused() {
    let refused = |share, period| {
        let builder = Builder::new().cores(1).rt_budget(share, period);
        builder.build().expect_err("it cannot be")
    };
    for share in [0.0, -1.0, 1.5, f64::NAN] {
        let error = refused(share, PERIOD);
        assert!(matches!(error, BuildError::RtBudget { .. }), "{error}");
    }
    for period in [Duration::ZERO, Duration::from_secs(2), Duration::MAX] {
        let error = refused(0.5, period);
        assert!(matches!(error, BuildError::RtPeriod { .. }), "{error}");
    }
}
