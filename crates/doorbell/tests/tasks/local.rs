//! Local tasks: values that are not `Send` are created, polled and dropped on one worker.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests play the outside world"
)]

use crate::shuffled::Builder;
use doorbell::{
    CoreId, Runtime, call_on, current_core, error::NotAWorker, spawn_local, spawn_local_on,
    try_spawn_local, yield_now,
};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};

fn runtime() -> Runtime {
    Builder::new().cores(2).build().unwrap()
}

/// Not `Send`; counts its drops, and those on another worker as a thousand.
struct Home {
    core: Option<CoreId>,
    drops: Arc<AtomicUsize>,
    _stays: Rc<()>,
}

impl Home {
    fn new(drops: &Arc<AtomicUsize>) -> Self {
        Home {
            core: current_core(),
            drops: Arc::clone(drops),
            _stays: Rc::new(()),
        }
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        assert!(self.core.is_some());
        let here = self.core == current_core();
        self.drops.fetch_add(if here { 1 } else { 1_000 }, SeqCst);
    }
}

#[test]
fn they_run_on_their_worker_beside_each_other() {
    let rt = runtime();
    for core in [0, 1] {
        let task = rt.spawn_local_on(core, move || async move {
            let log = Rc::new(RefCell::new(Vec::new()));
            let tasks: Vec<_> = (0..10)
                .map(|i| {
                    let log = Rc::clone(&log);
                    spawn_local(async move {
                        for _ in 0..5 {
                            assert_eq!(current_core(), Some(CoreId::new(core)));
                            log.borrow_mut().push(i);
                            yield_now().await;
                        }
                        Rc::new(i)
                    })
                })
                .collect();
            let mut sum = 0;
            for task in tasks {
                sum += *task.await.unwrap();
            }
            (sum, log.borrow().len())
        });
        assert_eq!(rt.block_on(task).unwrap(), (45, 50));
    }
}

#[test]
fn wakes_from_elsewhere_bring_them_back_to_their_worker() {
    let rt = runtime();
    let (tell, told) = tokio::sync::oneshot::channel();
    let task = rt.spawn_local_on(1, || async {
        let here = Rc::new(current_core());
        let value: u32 = told.await.unwrap();
        assert_eq!(*here, current_core());
        value
    });
    let thread = std::thread::spawn(move || tell.send(9).unwrap());
    assert_eq!(rt.block_on(task).unwrap(), 9);
    thread.join().unwrap();
}

#[test]
fn panics_and_aborts_come_back() {
    runtime().block_on(async {
        let drops = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&drops);
        let task = spawn_local_on(0, move || async move {
            let home = Home::new(&counted);
            let panics = spawn_local(async move {
                let _home = home;
                panic!("on purpose")
            });
            let error: doorbell::JoinError = panics.await.map(|(): ()| ()).unwrap_err();
            assert!(error.to_string().contains("on purpose"));

            let home = Home::new(&counted);
            let waits = spawn_local(async move {
                let _home = home;
                std::future::pending::<()>().await;
            });
            yield_now().await;
            assert!(!waits.is_finished());
            waits.abort();
            assert!(waits.await.unwrap_err().is_cancelled());

            // An output that is never taken, dropped after the handle and before it.
            let output = spawn_local(std::future::ready(Home::new(&counted)));
            while !output.is_finished() {
                yield_now().await;
            }
            drop(output);
            drop(spawn_local(std::future::ready(Home::new(&counted))));
            while counted.load(SeqCst) < 4 {
                yield_now().await;
            }
        });
        task.await.unwrap();
        assert_eq!(drops.load(SeqCst), 4);
        let make = spawn_local_on(1, || -> std::future::Ready<()> { panic!("in make") });
        assert!(make.await.unwrap_err().to_string().contains("in make"));
    });
}

#[test]
fn the_end_of_the_runtime_drops_them_on_their_workers() {
    let drops = Arc::new(AtomicUsize::new(0));
    let rt = runtime();
    let (begun_tx, begun_rx) = mpsc::channel();
    let wakers: Vec<_> = (0..10)
        .map(|i| {
            let (drops, begun) = (Arc::clone(&drops), begun_tx.clone());
            let (tell, told) = tokio::sync::oneshot::channel::<()>();
            let task = rt.spawn_local_on(i % 2, move || async move {
                let home = Home::new(&drops);
                let inner = spawn_local({
                    let home = Home::new(&drops);
                    async move {
                        let _home = home;
                        std::future::pending::<()>().await;
                    }
                });
                begun.send(()).unwrap();
                let _ = told.await;
                let _ = inner.await;
                drop(home);
            });
            drop(task);
            tell
        })
        .collect();
    (0..10).for_each(|_| begun_rx.recv().unwrap());
    let handle = rt.handle().clone();
    // Woken from here while the workers end.
    let wakes = std::thread::spawn(move || drop(wakers));
    drop(rt);
    wakes.join().unwrap();
    assert_eq!(drops.load(SeqCst), 20);
    // If it is refused, `make` is dropped without being called.
    let made = Arc::clone(&drops);
    let late = handle.spawn_local_on(0, move || {
        made.fetch_add(1, SeqCst);
        std::future::ready(())
    });
    assert!(
        handle
            .try_block_on(late)
            .unwrap()
            .unwrap_err()
            .is_cancelled()
    );
    assert_eq!(drops.load(SeqCst), 20);
}

#[test]
fn a_thread_that_is_no_worker_is_told_what_to_do() {
    assert_eq!(try_spawn_local(async {}).unwrap_err(), NotAWorker);
    let rt = runtime();
    rt.block_on(async {
        assert_eq!(try_spawn_local(async {}).unwrap_err(), NotAWorker);
        let blocking = doorbell::spawn_blocking(|| drop(spawn_local(async {}))).await;
        let error = blocking.unwrap_err().to_string();
        assert!(error.contains("use spawn_local_on(core, ..)"), "{error}");
        // In a call, and inside another runtime's guard, it counts as a worker.
        let other = runtime();
        let handle = other.handle().clone();
        let (tell, told) = tokio::sync::oneshot::channel();
        let spawn = move || {
            let _inside = handle.enter();
            drop(spawn_local(
                async move { tell.send(current_core()).unwrap() },
            ));
            handle.is(&doorbell::Handle::current())
        };
        assert!(call_on(1, spawn).await.unwrap());
        assert_eq!(told.await.unwrap(), Some(CoreId::new(1)));
    });
}
