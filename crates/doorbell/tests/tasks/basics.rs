//! Spawning, joining, blocking and placement, from a user's view.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests play the outside world"
)]

use crate::runtime;
use doorbell::{CoreId, Handle, JoinError, current_core, yield_now};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

#[test]
fn a_task_gives_its_output() {
    let rt = runtime(2);
    let sum = rt.block_on(async {
        let tasks: Vec<_> = (0..100u64)
            .map(|i| doorbell::spawn(async move { i }))
            .collect();
        let mut sum = 0;
        for task in tasks {
            sum += task.await.unwrap();
        }
        sum
    });
    assert_eq!(sum, 4950);
}

#[test]
fn block_on_takes_a_future_that_is_not_send() {
    let shared = Rc::new(Cell::new(1));
    let inside = Rc::clone(&shared);
    runtime(1).block_on(async move {
        yield_now().await;
        inside.set(inside.get() + 1);
    });
    assert_eq!(shared.get(), 2);
}

#[test]
fn a_pinned_task_runs_on_its_core_and_nowhere_else() {
    let rt = runtime(3);
    rt.block_on(async {
        for core in 0..3 {
            let task = doorbell::task().on(core).spawn(async move {
                for _ in 0..50 {
                    assert_eq!(current_core(), Some(CoreId::new(core)));
                    yield_now().await;
                }
            });
            task.await.unwrap();
        }
    });
    assert_eq!(current_core(), None, "the test's own thread is no worker");
}

/// Four tasks that block their workers until all four run, so each needs its own worker.
#[allow(clippy::unused_async, reason = "it is a task")]
async fn meet(barrier: Arc<Barrier>) -> usize {
    barrier.wait();
    current_core().unwrap().index()
}

fn assert_all_cores(mut cores: Vec<usize>) {
    cores.sort_unstable();
    assert_eq!(cores, [0, 1, 2, 3]);
}

#[test]
fn w17_tasks_from_outside_find_every_idle_core() {
    let rt = runtime(4);
    for _ in 0..50 {
        let barrier = Arc::new(Barrier::new(4));
        let tasks = [(); 4].map(|()| rt.spawn(meet(Arc::clone(&barrier))));
        let cores = tasks.map(|task| rt.block_on(task).unwrap());
        assert_all_cores(cores.to_vec());
    }
}

#[test]
fn w17_tasks_of_one_core_find_every_idle_core() {
    let rt = runtime(4);
    for _ in 0..50 {
        let barrier = Arc::new(Barrier::new(4));
        let first = rt.spawn(async move {
            let others = [(); 3].map(|()| doorbell::spawn(meet(Arc::clone(&barrier))));
            let mut cores = vec![meet(barrier).await];
            for other in others {
                cores.push(other.await.unwrap());
            }
            cores
        });
        assert_all_cores(rt.block_on(first).unwrap());
    }
}

#[test]
fn a_dropped_handle_lets_the_task_run_on() {
    let rt = runtime(2);
    let (tx, rx) = std::sync::mpsc::channel();
    drop(rt.spawn(async move {
        yield_now().await;
        tx.send(()).unwrap();
    }));
    rx.recv_timeout(Duration::from_secs(30))
        .expect("the task was lost");
}

#[test]
fn an_aborted_task_is_dropped_and_says_so() {
    struct Dropped(Arc<AtomicUsize>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let rt = runtime(2);
    let drops = Arc::new(AtomicUsize::new(0));
    let guard = Dropped(Arc::clone(&drops));
    let task = rt.spawn(async move {
        let _guard = guard;
        std::future::pending::<()>().await;
    });
    task.abort();
    let error = rt.block_on(task).unwrap_err();
    assert!(error.is_cancelled(), "{error}");
    assert_eq!(drops.load(Ordering::SeqCst), 1);
}

#[test]
fn abort_after_the_end_changes_nothing() {
    let rt = runtime(1);
    let task = rt.spawn(async { 5 });
    while !task.is_finished() {
        std::thread::yield_now();
    }
    task.abort();
    assert_eq!(rt.block_on(task).unwrap(), 5);
}

#[test]
fn a_panic_comes_back_with_its_payload_and_the_worker_lives_on() {
    let rt = runtime(1);
    let error = rt
        .block_on(rt.spawn(async { std::panic::panic_any(format!("on purpose {}", 7)) }))
        .unwrap_err();
    assert!(error.is_panic());
    assert_eq!(error.to_string(), "the task panicked: on purpose 7");
    let payload = error.try_into_panic().unwrap();
    assert_eq!(*payload.downcast::<String>().unwrap(), "on purpose 7");
    assert_eq!(rt.block_on(rt.spawn(async { 1 })).unwrap(), 1);
}

/// Panics when dropped, with a payload that panics when dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        struct Worse;
        impl Drop for Worse {
            fn drop(&mut self) {
                panic!("the payload's drop");
            }
        }
        std::panic::panic_any(Worse);
    }
}

// Bugs D18: a panic in poll, in the future's drop, in the output's drop, in the payload's.
#[test]
fn d18_panics_in_every_drop_leave_the_worker_alive() {
    let rt = runtime(1);
    // In the drop of the future, after it was ready.
    let dropped = rt.block_on(rt.spawn(async {
        let _bomb = Bomb;
    }));
    assert!(dropped.as_ref().is_err_and(JoinError::is_panic));
    std::mem::forget(dropped);
    // In the drop of the future, when it is aborted.
    let started = Arc::new(AtomicUsize::new(0));
    let starting = Arc::clone(&started);
    let task = rt.spawn(async move {
        let _bomb = Bomb;
        starting.store(1, Ordering::SeqCst);
        std::future::pending::<()>().await;
    });
    while started.load(Ordering::SeqCst) == 0 {
        std::thread::yield_now();
    }
    task.abort();
    let aborted = rt.block_on(task);
    assert!(aborted.as_ref().is_err_and(JoinError::is_panic));
    std::mem::forget(aborted);
    // In the drop of the output, by the worker, since it is not joined.
    let (tx, rx) = std::sync::mpsc::channel();
    drop(rt.spawn(async move {
        tx.send(()).unwrap();
        Bomb
    }));
    rx.recv().unwrap();
    // In the drop of the output, by the drop of the handle.
    let task = rt.spawn(async { Bomb });
    while !task.is_finished() {
        std::thread::yield_now();
    }
    drop(task);
    assert_eq!(rt.block_on(rt.spawn(async { 3 })).unwrap(), 3);
}

#[test]
fn block_on_passes_a_panic_on_and_leaves_the_runtime() {
    let rt = runtime(1);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        rt.block_on(async { panic!("through") })
    }));
    assert!(panicked.is_err());
    assert!(Handle::try_current().is_err(), "the thread is still inside");
    assert_eq!(rt.block_on(async { 2 }), 2);
}

/// The order in which three tasks of core 0 run that yield twice each. All are spawned in one poll on that core.
fn turns(rt: &doorbell::Runtime) -> Vec<u32> {
    let log = Arc::new(std::sync::Mutex::new(Vec::new()));
    let shared = Arc::clone(&log);
    let outer = rt.task().on(0).spawn(async move {
        let notes_turns = |id| {
            let log = Arc::clone(&shared);
            async move {
                for _ in 0..3 {
                    log.lock().unwrap().push(id);
                    yield_now().await;
                }
            }
        };
        let tasks = [0, 1, 2].map(|id| doorbell::task().on(0).spawn(notes_turns(id)));
        for task in tasks {
            task.await.unwrap();
        }
    });
    rt.block_on(outer).unwrap();
    std::mem::take(&mut *log.lock().unwrap())
}

// If the first polls take more than 20 us, since the OS took the CPU or the code is cold, the tasks that have yielded get
// a slice before the others have run. So not every round has this order. `w29_a_task_that_yields_runs_behind_what_is_ready`
// (doorbell-core) checks the order by a clock of its own.
#[test]
fn tasks_on_one_worker_take_turns() {
    const ROUNDS: usize = 1_000;
    let rt = runtime(1);
    let mut rounds = (0..ROUNDS).map(|_| turns(&rt));
    let in_turn = rounds.any(|order| order == [0, 1, 2, 0, 1, 2, 0, 1, 2]);
    assert!(in_turn, "a task that yields goes before the others");
}

#[test]
fn tokio_sync_and_futures_work_here() {
    runtime(2).block_on(async {
        let (tx, mut rx) = tokio::sync::mpsc::channel(4);
        let producer = doorbell::task().on(1).spawn(async move {
            for i in 0..1_000u32 {
                tx.send(i).await.unwrap();
            }
        });
        let consumer = doorbell::task().on(0).spawn(async move {
            let mut sum = 0;
            while let Some(i) = rx.recv().await {
                sum += i;
            }
            sum
        });
        let (produced, sum) = futures::join!(producer, consumer);
        produced.unwrap();
        assert_eq!(sum.unwrap(), 499_500);
    });
}

// A chain of wakes, each from inside the poll that the previous one caused.
#[test]
fn a_hundred_thousand_nested_wakes_need_no_stack() {
    const LINKS: usize = 100_000;
    let rt = runtime(2);
    let count = Arc::new(AtomicUsize::new(0));
    let last = rt.block_on(async {
        let mut before: Option<doorbell::JoinHandle<()>> = None;
        for link in 0..LINKS {
            let count = Arc::clone(&count);
            before = Some(doorbell::task().on(link % 2).spawn(async move {
                if let Some(before) = before {
                    before.await.unwrap();
                }
                count.fetch_add(1, Ordering::Relaxed);
            }));
        }
        before.unwrap().await
    });
    last.unwrap();
    assert_eq!(count.load(Ordering::Relaxed), LINKS);
}

#[test]
fn several_runtimes_live_at_once_and_guards_may_go_in_any_order() {
    let (a, b) = (runtime(1), runtime(2));
    let in_a = a.enter();
    assert_eq!(Handle::current().cores(), 1);
    let in_b = b.enter();
    assert_eq!(Handle::current().cores(), 2);
    // Bug W15: a guard that is dropped out of order must not leave a dangling frame.
    drop(in_a);
    assert_eq!(Handle::current().cores(), 2);
    drop(in_b);
    assert!(Handle::try_current().is_err());
    // A task of one runtime awaits a task of the other.
    let other = b.handle().clone();
    let sum = a.block_on(a.spawn(async move { other.spawn(async { 20 }).await.unwrap() + 1 }));
    assert_eq!(sum.unwrap(), 21);
}

#[test]
fn spawn_inside_another_runtime_uses_that_one() {
    let (a, b) = (runtime(1), runtime(3));
    let b_handle = b.handle().clone();
    let cores = a.block_on(async move {
        let _inside = b_handle.enter();
        doorbell::spawn(async { Handle::current().cores() })
            .await
            .unwrap()
    });
    assert_eq!(cores, 3);
}

#[test]
fn a_task_inside_another_runtime_still_knows_its_core() {
    let (a, b) = (runtime(2), runtime(1));
    let other = b.handle().clone();
    let core = a.block_on(a.task().on(1).spawn(async move {
        let _inside = other.enter();
        current_core()
    }));
    assert_eq!(core.unwrap(), Some(CoreId::new(1)));
}

struct Leaves(Option<doorbell::EnterGuard>);

// SAFETY: it is never sent: the runtime is gone, so its call is dropped at once, on this thread.
unsafe impl Send for Leaves {}

impl Drop for Leaves {
    fn drop(&mut self) {
        drop(self.0.take());
    }
}

// A destructor leaves a runtime inside a call that is refused: the frame is in use.
#[test]
fn a_destructor_may_leave_the_runtime() {
    let rt = runtime(1);
    let handle = rt.handle().clone();
    drop(rt);
    let leaves = Leaves(Some(handle.enter()));
    drop(handle);
    let refused = doorbell::call_on(0, move || drop(leaves));
    assert!(Handle::try_current().is_err());
    drop(refused);
}
