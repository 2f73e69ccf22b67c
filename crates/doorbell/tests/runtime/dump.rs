//! Dumps: the list of tasks.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests play the outside world"
)]

use doorbell::{
    Builder, CallError, CoreId, Handle,
    metrics::{TaskDump, TaskState},
    yield_now,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc;

#[test]
fn tasks_that_wait_are_listed_once_and_those_that_ended_are_not() {
    let rt = Builder::new().cores(2).build().unwrap();
    let waits: Vec<_> = (0..10)
        .map(|i| {
            let task = rt.task().on(i % 2).name(format!("wait {i}"));
            task.spawn(std::future::pending::<()>())
        })
        .collect();
    for core in 0..2 {
        // Behind the waiting tasks.
        rt.block_on(rt.task().on(core).name("over").spawn(yield_now()))
            .unwrap();
    }
    let tasks = rt.dump_blocking().unwrap();
    let found: BTreeMap<_, _> = tasks.iter().map(|task| (task.id(), task)).collect();
    assert_eq!((tasks.len(), found.len()), (10, 10));
    for (i, wait) in waits.iter().enumerate() {
        let task = found[&wait.id()];
        assert_eq!(task.name(), wait.name());
        assert_eq!(task.state(), TaskState::Idle);
        let core = CoreId::new(i % 2);
        assert_eq!((task.core(), task.home(), task.age()), (core, core, None));
    }
    for wait in &waits {
        wait.abort();
    }
    for wait in waits {
        rt.block_on(wait).unwrap_err();
    }
    assert!(rt.block_on(rt.dump()).is_empty());
}

#[test]
fn a_task_lists_itself_and_one_that_always_runs_is_queued_when_its_core_answers() {
    let rt = Builder::new().cores(2).poll_times(true).build().unwrap();
    let (began, begun) = mpsc::channel();
    let stop = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&stop);
    let rest = rt.task().on(0).name("rest").spawn(async move {
        loop {
            yield_now().await;
            if told.load(SeqCst) {
                return;
            }
        }
    });
    let asks = rt.task().on(1).name("asks").spawn(async move {
        began.send(()).unwrap();
        Handle::current().dump().await
    });
    begun.recv().unwrap();
    let tasks = rt.block_on(asks).unwrap();
    let asks = tasks
        .iter()
        .find(|task| task.name() == Some("asks"))
        .unwrap();
    // It may still be running, waiting for the answers, or woken by one.
    assert_eq!(asks.home(), CoreId::new(1));
    assert!(asks.age().is_some());
    // A call runs between two polls, so no task of that core runs meanwhile.
    loop {
        let tasks = rt.dump_blocking().unwrap();
        if let Some(rest) = tasks.iter().find(|task| task.name() == Some("rest")) {
            assert_eq!(rest.state(), TaskState::Queued);
            break;
        }
    }
    stop.store(true, SeqCst);
    rt.block_on(rest).unwrap();
}

#[test]
fn tasks_that_move_between_cores_are_listed_once() {
    let rt = Builder::new().cores(2).build().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let tasks: Vec<_> = (0..50)
        .map(|_| {
            let stop = Arc::clone(&stop);
            rt.spawn(async move {
                while !stop.load(SeqCst) {
                    yield_now().await;
                }
            })
        })
        .collect();
    for _ in 0..100 {
        let mut ids: Vec<_> = rt
            .dump_blocking()
            .unwrap()
            .iter()
            .map(TaskDump::id)
            .collect();
        let len = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), len);
        assert!(len <= 50);
    }
    // At some moment all of them have run.
    while rt.dump_blocking().unwrap().len() < 50 {}
    stop.store(true, SeqCst);
    for task in tasks {
        rt.block_on(task).unwrap();
    }
}

#[test]
fn a_dump_of_a_runtime_that_is_gone_and_one_by_a_worker() {
    let rt = Builder::new().cores(1).build().unwrap();
    let handle = rt.handle().clone();
    let theirs = handle.clone();
    let refused = rt.block_on(rt.spawn(async move { theirs.dump_blocking() }));
    assert!(matches!(refused.unwrap(), Err(CallError::InsideWorker)));
    drop(rt);
    assert!(handle.dump_blocking().unwrap().is_empty());
    let other = Builder::new().cores(1).build().unwrap();
    assert!(other.block_on(handle.dump()).is_empty());
}
