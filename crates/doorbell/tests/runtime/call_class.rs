//! Calls with a class: they run on that class's worker of a core, whatever the other workers do.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests play the outside world"
)]

use doorbell::{
    Builder, CallError, Class, ClassKind, CoreId, Runtime, current_class, current_core,
};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

fn runtime(cores: usize) -> Runtime {
    Builder::new().cores(cores).build().unwrap()
}

#[test]
fn a_call_runs_on_the_core_and_in_the_class_that_it_names() {
    let runtime = runtime(2);
    for class in [Class::rt(50), Class::BATCH, Class::FAIR, Class::rt(1)] {
        for core in [0, 1] {
            let expected = (Some(CoreId::new(core)), Some(class));
            let here = || (current_core(), current_class());
            let call = runtime.call().class(class);
            let blocked = call.clone().on_blocking(core, here).unwrap();
            assert_eq!(blocked, expected);
            let awaited = runtime.block_on(call.on(core, here)).unwrap();
            assert_eq!(awaited, expected);
            let from_a_task = runtime
                .task()
                .class(Class::BATCH)
                .spawn(async move { doorbell::call().class(class).on(core, here).await.unwrap() });
            assert_eq!(runtime.block_on(from_a_task).unwrap(), expected);
        }
    }
    let unless_told = runtime.task().class(Class::rt(3)).spawn(async {
        let plain = doorbell::call_on(0, current_class).await.unwrap();
        (plain, doorbell::call().on(0, current_class).await.unwrap())
    });
    let fair = Some(Class::FAIR);
    assert_eq!(runtime.block_on(unless_told).unwrap(), (fair, fair));
}

#[test]
fn an_urgent_call_does_not_wait_for_long_polls() {
    const POLL: Duration = Duration::from_millis(300);
    let runtime = runtime(2);
    // The workers of the class have started.
    let urgent = runtime.call().class(Class::rt(50));
    urgent.clone().on_blocking(0, || ()).unwrap();
    let (inside, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let polls: Vec<_> = (0..2)
        .map(|core| {
            let (inside, ended) = (Arc::clone(&inside), Arc::clone(&ended));
            runtime.task().on(core).spawn(async move {
                inside.fetch_add(1, SeqCst);
                let start = Instant::now();
                while start.elapsed() < POLL {
                    std::hint::spin_loop();
                }
                ended.fetch_add(1, SeqCst);
            })
        })
        .collect();
    let outside = std::thread::spawn(move || {
        while inside.load(SeqCst) < 2 {
            std::thread::yield_now();
        }
        for core in [0, 1] {
            urgent.clone().on_blocking(core, || ()).unwrap();
        }
        ended.load(SeqCst)
    });
    assert_eq!(outside.join().unwrap(), 0, "it waited for the Fair workers");
    for poll in polls {
        runtime.block_on(poll).unwrap();
    }
}

#[test]
fn a_panic_comes_back_and_the_worker_lives_on() {
    let runtime = runtime(1);
    let urgent = runtime.call().class(Class::rt(9));
    let blocked = urgent.clone().on_blocking(0, || panic!("blocking"));
    assert_eq!(
        blocked.unwrap_err().to_string(),
        "the call panicked: blocking"
    );
    let call = urgent.clone().on(0, || -> u8 { panic!("awaited") });
    let awaited = runtime.block_on(call).unwrap_err();
    assert_eq!(awaited.to_string(), "the call panicked: awaited");
    assert_eq!(urgent.on_blocking(0, || 4).unwrap(), 4);
}

#[test]
fn errors_are_those_of_other_calls() {
    let runtime = runtime(2);
    let urgent = runtime.call().class(Class::rt(9));
    let no_core = |error| matches!(error, CallError::NoSuchCore { cores: 2, .. });
    assert!(no_core(urgent.clone().on_blocking(2, || ()).unwrap_err()));
    let call = urgent.clone().on(2, || ());
    assert!(no_core(runtime.block_on(call).unwrap_err()));
    // These calls have started no worker.
    let policies = runtime.policies();
    assert!(
        policies
            .iter()
            .all(|worker| worker.class() == ClassKind::Fair)
    );
    runtime.block_on(runtime.core_offline(1)).unwrap();
    let off = urgent.clone().on_blocking(1, || ()).unwrap_err();
    assert!(matches!(off, CallError::CoreOffline { .. }));
    let inside = urgent.clone();
    let inside = runtime.spawn(async move { inside.on_blocking(0, || ()) });
    let inside = runtime.block_on(inside).unwrap();
    assert!(matches!(inside, Err(CallError::InsideWorker)));
    urgent.clone().on_blocking(0, || ()).unwrap();
    drop(runtime);
    let gone = urgent.clone().on_blocking(0, || ()).unwrap_err();
    assert!(matches!(gone, CallError::RuntimeGone));
}

#[test]
fn what_a_call_spawns_has_its_class() {
    let runtime = runtime(1);
    // A task of another rank ran last on the worker.
    let before = runtime.task().class(Class::rt(7)).spawn(async {});
    runtime.block_on(before).unwrap();
    let call = runtime.call().class(Class::rt(42));
    let call = call.on(0, || doorbell::spawn(async { current_class() }));
    let child = runtime.block_on(async { call.await.unwrap().await.unwrap() });
    assert_eq!(child, Some(Class::rt(42)));
}

#[test]
fn a_call_that_is_dropped_before_it_ran_is_withdrawn() {
    let runtime = runtime(1);
    let urgent = runtime.call().class(Class::rt(5));
    let (hold, held) = (
        Arc::new(AtomicBool::new(true)),
        Arc::new(AtomicBool::new(false)),
    );
    let (holding, inside) = (Arc::clone(&hold), Arc::clone(&held));
    let holder = urgent.clone().on(0, move || {
        inside.store(true, SeqCst);
        while holding.load(SeqCst) {
            std::thread::yield_now();
        }
    });
    while !held.load(SeqCst) {
        std::thread::yield_now();
    }
    let runs = Arc::new(AtomicUsize::new(0));
    let theirs = Arc::clone(&runs);
    drop(urgent.clone().on(0, move || theirs.fetch_add(1, SeqCst)));
    hold.store(false, SeqCst);
    runtime.block_on(holder).unwrap();
    urgent.on_blocking(0, || ()).unwrap();
    assert_eq!((runs.load(SeqCst), Arc::strong_count(&runs)), (0, 1));
}

#[test]
fn with_a_paused_clock_calls_of_all_classes_run_on_the_fair_workers() {
    let runtime = Builder::new().cores(2).start_paused(true).build().unwrap();
    runtime.block_on(async {
        let start = doorbell::time::Instant::now();
        doorbell::time::sleep(Duration::from_secs(3_600)).await;
        let urgent = doorbell::call().class(Class::rt(5));
        let there = urgent.on(1, current_core).await.unwrap();
        assert_eq!(there, Some(CoreId::new(1)));
        assert_eq!(start.elapsed(), Duration::from_secs(3_600));
    });
    let urgent = runtime.call().class(Class::rt(5));
    assert_eq!(urgent.on_blocking(0, || 7).unwrap(), 7);
    let workers = runtime.policies();
    assert!(
        workers
            .iter()
            .all(|worker| worker.class() == ClassKind::Fair)
    );
}

doorbell::worker_local! {
    static CALLS: Cell<u32> = const { Cell::new(0) };
}

#[test]
fn each_class_has_its_own_values_of_a_worker() {
    let runtime = runtime(1);
    let count = || CALLS.with(|calls| calls.replace(calls.get() + 1));
    for number in 0..3 {
        assert_eq!(runtime.call_blocking(0, count).unwrap(), number);
    }
    let urgent = runtime.call().class(Class::rt(5));
    assert_eq!(urgent.on_blocking(0, count).unwrap(), 0);
    assert_eq!(runtime.call_blocking(0, count).unwrap(), 3);
}

#[test]
fn a_limit_of_mailboxes_does_not_hold_urgent_calls() {
    let runtime = Builder::new().cores(1).mailbox_limit(1).build().unwrap();
    let (go, gate) = std::sync::mpsc::channel::<()>();
    let (began, begun) = std::sync::mpsc::channel();
    drop(runtime.task().on(0).spawn(async move {
        began.send(()).unwrap();
        let _ = gate.recv();
    }));
    begun.recv().unwrap();
    let fair = runtime.try_call_on(0, || ()).unwrap();
    assert!(matches!(
        runtime.try_call_on(0, || ()),
        Err(CallError::Full { .. })
    ));
    let urgent = runtime.call().class(Class::rt(5));
    assert_eq!(urgent.on_blocking(0, || 7).unwrap(), 7);
    go.send(()).unwrap();
    runtime.block_on(fair).unwrap();
}
