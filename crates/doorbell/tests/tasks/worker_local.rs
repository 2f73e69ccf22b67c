//! Worker-local statics: each worker has its own value, created at first use and dropped on that worker.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests play the outside world"
)]

use crate::runtime;
use doorbell::{CoreId, Runtime, call_on, current_core, error::WorkerLocalError, worker_local};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

#[test]
fn each_worker_of_each_runtime_has_its_own() {
    static MADE: AtomicUsize = AtomicUsize::new(0);
    worker_local! {
        static HITS: Cell<u64> = {
            MADE.fetch_add(1, SeqCst);
            Cell::new(0)
        };
        static NAMES: RefCell<Vec<Rc<str>>> = RefCell::default();
    }
    for _ in 0..2 {
        runtime(3).block_on(async {
            for core in [0, 1, 0, 0, 1] {
                let hit = || HITS.with(|hits| hits.set(hits.get() + 1));
                doorbell::task()
                    .on(core)
                    .spawn(async move { hit() })
                    .await
                    .unwrap();
                call_on(core, || {
                    NAMES.with(|names| names.borrow_mut().push("a".into()));
                })
                .await
                .unwrap();
            }
            for (core, hits) in [(0, 3), (1, 2)] {
                assert_eq!(call_on(core, || HITS.with(Cell::get)).await.unwrap(), hits);
                let names = call_on(core, || NAMES.with(|names| names.borrow().len()));
                assert_eq!(names.await.unwrap() as u64, hits);
            }
        });
    }
    // Not on core 2, which has not used it.
    assert_eq!(MADE.load(SeqCst), 4);
}

/// Records where it is dropped.
struct Noted {
    what: &'static str,
    home: Option<CoreId>,
    log: Arc<Mutex<Vec<(&'static str, bool)>>>,
}

impl Drop for Noted {
    fn drop(&mut self) {
        let at_home = self.home == current_core();
        self.log.lock().unwrap().push((self.what, at_home));
    }
}

#[test]
fn values_are_dropped_on_their_worker_behind_its_tasks_the_newest_first() {
    worker_local! {
        static FIRST: RefCell<Option<Noted>> = RefCell::new(None);
        static SECOND: RefCell<Option<Noted>> = RefCell::new(None);
    }
    let log = Arc::new(Mutex::new(Vec::new()));
    let rt = runtime(2);
    let note = |what| {
        let log = Arc::clone(&log);
        move || Noted {
            what,
            home: current_core(),
            log,
        }
    };
    let (first, second, task) = (note("first"), note("second"), note("task"));
    let held = rt.task().on(1).spawn(async move {
        FIRST.with(|cell| cell.replace(Some(first())));
        SECOND.with(|cell| cell.replace(Some(second())));
        let _task = task();
        doorbell::call_on(0, || ()).await.unwrap();
        std::future::pending::<()>().await;
    });
    while rt
        .call_blocking(1, || FIRST.with(|cell| cell.borrow().is_none()))
        .unwrap()
    {}
    drop(rt);
    drop(held);
    let log = log.lock().unwrap();
    assert_eq!(*log, [("task", true), ("second", true), ("first", true)]);
}

#[test]
fn a_thread_that_is_no_worker_is_told_what_to_do() {
    worker_local!(static VALUE: u32 = 5);
    assert_eq!(VALUE.try_with(|v| *v), Err(WorkerLocalError::NotAWorker));
    let rt = runtime(1);
    rt.block_on(async { assert_eq!(VALUE.try_with(|v| *v), Err(WorkerLocalError::NotAWorker)) });
    let blocking = rt.spawn_blocking(|| VALUE.with(|v| *v));
    let error = rt.block_on(blocking).unwrap_err().to_string();
    assert!(error.contains("use it in a task or in call_on"), "{error}");
    // A worker that has entered another runtime is still that worker.
    let other = runtime(1);
    let handle = other.handle().clone();
    let read = rt.call_blocking(0, || {
        let _inside = handle.enter();
        VALUE.with(|v| *v)
    });
    assert_eq!(read.unwrap(), 5);
}

#[test]
fn making_may_panic_and_may_not_ask_for_itself() {
    static TRIES: AtomicUsize = AtomicUsize::new(0);
    worker_local! {
        static LATE: usize = {
            let tries = TRIES.fetch_add(1, SeqCst);
            assert!(tries > 0, "on purpose");
            tries
        };
        static ITSELF: Option<WorkerLocalError> = ITSELF.try_with(|_| ()).err();
        static OTHER: usize = LATE.with(|late| late + 10);
    }
    let rt = runtime(1);
    let error = rt.call_blocking(0, || LATE.with(|v| *v)).unwrap_err();
    assert!(error.to_string().contains("on purpose"));
    assert_eq!(rt.call_blocking(0, || OTHER.with(|v| *v)).unwrap(), 11);
    assert_eq!(TRIES.load(SeqCst), 2);
    let itself = rt.call_blocking(0, || ITSELF.with(|error| *error));
    assert_eq!(itself.unwrap(), Some(WorkerLocalError::Recursive));
}

#[test]
fn destructors_find_their_worker_and_what_is_still_there() {
    static SEEN: Mutex<Vec<String>> = Mutex::new(Vec::new());
    struct Looks(&'static str);
    impl Drop for Looks {
        fn drop(&mut self) {
            let mine = if self.0 == "old" {
                OLD.try_with(|_| ())
            } else {
                NEW.try_with(|_| ())
            };
            let made = FRESH.try_with(|fresh| *fresh);
            let task = doorbell::spawn(async {});
            let blocked = doorbell::Handle::current().try_block_on(async {});
            SEEN.lock().unwrap().push(format!(
                "{} {mine:?} {made:?} {} {}",
                self.0,
                task.is_finished(),
                blocked.is_err()
            ));
            panic!("in a destructor, on purpose");
        }
    }
    worker_local! {
        static OLD: Looks = Looks("old");
        static NEW: Looks = Looks("new");
        static FRESH: u8 = 1;
    }
    let rt = runtime(1);
    rt.call_blocking(0, || OLD.with(|_| NEW.with(|_| ())))
        .unwrap();
    drop(rt);
    let seen = SEEN.lock().unwrap();
    // The first destructor creates FRESH, which is then the newest and dropped next.
    assert_eq!(
        *seen,
        [
            "new Err(Ended) Ok(1) true true",
            "old Err(Ended) Err(Ended) true true"
        ]
    );
}

#[test]
fn a_runtime_in_a_worker_ends_without_waiting_for_itself() {
    worker_local!(static INNER: RefCell<Option<Runtime>> = RefCell::new(None));
    let outer = runtime(1);
    let inner = runtime(1);
    let handle = inner.handle().clone();
    outer
        .call_blocking(0, move || {
            INNER.with(|cell| cell.replace(Some(inner)).is_none())
        })
        .unwrap();
    assert_eq!(handle.call_blocking(0, || 1).unwrap(), 1);
    drop(outer);
    while handle.call_blocking(0, || ()).is_ok() {}
}
