//! The end of a runtime: nothing hangs, nothing leaks, and every waiter is told.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests play the outside world"
)]

use doorbell::{
    Builder, CallError, Class, Handle, Runtime, SpawnError, error::SpawnBlockingError, yield_now,
};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

fn runtime(cores: usize) -> Runtime {
    Builder::new().cores(cores).build().unwrap()
}

struct CountsDrops(Arc<AtomicUsize>);

impl Drop for CountsDrops {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn every_task_is_dropped_once_and_its_joiner_told() {
    const TASKS: usize = 200;
    let rt = runtime(2);
    let drops = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..TASKS)
        .map(|i| {
            let guard = CountsDrops(Arc::clone(&drops));
            rt.spawn(async move {
                let _guard = guard;
                if i % 2 == 0 {
                    std::future::pending::<()>().await;
                }
                loop {
                    yield_now().await;
                }
            })
        })
        .collect();
    drop(rt);
    assert_eq!(drops.load(Ordering::SeqCst), TASKS);
    let outside = runtime(1);
    for task in tasks {
        assert!(task.is_finished());
        assert!(outside.block_on(task).unwrap_err().is_cancelled());
    }
}

#[test]
fn what_comes_after_the_end_gets_an_error_and_nothing_is_lost() {
    let rt = runtime(1);
    let handle = rt.handle().clone();
    drop(rt);
    let drops = Arc::new(AtomicUsize::new(0));
    let guard = CountsDrops(Arc::clone(&drops));
    let task = handle.spawn(async move { drop(guard) });
    assert_eq!(
        drops.load(Ordering::SeqCst),
        1,
        "the future of a refused task is dropped"
    );
    assert!(
        handle
            .try_block_on(task)
            .unwrap()
            .unwrap_err()
            .is_cancelled()
    );
    let gone = handle.call_blocking(0, || ()).unwrap_err();
    assert!(matches!(gone, CallError::RuntimeGone));
    let gone = handle
        .try_block_on(handle.call_on(0, || ()))
        .unwrap()
        .unwrap_err();
    assert!(matches!(gone, CallError::RuntimeGone));
}

#[test]
fn d23_nothing_is_opened_or_spawned_in_a_runtime_that_has_ended() {
    let rt = runtime(2);
    let handle = rt.handle().clone();
    drop(rt);
    let gone = Err(SpawnError::RuntimeGone);
    for class in [Class::FAIR, Class::BATCH, Class::rt(1)] {
        assert_eq!(handle.open_class(class), gone, "{class}");
        assert_eq!(handle.class_is_open(class), class == Class::FAIR);
        let refused = handle.task().class(class).try_spawn(async {});
        assert_eq!(refused.map(|_| ()), gone, "{class}");
        let cancelled = handle.task().class(class).spawn(async {});
        assert!(cancelled.is_finished(), "{class}");
        let called = handle.call().class(class).on_blocking(1, || ());
        assert!(matches!(called, Err(CallError::RuntimeGone)), "{class}");
    }
    let refused = handle.try_spawn_local_on(0, || async {});
    assert_eq!(refused.map(|_| ()), gone);
    assert!(handle.spawn_local_on(0, || async {}).is_finished());
    let refused = handle.try_spawn_blocking(|| ());
    assert!(matches!(refused, Err(SpawnBlockingError::RuntimeGone)));
    let dropped = handle.spawn_blocking(|| ());
    let dropped = handle.try_block_on(dropped).unwrap();
    assert!(dropped.unwrap_err().is_cancelled());
}

#[test]
fn a_wake_after_the_end_is_no_more_than_that() {
    let rt = runtime(1);
    let kept = Arc::new(Mutex::new(None::<Waker>));
    let slot = Arc::clone(&kept);
    let task = rt.spawn(poll_fn(move |cx| {
        *slot.lock().unwrap() = Some(cx.waker().clone());
        Poll::<()>::Pending
    }));
    while kept.lock().unwrap().is_none() {
        std::thread::yield_now();
    }
    drop(rt);
    let waker = kept.lock().unwrap().take().unwrap();
    waker.wake_by_ref();
    let again = waker.clone();
    waker.wake();
    drop(again);
    assert!(task.is_finished());
}

#[test]
fn a_thread_that_sleeps_when_its_runtime_ends_panics() {
    let rt = runtime(1);
    let handle = rt.handle().clone();
    let (armed, is_armed) = std::sync::mpsc::channel();
    let sleeps = std::thread::spawn(move || {
        handle.try_block_on(async {
            let mut sleep = pin!(doorbell::time::sleep(std::time::Duration::from_secs(3_600)));
            poll_fn(|cx| {
                let polled = sleep.as_mut().poll(cx);
                // The receiver may be gone once the runtime ends.
                let _ = armed.send(());
                polled
            })
            .await;
        })
    });
    is_armed.recv().unwrap();
    drop(rt);
    let payload = sleeps.join().expect_err("it slept on");
    let message = payload.downcast_ref::<&str>().expect("a text");
    assert!(message.contains("its runtime had ended"), "{message}");
}

// Bug D4: while the runtime ends, the drop of one task wakes another one. The waker holds a lock that the
// woken task's drop also takes.
#[test]
fn d4_a_drop_that_wakes_another_task_at_the_end() {
    struct WakesOnDrop(Arc<Mutex<Vec<Waker>>>);
    impl Drop for WakesOnDrop {
        fn drop(&mut self) {
            // Woken while the lock is held that the woken task's drop also takes. If the wake dropped that
            // task here, it would never return.
            let wakers = self.0.lock().unwrap();
            for waker in &*wakers {
                waker.wake_by_ref();
            }
        }
    }
    let rt = runtime(2);
    let wakers = Arc::new(Mutex::new(Vec::new()));
    let started = Arc::new(AtomicUsize::new(0));
    for _ in 0..20 {
        let (wakers, started) = (Arc::clone(&wakers), Arc::clone(&started));
        drop(rt.spawn(async move {
            let _guard = WakesOnDrop(Arc::clone(&wakers));
            let mut first = true;
            poll_fn(|cx| {
                wakers.lock().unwrap().push(cx.waker().clone());
                if std::mem::take(&mut first) {
                    started.fetch_add(1, Ordering::SeqCst);
                }
                Poll::<()>::Pending
            })
            .await;
        }));
    }
    while started.load(Ordering::SeqCst) < 20 {
        std::thread::yield_now();
    }
    drop(rt);
}

// Bug D3: at the end, a task of core 0 waits for the drop of a task of core 1.
#[test]
fn d3_workers_end_together() {
    let rt = runtime(2);
    let (tx, rx) = std::sync::mpsc::channel::<()>();
    let both = Arc::new(AtomicUsize::new(0));
    let (a, b) = (Arc::clone(&both), Arc::clone(&both));
    drop(rt.task().on(1).spawn(async move {
        let _tx = tx;
        b.fetch_add(1, Ordering::SeqCst);
        std::future::pending::<()>().await;
    }));
    drop(rt.task().on(0).spawn(async move {
        a.fetch_add(1, Ordering::SeqCst);
        // Blocks its worker until the other task is dropped.
        let _ = rx.recv();
    }));
    while both.load(Ordering::SeqCst) < 2 {
        std::thread::yield_now();
    }
    drop(rt);
}

#[test]
fn a_runtime_dropped_on_its_own_worker_ends_without_hanging() {
    let rt = runtime(2);
    let handle = rt.handle().clone();
    let (tx, rx) = std::sync::mpsc::channel();
    let (go, went) = std::sync::mpsc::channel::<Runtime>();
    drop(handle.spawn(async move {
        let rt = went.recv().unwrap();
        drop(rt);
        tx.send(()).unwrap();
    }));
    go.send(rt).unwrap();
    rx.recv_timeout(std::time::Duration::from_secs(30))
        .expect("it hangs");
}

#[test]
fn a_call_under_way_at_the_end_runs_or_is_refused_but_never_hangs() {
    for _ in 0..50 {
        let rt = runtime(2);
        let handle = rt.handle().clone();
        let go = Arc::new(AtomicBool::new(false));
        let callers: Vec<_> = (0..2)
            .map(|core| {
                let (handle, go) = (handle.clone(), Arc::clone(&go));
                std::thread::spawn(move || {
                    while !go.load(Ordering::SeqCst) {
                        std::hint::spin_loop();
                    }
                    loop {
                        match handle.call_blocking(core, || 9) {
                            Ok(nine) => assert_eq!(nine, 9),
                            Err(CallError::RuntimeGone) => return,
                            Err(other) => panic!("{other}"),
                        }
                    }
                })
            })
            .collect();
        go.store(true, Ordering::SeqCst);
        handle.call_blocking(0, || ()).unwrap();
        drop(rt);
        for caller in callers {
            caller.join().unwrap();
        }
    }
}

/// How many threads of this process have names with this prefix.
fn threads_named(prefix: &str) -> usize {
    std::fs::read_dir("/proc/self/task")
        .unwrap()
        .flatten()
        .filter_map(|entry| std::fs::read_to_string(entry.path().join("comm")).ok())
        .filter(|name| name.starts_with(prefix))
        .count()
}

/// Waits until this many threads have the prefix, in `looks` successive looks: a list of /proc misses some
/// while threads of other tests end, and a joined thread disappears from it a moment after its join. The
/// bound only keeps a leak from hanging the test.
fn wait_for_threads(prefix: &str, count: usize, looks: u32) {
    let start = std::time::Instant::now();
    let mut agreeing = 0;
    while agreeing < looks {
        let found = threads_named(prefix);
        agreeing = if found == count { agreeing + 1 } else { 0 };
        assert!(
            start.elapsed().as_secs() < 30,
            "{found} threads, not {count}"
        );
        std::thread::yield_now();
    }
}

#[test]
fn threads_and_shared_state_are_gone_after_the_end() {
    for _ in 0..100 {
        let rt = Builder::new().cores(2).name("leaks").build().unwrap();
        wait_for_threads("leaks-", 2, 1);
        let held = Arc::new(());
        let inside = Arc::clone(&held);
        drop(rt.spawn(async move {
            std::future::pending::<()>().await;
            drop(inside);
        }));
        drop(rt);
        assert_eq!(Arc::strong_count(&held), 1, "a task was leaked");
        wait_for_threads("leaks-", 0, 5);
    }
}

#[test]
fn the_handle_of_a_runtime_that_is_gone_still_answers() {
    let rt = runtime(2);
    let handle: Handle = rt.handle().clone();
    rt.block_on(async {});
    drop(rt);
    assert_eq!(handle.cores(), 2);
    assert_eq!(handle.metrics().workers.len(), 2);
    assert_eq!(handle.worker_state(7), None);
}
