//! One closure on many cores, awaited or blocking.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests play the outside world"
)]

use crate::runtime;
use crate::shuffled::Builder;
use doorbell::{CallError, CoreId, call_all, call_many, current_core, metrics::WorkerState};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

fn values<R>(results: Vec<Result<R, CallError>>) -> Vec<R> {
    results.into_iter().map(Result::unwrap).collect()
}

#[test]
fn each_core_runs_it_once_and_results_are_in_order() {
    let rt = runtime(4);
    let ran = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&ran);
    let calls = rt.call_many([3, 1, 2], move |core| {
        count.fetch_add(1, Ordering::Relaxed);
        assert_eq!(current_core(), Some(core));
        core.index()
    });
    assert_eq!(values(rt.block_on(calls).unwrap()), [3, 1, 2]);
    assert_eq!(ran.load(Ordering::Relaxed), 3);
    let text = String::from("borrowed");
    let lengths = rt.call_all_blocking(|core| text.len() + core.index());
    assert_eq!(values(lengths.unwrap()), [8, 9, 10, 11]);
    let there = rt.call_many_blocking([2, 0], |_| current_core()).unwrap();
    assert_eq!(values(there), [Some(CoreId::new(2)), Some(CoreId::new(0))]);
}

#[test]
fn a_worker_may_call_all_and_is_among_them() {
    let rt = runtime(3);
    let task = rt.task().on(1).spawn(async {
        let all = call_all(CoreId::index).await.unwrap();
        let some = call_many([1], |_| current_core()).await.unwrap();
        (values(all), values(some))
    });
    let (all, some) = rt.block_on(task).unwrap();
    assert_eq!((all, some), (vec![0, 1, 2], vec![Some(CoreId::new(1))]));
}

#[test]
fn a_wrong_list_of_cores_is_refused_before_anything_is_posted() {
    let rt = runtime(2);
    let ran = Arc::new(AtomicUsize::new(0));
    let count = || {
        let ran = Arc::clone(&ran);
        move |_: CoreId| ran.fetch_add(1, Ordering::Relaxed)
    };
    let error = rt.block_on(rt.call_many([0, 2], count())).unwrap_err();
    assert!(matches!(error, CallError::NoSuchCore { core, cores: 2 } if core == 2.into()));
    let error = rt.block_on(rt.call_many([1, 0, 1], count())).unwrap_err();
    assert!(matches!(error, CallError::DuplicateCore { core } if core == 1.into()));
    assert!(
        error.to_string().contains("core 1 is named twice"),
        "{error}"
    );
    let error = rt.call_many_blocking([1, 1], count()).unwrap_err();
    assert!(matches!(error, CallError::DuplicateCore { core } if core == 1.into()));
    let none: [usize; 0] = [];
    assert!(rt.call_many_blocking(none, count()).unwrap().is_empty());
    assert!(rt.block_on(rt.call_many(none, count())).unwrap().is_empty());
    // A blocking form on a worker could wait for that worker itself.
    let (handle, closure) = (rt.handle().clone(), count());
    let inside = rt.call_blocking(0, move || handle.call_all_blocking(closure).map(drop));
    assert!(matches!(inside, Ok(Err(CallError::InsideWorker))));
    rt.call_all_blocking(|_| ()).unwrap();
    assert_eq!(ran.load(Ordering::Relaxed), 0);
    assert_eq!(Arc::strong_count(&ran), 1);
}

#[test]
fn a_panic_is_the_result_of_its_core() {
    let rt = runtime(3);
    let results = rt.call_all_blocking(|core| {
        if core.index() == 1 {
            std::panic::resume_unwind(Box::new("on purpose"));
        }
        core.index()
    });
    match &results.unwrap()[..] {
        [Ok(0), Err(CallError::Panicked(payload)), Ok(2)] => {
            assert_eq!(payload.message(), Some("on purpose"));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(
        values(rt.call_all_blocking(CoreId::index).unwrap()),
        [0, 1, 2]
    );
}

#[test]
fn after_the_runtime_every_core_says_that_it_is_gone() {
    let rt = runtime(2);
    let handle = rt.handle().clone();
    drop(rt);
    let results = handle.call_all_blocking(CoreId::index).unwrap();
    assert_eq!(results.len(), 2);
    assert!(
        results
            .iter()
            .all(|r| matches!(r, Err(CallError::RuntimeGone)))
    );
    let other = runtime(1);
    let results = other.block_on(handle.call_all(CoreId::index)).unwrap();
    assert!(
        results
            .iter()
            .all(|r| matches!(r, Err(CallError::RuntimeGone)))
    );
}

#[test]
fn a_sleeping_core_is_rung_once_and_a_spinning_one_never() {
    for (spin, rings) in [(Duration::ZERO, 1), (Duration::from_secs(3_600), 0)] {
        let rt = Builder::new().cores(3).spin(spin).build().unwrap();
        let idle_state = if rings == 1 {
            WorkerState::Parked
        } else {
            WorkerState::Spinning
        };
        let start = Instant::now();
        while (0..3).any(|core| rt.worker_state(core) != Some(idle_state)) {
            assert!(start.elapsed() < Duration::from_secs(30), "they never idle");
            std::thread::yield_now();
        }
        let before = rt.metrics();
        assert_eq!(rt.call_all_blocking(|_| ()).unwrap().len(), 3);
        for (now, before) in rt.metrics().workers.iter().zip(&before.workers) {
            assert_eq!(now.raw().since(&before.raw()).rings, rings);
        }
    }
}

#[test]
fn b5_callers_to_the_same_busy_workers_each_wait_for_their_own() {
    let rt = runtime(2);
    std::thread::scope(|scope| {
        for caller in 0..4 {
            let rt = &rt;
            scope.spawn(move || {
                for round in 0..500 {
                    let own = AtomicUsize::new(0);
                    let results = rt.call_all_blocking(|core| {
                        own.fetch_add(1, Ordering::Relaxed);
                        caller * 1_000 + round + core.index()
                    });
                    assert_eq!(own.load(Ordering::Relaxed), 2, "it did not wait for all");
                    let first = caller * 1_000 + round;
                    assert_eq!(values(results.unwrap()), [first, first + 1]);
                }
            });
        }
    });
}
