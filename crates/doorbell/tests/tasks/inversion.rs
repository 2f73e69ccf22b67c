//! An urgent task never waits behind work that is not urgent.
//!
//! Every Fair worker is inside a poll that ends only after the urgent task has reported. If the urgent task
//! had to wait for a Fair worker, no test here would end.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a test of threads, on threads of its own"
)]

use crate::shuffled::Builder;
use doorbell::sync::{MappedMutexGuard, Mutex, MutexGuard, OwnedMutexGuard};
use doorbell::{Class, JoinHandle, Runtime, current_class};
use futures::channel::oneshot;
use std::sync::{Arc, mpsc};
use std::time::Duration;

const CORES: usize = 2;
/// Only for failures; no test here waits that long.
const PATIENCE: Duration = Duration::from_secs(60);

fn runtime() -> Runtime {
    Builder::new().cores(CORES).build().unwrap()
}

/// Long polls on all Fair workers, which end when this is dropped.
struct Hogs {
    let_go: Vec<mpsc::Sender<()>>,
    tasks: Vec<JoinHandle<()>>,
}

impl Hogs {
    fn sit(runtime: &Runtime) -> Self {
        let (sits, sitting) = mpsc::channel();
        let (let_go, tasks) = (0..CORES)
            .map(|core| {
                let (let_go, end) = mpsc::channel::<()>();
                let sits = sits.clone();
                let hog = runtime.handle().task().on(core).spawn(async move {
                    sits.send(()).unwrap();
                    // The sender is dropped.
                    assert!(end.recv_timeout(PATIENCE) != Err(mpsc::RecvTimeoutError::Timeout));
                });
                (let_go, hog)
            })
            .unzip();
        for _ in 0..CORES {
            sitting.recv_timeout(PATIENCE).unwrap();
        }
        Hogs { let_go, tasks }
    }

    fn go(self, runtime: &Runtime) {
        drop(self.let_go);
        for task in self.tasks {
            runtime.block_on(task).unwrap();
        }
    }
}

/// Runs an urgent task while all Fair workers are busy. Its output comes before they are free.
fn urgently<F>(runtime: &Runtime, future: F) -> F::Output
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let hogs = Hogs::sit(runtime);
    let (report, reported) = mpsc::channel();
    let urgent = runtime.handle().task().class(Class::rt(50));
    let urgent = urgent.spawn(async move { report.send(future.await).unwrap() });
    let output = reported
        .recv_timeout(PATIENCE)
        .expect("it waits for a Fair worker");
    hogs.go(runtime);
    runtime.block_on(urgent).unwrap();
    output
}

fn fair<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    doorbell::task().class(Class::FAIR).spawn(future)
}

#[test]
fn a_queued_task_is_polled_for_who_awaits_it() {
    let runtime = runtime();
    let output = urgently(&runtime, async {
        fair(async { (current_class(), doorbell::spawn(async { current_class() })) }).await
    });
    let (class, child) = output.unwrap();
    // It keeps its class, as do its children, wherever it runs.
    assert_eq!(class, Some(Class::FAIR));
    assert_eq!(runtime.block_on(child).unwrap(), Some(Class::FAIR));
}

#[test]
fn a_task_that_is_woken_later_is_polled_again() {
    let runtime = runtime();
    let slept = urgently(&runtime, async {
        fair(async {
            for _ in 0..3 {
                doorbell::time::sleep(Duration::from_millis(2)).await;
                doorbell::yield_now().await;
            }
            7
        })
        .await
    });
    assert_eq!(slept.unwrap(), 7);
}

#[test]
fn what_an_awaited_task_awaits_is_polled_too() {
    let runtime = runtime();
    let sum = urgently(&runtime, async {
        let first = fair(async {
            let batch = doorbell::task().class(Class::BATCH).spawn(async {
                doorbell::time::sleep(Duration::from_millis(2)).await;
                1
            });
            1 + fair(async { batch.await.unwrap() + 1 }).await.unwrap()
        });
        first.await.unwrap()
    });
    assert_eq!(sum, 3);
}

#[test]
fn what_began_to_wait_before_it_was_awaited_is_hastened_too() {
    let runtime = runtime();
    let (open, gate) = oneshot::channel::<u32>();
    let (waits, waiting) = mpsc::channel();
    let handle = runtime.handle().clone();
    // Both wait on Fair workers before any urgent task knows of them.
    let outer = runtime.spawn(async move {
        let inner = handle.spawn(async move {
            waits.send(()).unwrap();
            gate.await.unwrap()
        });
        inner.await.unwrap()
    });
    waiting.recv_timeout(PATIENCE).unwrap();
    let got = urgently(&runtime, async move {
        // Later than the first poll of the handle.
        doorbell::task().class(Class::rt(1)).spawn(async move {
            doorbell::time::sleep(Duration::from_millis(20)).await;
            open.send(9).unwrap();
        });
        outer.await.unwrap()
    });
    assert_eq!(got, 9);
}

/// While the Fair workers are idle they run the awaited tasks themselves. Once they are busy these run at
/// the urgent class, including the links that had begun before.
#[test]
fn a_chain_that_its_own_workers_have_begun_is_run_from_above_later() {
    let runtime = runtime();
    let lock = Arc::new(Mutex::new(1));
    let (open, gate) = oneshot::channel::<u32>();
    let ((linked, links), (report, reported)) = (mpsc::channel(), mpsc::channel());
    let urgent = runtime.handle().task().class(Class::rt(50));
    let urgent = urgent.spawn(async move {
        let outer = fair(async move {
            let theirs = Arc::clone(&lock);
            let (holds, held) = oneshot::channel::<()>();
            let inner = fair(async move {
                let guard = theirs.lock().await;
                holds.send(()).unwrap();
                gate.await.unwrap() + *guard
            });
            held.await.unwrap();
            linked.send(()).unwrap();
            // First inherited by the lock, then by the handle.
            let one = *lock.lock().await;
            inner.await.unwrap() + one
        });
        report.send(outer.await.unwrap()).unwrap();
    });
    links.recv_timeout(PATIENCE).unwrap();
    // Mostly all of them wait by now; if not, the test shows less.
    std::thread::sleep(Duration::from_millis(20));
    let hogs = Hogs::sit(&runtime);
    open.send(7).unwrap();
    let got = reported.recv_timeout(PATIENCE);
    assert_eq!(got, Ok(9), "it waits for a Fair worker");
    hogs.go(&runtime);
    runtime.block_on(urgent).unwrap();
}

#[test]
fn a_panic_and_a_cancellation_reach_who_awaits() {
    let runtime = runtime();
    let (panicked, cancelled) = urgently(&runtime, async {
        let panicked = fair(async { panic!("on purpose") }).await;
        let endless = fair(std::future::pending::<()>());
        endless.abort();
        (panicked, endless.await)
    });
    assert!(panicked.unwrap_err().is_panic());
    assert!(cancelled.unwrap_err().is_cancelled());
}

#[test]
fn a_pinned_task_stays_on_its_worker() {
    let runtime = runtime();
    let (looked, pinned) = urgently(&runtime, async {
        let pinned = doorbell::task().class(Class::FAIR).on(0).spawn(async { 5 });
        let pause = doorbell::time::sleep(Duration::from_millis(20));
        let mut pinned = std::pin::pin!(Some(pinned));
        let looked = doorbell::time::timeout(
            Duration::from_millis(20),
            pinned.as_mut().get_mut().as_mut().unwrap(),
        )
        .await;
        pause.await;
        (looked.is_err(), pinned.get_mut().take().unwrap())
    });
    assert!(looked, "its worker was busy");
    assert_eq!(runtime.block_on(pinned).unwrap(), 5);
}

#[test]
fn many_are_awaited_while_their_own_workers_run_too() {
    let runtime = runtime();
    let total = runtime.block_on(async {
        let urgent = (0..8_u64).map(|seed| {
            doorbell::task().class(Class::rt(50)).spawn(async move {
                let mut total = 0;
                for round in 0..200 {
                    let task = fair(async move {
                        for _ in 0..(seed + round) % 4 {
                            doorbell::yield_now().await;
                        }
                        let batch = doorbell::task().class(Class::BATCH);
                        1 + batch.spawn(async { 1 }).await.unwrap()
                    });
                    if round % 3 == 0 {
                        doorbell::yield_now().await;
                    }
                    if round % 7 == 6 {
                        task.abort();
                    }
                    total += task.await.unwrap_or(2);
                }
                total
            })
        });
        let mut total = 0;
        for urgent in urgent.collect::<Vec<_>>() {
            total += urgent.await.unwrap();
        }
        total
    });
    assert_eq!(total, 8 * 200 * 2);
}

#[test]
fn a_runtime_ends_while_tasks_are_awaited_from_above() {
    for round in 0..20 {
        let runtime = runtime();
        let (begun, begins) = mpsc::channel();
        for _ in 0..4 {
            let begun = begun.clone();
            runtime
                .handle()
                .task()
                .class(Class::rt(9))
                .spawn(async move {
                    let task = fair(async move {
                        begun.send(()).unwrap();
                        loop {
                            doorbell::time::sleep(Duration::from_micros(50)).await;
                            doorbell::yield_now().await;
                        }
                    });
                    let _: Result<(), _> = task.await;
                });
        }
        begins.recv_timeout(PATIENCE).unwrap();
        std::thread::sleep(Duration::from_micros(100 * round));
        drop(runtime);
    }
}

#[test]
fn who_holds_a_lock_is_run_for_who_waits_for_it() {
    let runtime = runtime();
    let lock = Arc::new(Mutex::new(0));
    let (holds, holding) = mpsc::channel();
    let (open, gate) = oneshot::channel::<()>();
    let theirs = Arc::clone(&lock);
    let holder = runtime.spawn(async move {
        let mut guard = theirs.lock().await;
        holds.send(()).unwrap();
        gate.await.unwrap();
        for _ in 0..3 {
            doorbell::yield_now().await;
            *guard += 1;
        }
    });
    holding.recv_timeout(PATIENCE).unwrap();
    let theirs = Arc::clone(&lock);
    let seen = urgently(&runtime, async move {
        let opens = doorbell::spawn(async move {
            doorbell::time::sleep(Duration::from_millis(5)).await;
            open.send(()).unwrap();
        });
        let seen = *theirs.lock().await;
        opens.await.unwrap();
        seen
    });
    assert_eq!(seen, 3);
    runtime.block_on(holder).unwrap();
    assert_eq!(*lock.try_lock().unwrap(), 3);
}

#[test]
fn who_waits_for_a_lock_that_a_slow_one_holds_is_run_too() {
    let runtime = runtime();
    let lock = Arc::new(Mutex::new(()));
    let (holds, holding) = mpsc::channel();
    let (open, gate) = oneshot::channel::<()>();
    let theirs = Arc::clone(&lock);
    // A Batch task holds the lock; a Fair task waits for it; an urgent task awaits the Fair one.
    let holder = runtime.handle().task().class(Class::BATCH);
    let holder = holder.spawn(async move {
        let _guard = theirs.lock().await;
        holds.send(()).unwrap();
        gate.await.unwrap();
    });
    holding.recv_timeout(PATIENCE).unwrap();
    let theirs = Arc::clone(&lock);
    let waits = runtime.spawn(async move { drop(theirs.lock().await) });
    urgently(&runtime, async move {
        open.send(()).unwrap();
        waits.await.unwrap();
    });
    runtime.block_on(holder).unwrap();
}

#[test]
fn a_lock_goes_to_the_most_urgent_one() {
    let runtime = runtime();
    let order = runtime.block_on(async {
        let lock = Arc::new(Mutex::new(Vec::new()));
        let guard = lock.lock().await;
        let classes = [
            Class::BATCH,
            Class::FAIR,
            Class::rt(3),
            Class::rt(80),
            Class::FAIR,
        ];
        let mut tasks = Vec::new();
        for (at, class) in classes.into_iter().enumerate() {
            let (comes, came) = oneshot::channel();
            let lock = Arc::clone(&lock);
            tasks.push(doorbell::task().class(class).spawn(async move {
                let mut turn = lock.lock();
                let mut comes = Some(comes);
                let mut guard = std::future::poll_fn(|cx| {
                    let polled = std::pin::Pin::new(&mut turn).poll(cx);
                    if let Some(comes) = comes.take() {
                        comes.send(()).unwrap();
                    }
                    polled
                })
                .await;
                guard.push(at);
            }));
            came.await.unwrap();
        }
        drop(guard);
        for task in tasks {
            task.await.unwrap();
        }
        std::mem::take(&mut *lock.lock().await)
    });
    assert_eq!(order, [3, 2, 1, 4, 0]);
}

#[test]
fn locks_of_all_classes_are_fought_for() {
    let runtime = runtime();
    let locks = Arc::new([Mutex::new(0_u64), Mutex::new(0)]);
    let classes = [
        Class::BATCH,
        Class::FAIR,
        Class::FAIR,
        Class::rt(9),
        Class::rt(70),
    ];
    let tasks = classes.into_iter().cycle().take(20).map(|class| {
        let locks = Arc::clone(&locks);
        runtime.handle().task().class(class).spawn(async move {
            for round in 0..100 {
                let mut first = locks[0].lock().await;
                if round % 3 == 0 {
                    doorbell::yield_now().await;
                }
                if round % 5 == 0 {
                    let mut second = locks[1].lock().await;
                    doorbell::yield_now().await;
                    *second += 1;
                }
                *first += 1;
                drop(first);
                if round % 7 == 0 {
                    // Given up.
                    let soon = Duration::from_micros(20);
                    let _ = doorbell::time::timeout(soon, locks[0].lock()).await;
                }
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        runtime.block_on(task).unwrap();
    }
    let [first, second] = Arc::into_inner(locks).unwrap();
    assert_eq!((first.into_inner(), second.into_inner()), (2000, 400));
}

#[test]
fn a_mutex_shows_what_it_guards_and_says_what_to_do() {
    let runtime = runtime();
    let lock = Arc::new(Mutex::new(4));
    assert_eq!(format!("{lock:?}"), "Mutex { value: 4 }");
    let guard = runtime.block_on(Arc::clone(&lock).lock_owned());
    assert_eq!(format!("{lock:?}"), "Mutex { value: (locked) }");
    let error = lock.try_lock().unwrap_err();
    assert!(error.to_string().contains("lock().await"), "{error}");
    assert!(Arc::clone(&lock).try_lock_owned().is_err());
    assert_eq!(format!("{guard} {guard:?}"), "4 4");
    drop(guard);
    // A panic releases the lock.
    let theirs = Arc::clone(&lock);
    let panics = runtime.spawn(async move {
        let mut guard = theirs.lock().await;
        *guard = 5;
        panic!("on purpose");
    });
    let error = runtime.block_on(panics).unwrap_err();
    assert!(error.is_panic());
    let mut lock = Arc::into_inner(lock).unwrap();
    *lock.get_mut() += 1;
    assert_eq!(lock.into_inner(), 6);
}

#[test]
fn a_part_of_what_a_mutex_guards_keeps_it_locked() {
    let lock = Arc::new(Mutex::new((String::from("a"), Some(1))));
    let guard = lock.try_lock().unwrap();
    let text = MutexGuard::map(guard, |both| &mut both.0);
    let mut text = MappedMutexGuard::map(text, String::as_mut_str);
    text.make_ascii_uppercase();
    assert!(lock.try_lock().is_err());
    assert_eq!(format!("{text} {text:?}"), "A \"A\"");
    drop(text);
    let guard = Arc::clone(&lock).try_lock_owned().unwrap();
    let mut number = OwnedMutexGuard::filter_map(guard, |both| both.1.as_mut()).unwrap();
    *number += 1;
    assert!(lock.try_lock().is_err());
    drop(number);
    lock.try_lock().unwrap().1 = None;
    let guard = MutexGuard::filter_map(lock.try_lock().unwrap(), |both| both.1.as_mut());
    assert_eq!(guard.unwrap_err().0, "A");
    assert!(lock.try_lock().is_ok());
}

#[test]
fn a_thread_waits_for_a_lock_that_a_task_holds_and_a_worker_may_not() {
    let runtime = runtime();
    let lock = Arc::new(Mutex::new(0));
    let (holds, held) = mpsc::channel();
    let theirs = Arc::clone(&lock);
    let holder = runtime.spawn(async move {
        let mut guard = theirs.lock().await;
        holds.send(()).unwrap();
        doorbell::time::sleep(Duration::from_millis(5)).await;
        *guard = 1;
    });
    held.recv_timeout(PATIENCE).unwrap();
    assert_eq!(*lock.blocking_lock(), 1);
    assert_eq!(*Arc::clone(&lock).blocking_lock_owned(), 1);
    runtime.block_on(holder).unwrap();
    let refused = runtime.block_on(runtime.spawn(async move { *lock.blocking_lock() }));
    assert!(refused.unwrap_err().to_string().contains("lock().await"));
}
