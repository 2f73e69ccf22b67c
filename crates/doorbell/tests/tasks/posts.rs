//! Posts: closures for a named core without waiting.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests play the outside world"
)]

use crate::runtime;
use doorbell::{CallError, CoreId, call_on, current_core, post_on};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};

#[test]
fn a_post_runs_on_the_core_it_names() {
    let rt = runtime(3);
    let (sent, came) = mpsc::channel();
    for core in 0..3 {
        let sent = sent.clone();
        rt.post_on(core, move || sent.send(current_core()).unwrap())
            .unwrap();
        assert_eq!(came.recv().unwrap(), Some(CoreId::new(core)));
    }
    let from_a_worker = rt.task().on(0).spawn(async move {
        for core in [2, 0] {
            let sent = sent.clone();
            post_on(core, move || sent.send(current_core()).unwrap()).unwrap();
        }
        call_on(2, || ()).await.unwrap();
    });
    rt.block_on(from_a_worker).unwrap();
    let mut came = [came.recv().unwrap(), came.recv().unwrap()];
    came.sort_unstable();
    assert_eq!(came, [Some(CoreId::new(0)), Some(CoreId::new(2))]);
}

#[test]
fn posts_and_calls_of_one_thread_run_in_order() {
    let rt = runtime(1);
    let log = Arc::new(Mutex::new(Vec::new()));
    let note = |entry: usize| {
        let log = Arc::clone(&log);
        move || log.lock().unwrap().push(entry)
    };
    for entry in (0..3_000).step_by(3) {
        rt.post_on(0, note(entry)).unwrap();
        rt.call_on(0, note(entry + 1)).detach();
        rt.post_on(0, note(entry + 2)).unwrap();
    }
    rt.call_blocking(0, || ()).unwrap();
    let log = log.lock().unwrap();
    assert!(log.iter().copied().eq(0..3_000), "lost or out of order");
}

#[test]
fn a_panic_is_counted_and_ends_nothing() {
    let rt = runtime(1);
    let before = rt.metrics().workers[0].raw();
    for _ in 0..3 {
        rt.post_on(0, || std::panic::resume_unwind(Box::new("on purpose")))
            .unwrap();
    }
    assert_eq!(rt.call_blocking(0, || 7).unwrap(), 7);
    let counts = rt.metrics().workers[0].raw().since(&before);
    assert_eq!(counts.posts_panicked, 3);
}

#[test]
fn a_post_that_is_refused_drops_its_closure_and_says_why() {
    let rt = runtime(2);
    let owned = Arc::new(());
    let theirs = Arc::clone(&owned);
    let error = rt.post_on(2, move || drop(theirs)).unwrap_err();
    assert!(matches!(error, CallError::NoSuchCore { cores: 2, .. }));
    assert_eq!(Arc::strong_count(&owned), 1);
    let handle = rt.handle().clone();
    drop(rt);
    let (theirs, room) = (Arc::clone(&owned), [0_u64; 30]);
    let error = handle.post_on(0, move || drop((theirs, room))).unwrap_err();
    assert!(matches!(error, CallError::RuntimeGone));
    assert_eq!(Arc::strong_count(&owned), 1);
}

#[test]
fn what_was_posted_in_time_runs_although_thread_and_runtime_end() {
    let ran = Arc::new(AtomicUsize::new(0));
    for _ in 0..50 {
        let rt = runtime(2);
        let posters: Vec<_> = (0..3)
            .map(|poster| {
                let (handle, ran) = (rt.handle().clone(), Arc::clone(&ran));
                std::thread::spawn(move || {
                    for _ in 0..100 {
                        let ran = Arc::clone(&ran);
                        let count = move || {
                            ran.fetch_add(1, Ordering::Relaxed);
                        };
                        handle.post_on(poster % 2, count).unwrap();
                    }
                })
            })
            .collect();
        for poster in posters {
            poster.join().unwrap();
        }
        drop(rt);
    }
    assert_eq!(ran.load(Ordering::Relaxed), 50 * 300);
    assert_eq!(Arc::strong_count(&ran), 1);
}
