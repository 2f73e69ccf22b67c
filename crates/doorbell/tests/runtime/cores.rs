//! Cores that are taken off and put back while tasks run, and a shutdown with a time limit.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests play the outside world"
)]

use doorbell::{
    Builder, CallError, CoreId, IdlePolicy, Runtime, SpawnError, current_core, error::CoreError,
    metrics::WorkerState, yield_now,
};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::time::Duration;

fn runtime(cores: usize) -> Runtime {
    Builder::new().cores(cores).build().unwrap()
}

fn set(rt: &Runtime, core: usize, on: bool) -> Result<(), CoreError> {
    if on {
        rt.block_on(rt.core_online(core))
    } else {
        rt.block_on(rt.core_offline(core))
    }
}

#[test]
fn a_core_that_is_off_takes_neither_tasks_nor_calls() {
    let rt = runtime(3);
    set(&rt, 1, false).unwrap();
    assert!(!rt.core_is_online(1) && rt.core_is_online(2));
    let tasks: Vec<_> = (0..300)
        .map(|_| {
            rt.spawn(async {
                let first = current_core().unwrap();
                yield_now().await;
                [first, current_core().unwrap()]
            })
        })
        .collect();
    for task in tasks {
        assert!(!rt.block_on(task).unwrap().contains(&CoreId::new(1)));
    }
    let call = rt.block_on(rt.call_on(1, || ()));
    assert!(matches!(call, Err(CallError::CoreOffline { core }) if core == CoreId::new(1)));
    let text = call.unwrap_err().to_string();
    assert!(text.contains("core_online(1)"), "{text}");
    assert!(matches!(
        rt.call_blocking(1, || ()),
        Err(CallError::CoreOffline { .. })
    ));
    let pinned = rt.task().on(1).try_spawn(async {});
    assert!(matches!(pinned, Err(SpawnError::CoreOffline { .. })));
    assert_eq!(rt.block_on(rt.call_all(|core| core)).unwrap().len(), 2);
    set(&rt, 1, true).unwrap();
    let there = rt.block_on(rt.call_on(1, current_core)).unwrap();
    assert_eq!(there, Some(CoreId::new(1)));
    assert_eq!(rt.block_on(rt.call_all(|core| core)).unwrap().len(), 3);
}

/// A task that holds its core until told to end.
fn hold(rt: &Runtime, core: usize, first: impl FnOnce() + Send + 'static) -> mpsc::Sender<()> {
    let (go, gate) = mpsc::channel::<()>();
    let (began, begun) = mpsc::channel();
    drop(rt.task().on(core).spawn(async move {
        first();
        began.send(()).unwrap();
        let _ = gate.recv();
    }));
    begun.recv().unwrap();
    go
}

#[test]
fn b8_what_was_queued_on_the_core_runs_elsewhere() {
    let rt = runtime(2);
    let (queued, tasks) = mpsc::channel();
    // Core 0 is held, so it steals nothing; core 1 has five hundred tasks in its queue.
    let go_0 = hold(&rt, 0, || ());
    let go_1 = hold(&rt, 1, move || {
        for _ in 0..500 {
            let task = doorbell::spawn(async { current_core().unwrap().index() });
            queued.send(task).unwrap();
        }
    });
    let off = rt.core_offline(1);
    drop(go_1);
    rt.block_on(off).unwrap();
    drop(go_0);
    let cores: Vec<_> = tasks
        .iter()
        .map(|task| rt.block_on(task).unwrap())
        .collect();
    assert_eq!(cores, vec![0; 500]);
}

#[test]
fn a_core_that_is_put_back_while_it_goes_off_is_on() {
    let rt = runtime(2);
    for _ in 0..200 {
        let (queued, tasks) = mpsc::channel();
        let go = hold(&rt, 1, move || {
            for _ in 0..50 {
                queued.send(doorbell::spawn(async {})).unwrap();
            }
        });
        let (off, again) = (rt.core_offline(1), rt.core_offline(1));
        let back = rt.core_online(1);
        drop(go);
        let all = rt.block_on(async { futures::join!(off, again, back) });
        assert_eq!(all, (Ok(()), Ok(()), Ok(())));
        assert!(rt.core_is_online(1));
        for task in &tasks {
            rt.block_on(task).unwrap();
        }
        rt.block_on(rt.call_on(1, || ())).unwrap();
    }
}

#[test]
fn pinned_and_sleeping_tasks_go_on_while_their_core_is_off() {
    let rt = runtime(2);
    let stop = Arc::new(AtomicBool::new(false));
    let polls = Arc::new(AtomicUsize::new(0));
    let (seen, count) = (Arc::clone(&stop), Arc::clone(&polls));
    let pinned = rt.task().on(1).spawn(async move {
        while !seen.load(SeqCst) {
            count.fetch_add(1, SeqCst);
            doorbell::time::sleep(Duration::from_millis(1)).await;
        }
        current_core()
    });
    set(&rt, 1, false).unwrap();
    let before = polls.load(SeqCst);
    while polls.load(SeqCst) < before + 5 {
        std::thread::sleep(Duration::from_millis(1));
    }
    stop.store(true, SeqCst);
    assert_eq!(rt.block_on(pinned).unwrap(), Some(CoreId::new(1)));
}

#[test]
fn a_core_that_is_off_sleeps_by_every_policy() {
    for policy in [
        IdlePolicy::Park,
        IdlePolicy::Adaptive { budget: 1.0 },
        IdlePolicy::NeverPark,
    ] {
        let rt = Builder::new().cores(2).idle(policy).build().unwrap();
        let wait_until = |state| {
            while rt.worker_state(1) != Some(state) {
                std::thread::yield_now();
            }
        };
        set(&rt, 1, false).unwrap();
        wait_until(WorkerState::Parked);
        set(&rt, 1, true).unwrap();
        if policy == IdlePolicy::NeverPark {
            wait_until(WorkerState::Spinning);
        }
    }
}

#[test]
fn wrong_cores_get_an_error_and_the_last_one_stays_on() {
    let rt = runtime(2);
    let error = set(&rt, 7, false).unwrap_err();
    assert_eq!(
        error.to_string(),
        "there is no core 7: the runtime has cores 0 to 1"
    );
    set(&rt, 0, false).unwrap();
    set(&rt, 0, false).unwrap();
    assert!(matches!(set(&rt, 1, false), Err(CoreError::LastOne { .. })));
    set(&rt, 0, true).unwrap();
    set(&rt, 0, true).unwrap();
    set(&rt, 1, false).unwrap();
    let handle = rt.handle().clone();
    drop(rt);
    let gone = futures::executor::block_on(handle.core_online(1));
    assert_eq!(gone, Err(CoreError::RuntimeGone));
}

#[test]
fn w14_cores_go_on_and_off_under_load_and_nothing_is_lost() {
    let rt = runtime(4);
    let stop = Arc::new(AtomicBool::new(false));
    let workers: Vec<_> = (0..8)
        .map(|_| {
            let stop = Arc::clone(&stop);
            rt.spawn(async move {
                let mut done = 0_usize;
                while !stop.load(SeqCst) {
                    let children: Vec<_> = (0..8)
                        .map(|i| {
                            doorbell::spawn(async move {
                                yield_now().await;
                                i
                            })
                        })
                        .collect();
                    for (i, child) in children.into_iter().enumerate() {
                        assert_eq!(child.await.unwrap(), i);
                    }
                    done += 1;
                }
                done
            })
        })
        .collect();
    for round in 0..200 {
        let core = 1 + round % 3;
        set(&rt, core, false).unwrap();
        if round % 5 == 0 {
            std::thread::sleep(Duration::from_micros(200));
        }
        set(&rt, core, true).unwrap();
    }
    stop.store(true, SeqCst);
    for worker in workers {
        assert!(rt.block_on(worker).unwrap() > 0);
    }
}

#[test]
fn a_shutdown_waits_no_longer_than_told() {
    let rt = runtime(2);
    let (go, gate) = mpsc::channel::<()>();
    let (began, begun) = mpsc::channel();
    let (ended, end) = mpsc::channel();
    drop(rt.spawn(async move {
        began.send(()).unwrap();
        let _ = gate.recv();
        ended.send(()).unwrap();
    }));
    begun.recv().unwrap();
    let error = rt.shutdown_timeout(Duration::from_millis(20)).unwrap_err();
    assert_eq!(error.running, 1);
    go.send(()).unwrap();
    end.recv().unwrap();
    runtime(2)
        .shutdown_timeout(Duration::from_secs(60))
        .unwrap();
}

#[test]
fn a_shutdown_does_not_wait_for_a_blocking_closure_that_never_ends() {
    let rt = runtime(1);
    let (go, gate) = mpsc::channel::<()>();
    let (began, begun) = mpsc::channel();
    drop(rt.spawn_blocking(move || {
        began.send(()).unwrap();
        let _ = gate.recv();
    }));
    begun.recv().unwrap();
    let error = rt.shutdown_timeout(Duration::from_millis(20)).unwrap_err();
    assert_eq!(error.running, 1);
    drop(go);
}
