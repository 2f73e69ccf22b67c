//! Classes: which task has which, where it runs, and which policies the OS gives.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a test of threads, on threads of its own"
)]

use doorbell::{Builder, Class, ClassKind, current_class, metrics::Policy};
use futures::channel::{mpsc, oneshot};
use futures::{SinkExt, StreamExt};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

fn runtime(cores: usize) -> doorbell::Runtime {
    Builder::new().cores(cores).build().unwrap()
}

#[test]
fn a_task_has_the_class_that_it_was_given() {
    let runtime = runtime(2);
    for class in [Class::BATCH, Class::FAIR, Class::rt(1), Class::rt(99)] {
        for core in [None, Some(0), Some(1)] {
            let mut task = runtime.task().class(class);
            if let Some(core) = core {
                task = task.on(core);
            }
            let seen = task.spawn(async { (current_class(), doorbell::current_core()) });
            let (seen, on) = runtime.block_on(seen).unwrap();
            assert_eq!(seen, Some(class));
            let on = on.expect("a task is on a core").index();
            assert!(core.is_none_or(|core| core == on), "{class} on {on}");
        }
    }
    assert_eq!(current_class(), None, "this thread is no worker");
}

#[test]
fn children_have_the_class_of_their_parent_unless_told() {
    let runtime = runtime(2);
    let parent = runtime.task().class(Class::rt(7)).spawn(async {
        let child = doorbell::spawn(async {
            let grandchild = doorbell::spawn(async { current_class() });
            (current_class(), grandchild.await.unwrap())
        });
        let told = doorbell::task().class(Class::FAIR);
        let told = told.spawn(async {
            let child = doorbell::spawn(async { current_class() });
            (current_class(), child.await.unwrap())
        });
        (child.await.unwrap(), told.await.unwrap())
    });
    let (child, told) = runtime.block_on(parent).unwrap();
    let (urgent, fair) = (Some(Class::rt(7)), Some(Class::FAIR));
    assert_eq!((child, told), ((urgent, urgent), (fair, fair)));
    let outside = runtime.block_on(async { doorbell::spawn(async { current_class() }).await });
    assert_eq!(outside.unwrap(), fair);
}

#[test]
fn what_is_spawned_into_another_class_begins_on_the_core_of_the_spawner() {
    const EACH: usize = 40;
    let runtime = runtime(2);
    for core in [0, 1] {
        let spawner = runtime.task().on(core).spawn(async move {
            let mut here = 0;
            for _ in 0..EACH {
                // Its urgent worker parks meanwhile.
                doorbell::time::sleep(Duration::from_millis(1)).await;
                let task = doorbell::task().class(Class::rt(5));
                let on = task
                    .spawn(async { doorbell::current_core() })
                    .await
                    .unwrap();
                here += usize::from(on == doorbell::current_core());
            }
            here
        });
        // Taking turns would give half. On a busy machine the worker may still be about to park, and
        // another one gets the task.
        let here = runtime.block_on(spawner).unwrap();
        assert!(here >= EACH * 3 / 4, "{here} of {EACH} on core {core}");
    }
}

#[test]
fn what_runs_not_send_stays_on_its_own_worker() {
    use std::rc::Rc;
    let runtime = runtime(1);
    for class in [Class::BATCH, Class::rt(3)] {
        let (tell, told) = oneshot::channel();
        let parent = runtime.task().class(class).spawn(async move {
            let here = std::thread::current().id();
            drop(doorbell::spawn_local(async move {
                let mine = Rc::new(std::cell::Cell::new(0));
                let theirs = Rc::clone(&mine);
                let local = doorbell::spawn_local(async move {
                    for _ in 0..100 {
                        theirs.set(theirs.get() + 1);
                        doorbell::yield_now().await;
                    }
                    (std::thread::current().id(), doorbell::current_class())
                });
                let (there, its) = local.await.unwrap();
                let same = there == here && std::thread::current().id() == here;
                tell.send(same && mine.get() == 100 && its == Some(class))
                    .unwrap();
            }));
        });
        runtime.block_on(parent).unwrap();
        assert!(runtime.block_on(told).unwrap(), "{class}");
    }
}

#[test]
fn timers_of_every_class_fire() {
    let runtime = runtime(2);
    let tasks: Vec<_> = [Class::BATCH, Class::FAIR, Class::rt(50)]
        .into_iter()
        .flat_map(|class| (0..20).map(move |ms| (class, ms)))
        .map(|(class, ms)| {
            runtime.task().class(class).spawn(async move {
                let start = doorbell::time::Instant::now();
                doorbell::time::sleep(Duration::from_millis(ms)).await;
                start.elapsed() >= Duration::from_millis(ms)
            })
        })
        .collect();
    for task in tasks {
        assert!(runtime.block_on(task).unwrap(), "early");
    }
}

#[test]
fn tasks_of_all_classes_wake_each_other() {
    let runtime = runtime(2);
    for (low, high) in [
        (Class::FAIR, Class::rt(10)),
        (Class::BATCH, Class::rt(10)),
        (Class::BATCH, Class::FAIR),
    ] {
        let (mut forth, mut rx) = mpsc::channel::<u32>(1);
        let (mut tx, mut back) = mpsc::channel::<u32>(1);
        let echo = runtime.task().class(high).spawn(async move {
            for _ in 0..500 {
                let number = rx.next().await.unwrap();
                tx.send(number + 1).await.unwrap();
            }
        });
        let asks = runtime.task().class(low).spawn(async move {
            let mut sum = 0;
            for number in 0..500 {
                forth.send(number).await.unwrap();
                sum += back.next().await.unwrap() - number;
            }
            sum
        });
        assert_eq!(runtime.block_on(asks).unwrap(), 500);
        runtime.block_on(echo).unwrap();
    }
}

#[test]
fn workers_begin_when_their_class_is_used() {
    let runtime = runtime(2);
    let kinds = |runtime: &doorbell::Runtime| -> Vec<_> {
        runtime
            .policies()
            .iter()
            .map(doorbell::metrics::WorkerPolicy::class)
            .collect()
    };
    runtime.block_on(runtime.spawn(async {})).unwrap();
    assert!(kinds(&runtime).iter().all(|kind| *kind == ClassKind::Fair));
    let batch = runtime.task().class(Class::BATCH);
    runtime.block_on(batch.on(1).spawn(async {})).unwrap();
    let worker = runtime.policies().into_iter();
    let mut worker = worker.filter(|worker| worker.class() == ClassKind::Batch);
    let worker = worker.find(|worker| worker.core().index() == 1).unwrap();
    // This policy needs no privilege.
    assert_eq!(worker.got(), Some(Policy::Idle), "{worker}");
    let urgent = runtime.task().class(Class::rt(1));
    runtime.block_on(urgent.on(0).spawn(async {})).unwrap();
    let policies = runtime.policies();
    let urgent = policies
        .iter()
        .find(|worker| worker.class() == ClassKind::Rt);
    let urgent = urgent.unwrap();
    match urgent.got() {
        Some(got) if urgent.is_as_wanted() => assert_eq!(got, Policy::Fifo { priority: 10 }),
        _ => assert!(urgent.to_string().contains("CAP_SYS_NICE"), "{urgent}"),
    }
}

#[test]
fn workers_begin_when_their_class_is_opened() {
    let runtime = runtime(2);
    let open = |class| runtime.class_is_open(class);
    let workers = |kind| {
        let policies = runtime.policies().into_iter();
        policies.filter(|worker| worker.class() == kind).count()
    };
    assert!(open(Class::FAIR) && !open(Class::rt(1)) && !open(Class::BATCH));
    // From a worker or from outside, repeatedly.
    for (class, kind) in [
        (Class::rt(1), ClassKind::Rt),
        (Class::BATCH, ClassKind::Batch),
    ] {
        let opens = async move { doorbell::Handle::current().open_class(class) };
        runtime.block_on(runtime.spawn(opens)).unwrap().unwrap();
        runtime.open_class(class).unwrap();
        assert!(open(class), "{class}");
        // Each worker reports its policy as soon as it runs.
        let start = std::time::Instant::now();
        while workers(kind) < 2 {
            assert!(start.elapsed() < Duration::from_secs(60), "{class}");
            std::thread::yield_now();
        }
        assert_eq!(workers(kind), 2, "{class}");
    }
    // A rank only orders tasks; it has no workers of its own.
    assert!(open(Class::rt(99)));
}

#[test]
fn a_runtime_ends_with_tasks_of_every_class() {
    for used in 0..8_u32 {
        let runtime = runtime(2);
        let classes = [Class::BATCH, Class::FAIR, Class::rt(5)];
        let mut joins = Vec::new();
        for (bit, class) in classes.into_iter().enumerate() {
            if used & (1 << bit) != 0 {
                let task = runtime.task().class(class);
                joins.push(task.spawn(std::future::pending::<()>()));
            }
        }
        let handle = runtime.handle().clone();
        drop(runtime);
        for join in joins {
            assert!(join.is_finished());
        }
        // Also afterwards, for classes that were used and classes that were not.
        for class in classes {
            assert!(handle.task().class(class).spawn(async {}).is_finished());
        }
    }
}

#[test]
fn cores_go_off_and_on_with_all_their_workers() {
    let runtime = runtime(2);
    let handle = runtime.handle().clone();
    runtime.block_on(async {
        let (rt, batch) = (Class::rt(9), Class::BATCH);
        doorbell::task().class(rt).spawn(async {}).await.unwrap();
        handle.core_offline(1).await.unwrap();
        // The workers of this class start while a core is off.
        doorbell::task().class(batch).spawn(async {}).await.unwrap();
        for class in [rt, batch] {
            for _ in 0..50 {
                let task = doorbell::task().class(class);
                let on = task.spawn(async { doorbell::current_core().unwrap().index() });
                assert_eq!(on.await.unwrap(), 0, "{class} on a core that is off");
            }
            let pinned = doorbell::task().class(class).on(1);
            assert!(pinned.try_spawn(async {}).is_err());
        }
        handle.core_online(1).await.unwrap();
        for class in [rt, batch] {
            let task = doorbell::task().class(class).on(1).spawn(async {});
            task.await.unwrap();
        }
    });
}

#[test]
fn a_priority_that_there_is_not_is_refused() {
    for asked in [0, 100] {
        let refused = Builder::new().cores(1).rt_priority(asked).build();
        let error = refused.expect_err("1 to 99").to_string();
        assert!(error.contains("1 to 99"), "{error}");
    }
}

#[test]
fn a_paused_clock_has_all_classes_on_the_fair_workers() {
    let runtime = Builder::new().cores(2).start_paused(true).build().unwrap();
    // Nothing can be opened.
    assert!(runtime.class_is_open(Class::BATCH));
    runtime.open_class(Class::BATCH).unwrap();
    runtime.block_on(async {
        let urgent = doorbell::task().class(Class::rt(5)).spawn(async {
            doorbell::time::sleep(Duration::from_secs(3_600)).await;
        });
        urgent.await.unwrap();
    });
    let fair = runtime.policies();
    assert!(fair.iter().all(|worker| worker.class() == ClassKind::Fair));
}

#[test]
fn workers_of_all_classes_are_in_dumps_and_metrics() {
    let runtime = runtime(2);
    assert_eq!(runtime.metrics().workers.len(), 2);
    for (class, name) in [(Class::BATCH, "batch"), (Class::rt(4), "urgent")] {
        let (tell, told) = oneshot::channel();
        let task = runtime.task().class(class).name(name).on(1);
        drop(task.spawn(async move {
            tell.send(()).unwrap();
            std::future::pending::<()>().await;
        }));
        runtime.block_on(told).unwrap();
    }
    let names = |tasks: Vec<doorbell::metrics::TaskDump>| -> Vec<String> {
        let names = tasks.iter().filter_map(|task| task.name());
        let mut names: Vec<_> = names.map(str::to_owned).collect();
        names.sort();
        names
    };
    assert_eq!(names(runtime.dump_blocking().unwrap()), ["batch", "urgent"]);
    let inside = runtime.spawn(async { doorbell::Handle::current().dump().await });
    assert_eq!(
        names(runtime.block_on(inside).unwrap()),
        ["batch", "urgent"]
    );
    let metrics = runtime.metrics();
    for kind in [ClassKind::Rt, ClassKind::Batch] {
        let workers = metrics.workers.iter().filter(|worker| worker.class == kind);
        let polls: Vec<_> = workers
            .map(|worker| (worker.core.index(), worker.counts.polls))
            .collect();
        assert_eq!(polls, [(0, 0), (1, 1)], "{kind}");
    }
}

#[test]
fn what_a_hook_spawns_locally_stays_on_its_worker() {
    let (ran, strayed) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (counts, strays) = (Arc::clone(&ran), Arc::clone(&strayed));
    let runtime = Builder::new().cores(2).on_worker_start(move |_| {
        let (counts, strays) = (Arc::clone(&counts), Arc::clone(&strays));
        let (here, mine) = (std::thread::current().id(), std::rc::Rc::new(()));
        drop(doorbell::spawn_local(async move {
            strays.fetch_add(usize::from(std::thread::current().id() != here), SeqCst);
            drop(mine);
            counts.fetch_add(1, SeqCst);
        }));
    });
    let runtime = runtime.build().unwrap();
    for class in [Class::BATCH, Class::rt(1)] {
        for core in [0, 1] {
            let task = runtime.task().class(class).on(core);
            runtime.block_on(task.spawn(async {})).unwrap();
        }
    }
    // Two workers for each of three classes. A task pinned to a worker comes behind what the worker's hook
    // spawned.
    while ran.load(SeqCst) < 6 {
        std::thread::yield_now();
    }
    assert_eq!(strayed.load(SeqCst), 0);
}

#[test]
fn urgent_workers_are_there_before_any_batch_worker() {
    let runtime = runtime(1);
    let seen = runtime.task().class(Class::BATCH).spawn(async {
        let urgent = doorbell::task().class(Class::rt(1));
        urgent.spawn(async {}).await.unwrap();
    });
    runtime.block_on(seen).unwrap();
    let policies = runtime.policies();
    let urgent = policies
        .iter()
        .find(|worker| worker.class() == ClassKind::Rt);
    // Threads that a Batch worker starts would stay below all others.
    assert_ne!(urgent.unwrap().got(), Some(Policy::Idle));
}

/// The record of tasks, in the order in which they ran: class and number.
type Ran = Arc<std::sync::Mutex<Vec<(u8, u32)>>>;

/// Spawns a task that records its class and number; pinned to core 0 if `pinned`.
fn spawn_noting(handle: &doorbell::Handle, ran: &Ran, (class, number): (u8, u32), pinned: bool) {
    let (ran, task) = (Arc::clone(ran), handle.task().class(Class::rt(class)));
    let task = if pinned { task.on(0) } else { task };
    drop(task.spawn(async move { ran.lock().unwrap().push((class, number)) }));
}

/// Runs `hold` inside a poll of an urgent task on the only core. Returns which tasks ran after it, in
/// order.
fn ran_behind(hold: impl FnOnce(&doorbell::Handle, &Ran) + Send + 'static) -> Vec<(u8, u32)> {
    let (runtime, ran) = (runtime(1), Ran::default());
    let (handle, noted) = (runtime.handle().clone(), Arc::clone(&ran));
    let holds = runtime.task().class(Class::rt(1)).spawn(async move {
        hold(&handle, &noted);
        // Its rank is the lowest and it is queued last, so only tasks of lower classes come behind it.
        doorbell::yield_now().await;
    });
    runtime.block_on(holds).unwrap();
    std::mem::take(&mut *ran.lock().unwrap())
}

/// Sorted by class, the highest first, and by arrival within a class.
fn in_order(mut tasks: Vec<(u8, u32)>) -> Vec<(u8, u32)> {
    tasks.sort_by_key(|(class, number)| (std::cmp::Reverse(*class), *number));
    tasks
}

const MIXED: [u8; 12] = [50, 2, 99, 50, 7, 2, 98, 50, 99, 3, 7, 2];

#[test]
fn the_most_urgent_of_a_worker_runs_next() {
    let tasks: Vec<(u8, u32)> = MIXED.into_iter().zip(0..).collect();
    for pinned in [|_| false, |_| true, |number: u32| number.is_multiple_of(3)] {
        let theirs = tasks.clone();
        let ran = ran_behind(move |handle, ran| {
            for task in theirs {
                spawn_noting(handle, ran, task, pinned(task.1));
            }
        });
        assert_eq!(ran, in_order(tasks.clone()));
    }
}

#[test]
fn more_urgent_tasks_than_a_ring_holds_run_in_order() {
    let classes = MIXED.into_iter().cycle().take(1_000);
    let tasks: Vec<(u8, u32)> = classes.zip(0..).collect();
    let theirs = tasks.clone();
    let ran = ran_behind(move |handle, ran| {
        for task in theirs {
            spawn_noting(handle, ran, task, false);
        }
    });
    assert_eq!(ran, in_order(tasks));
}

#[test]
fn what_comes_from_outside_during_a_poll_runs_in_order_after_it() {
    let tasks: Vec<(u8, u32)> = MIXED.into_iter().zip(0..).collect();
    for pinned in [false, true] {
        let theirs = tasks.clone();
        let ran = ran_behind(move |handle, ran| {
            // Before the ones below, whose rank is mostly higher.
            (100..110).for_each(|number| spawn_noting(handle, ran, (5, number), !pinned));
            let (handle, ran) = (handle.clone(), Arc::clone(ran));
            let outside = std::thread::spawn(move || {
                for task in theirs {
                    spawn_noting(&handle, &ran, task, pinned);
                }
            });
            outside.join().unwrap();
        });
        let here = (100..110).map(|number| (5, number));
        assert_eq!(ran, in_order(here.chain(tasks.clone()).collect()));
    }
}

#[test]
fn an_urgent_task_goes_in_front_at_the_end_of_each_poll() {
    let ran = ran_behind(|handle, ran| {
        // Each of these spawns one of higher rank in its poll.
        for number in 0..5 {
            let (again, noted) = (handle.clone(), Arc::clone(ran));
            drop(handle.task().class(Class::rt(20)).spawn(async move {
                noted.lock().unwrap().push((20, number));
                spawn_noting(&again, &noted, (30, number), number == 2);
            }));
        }
    });
    let expected = (0..5).flat_map(|number| [(20, number), (30, number)]);
    assert!(ran.iter().copied().eq(expected), "{ran:?}");
}
