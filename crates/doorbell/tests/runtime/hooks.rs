//! Hooks: each is called when it should be, and its panic ends nothing.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests play the outside world"
)]

use doorbell::{
    Builder, Class, ClassKind, CoreId, TaskId, ThreadRole, metrics::StallKind, yield_now,
};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How long anything may take before it counts as hung.
const LONG: Duration = Duration::from_secs(60);

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn note(&self, what: &str, core: CoreId) {
        assert_eq!(doorbell::current_core(), Some(core));
        self.0.lock().unwrap().push(format!("{what} {core}"));
    }

    fn entries(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

#[test]
fn workers_start_park_go_on_and_stop() {
    let log = Log::default();
    let [start, stop, park, unpark] = [log.clone(), log.clone(), log.clone(), log.clone()];
    let rt = Builder::new()
        .cores(2)
        .on_worker_start(move |worker| start.note("start", worker.core()))
        .on_worker_stop(move |worker| stop.note("stop", worker.core()))
        .before_park(move |worker| park.note("park", worker.core()))
        .after_unpark(move |worker| unpark.note("unpark", worker.core()))
        .build()
        .unwrap();
    for core in 0..2 {
        rt.call_blocking(core, || {}).unwrap();
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(rt.metrics().hook_panics(), 0);
    drop(rt);
    for core in ["0", "1"] {
        let entries = log.entries();
        let mine: Vec<&str> = entries
            .iter()
            .filter_map(|entry| entry.strip_suffix(core))
            .map(str::trim)
            .collect();
        assert_eq!((mine[0], mine[mine.len() - 1]), ("start", "stop"));
        let parks = &mine[1..mine.len() - 1];
        for pair in parks.chunks(2) {
            assert_eq!(pair, ["park", "unpark"]);
        }
    }
}

#[test]
fn each_task_is_spawned_and_finished_once_however_it_ends() {
    type Seen = Arc<Mutex<Vec<(TaskId, Option<String>)>>>;
    let (spawned, finished) = (Seen::default(), Seen::default());
    let note = |seen: &Seen| {
        let seen = Arc::clone(seen);
        move |task: &doorbell::metrics::TaskInfo<'_>| {
            let name = task.name().map(str::to_owned);
            seen.lock().unwrap().push((task.id(), name));
        }
    };
    let rt = Builder::new()
        .cores(2)
        .on_task_spawn(note(&spawned))
        .on_task_finish(note(&finished))
        .build()
        .unwrap();
    let handle = rt.handle().clone();
    let good = rt.task().name("good").spawn(yield_now());
    let bad = rt
        .task()
        .name("bad")
        .on(1)
        .spawn(async { panic!("on purpose") });
    let long = rt.spawn(std::future::pending::<()>());
    let aborted = rt
        .task()
        .name("aborted")
        .spawn(std::future::pending::<()>());
    aborted.abort();
    rt.call_blocking(0, || {}).unwrap();
    let ids = [good.id(), bad.id(), long.id(), aborted.id()];
    rt.block_on(async {
        good.await.unwrap();
        bad.await.unwrap_err();
        aborted.await.unwrap_err();
    });
    drop(rt);
    let late = handle.task().name("late").spawn(async {});
    assert!(late.is_finished());
    let sorted = |seen: &Seen| {
        let mut seen = seen.lock().unwrap().clone();
        // The hook of the late task, which may have reused the id of one that is gone.
        assert_eq!(seen.pop().unwrap().1.as_deref(), Some("late"));
        seen.sort();
        seen
    };
    let mut expected: Vec<_> = ["good", "bad", "", "aborted"]
        .into_iter()
        .map(|name| (!name.is_empty()).then(|| name.to_owned()))
        .zip(ids)
        .map(|(name, id)| (id, name))
        .collect();
    expected.sort();
    assert_eq!(sorted(&spawned), expected);
    assert_eq!(sorted(&finished), expected);
}

#[test]
fn a_hook_that_panics_ends_nothing_and_is_counted() {
    let rt = Builder::new()
        .cores(1)
        .on_worker_start(|_| panic!("start"))
        .on_worker_stop(|_| panic!("stop"))
        .before_park(|_| panic!("park"))
        .after_unpark(|_| panic!("unpark"))
        .on_task_spawn(|_| panic!("spawn"))
        .on_task_finish(|_| panic!("finish"))
        .build()
        .unwrap();
    for _ in 0..3 {
        assert_eq!(rt.block_on(rt.spawn(async { 7 })).unwrap(), 7);
    }
    // The worker's start, and two for each task.
    assert!(rt.metrics().hook_panics() >= 7);
}

#[test]
fn what_a_hook_spawns_before_a_park_runs() {
    let ran = Arc::new(AtomicU64::new(0));
    let once = AtomicBool::new(true);
    let theirs = Arc::clone(&ran);
    let rt = Builder::new()
        .cores(1)
        .before_park(move |_| {
            if once.swap(false, SeqCst) {
                let theirs = Arc::clone(&theirs);
                drop(doorbell::spawn(async move {
                    theirs.fetch_add(1, SeqCst);
                }));
            }
        })
        .build()
        .unwrap();
    // Nothing is posted: the worker itself must notice it.
    while ran.load(SeqCst) == 0 {
        std::thread::yield_now();
    }
    drop(rt);
    assert_eq!(ran.load(SeqCst), 1);
}

#[test]
fn hooks_of_workers_are_told_the_class() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let notes = |what: &'static str| {
        let seen = Arc::clone(&seen);
        move |worker: &doorbell::metrics::WorkerInfo| {
            let note = (what, worker.class(), worker.core().index());
            seen.lock().unwrap().push(note);
        }
    };
    let rt = Builder::new()
        .cores(2)
        .on_worker_start(notes("start"))
        .on_worker_stop(notes("stop"))
        .build()
        .unwrap();
    let kinds = [ClassKind::Batch, ClassKind::Fair, ClassKind::Rt];
    let task = rt.task().class(Class::BATCH).on(0);
    rt.block_on(task.spawn(async {})).unwrap();
    drop(rt);
    for what in ["start", "stop"] {
        let all = seen.lock().unwrap();
        let all = all.iter().filter(|(it, ..)| *it == what);
        let mut all: Vec<_> = all.map(|(_, class, core)| (*class, *core)).collect();
        all.sort_unstable();
        let each: Vec<_> = kinds
            .into_iter()
            .flat_map(|kind| [(kind, 0), (kind, 1)])
            .collect();
        assert_eq!(all, each, "{what}");
    }
}

#[test]
fn panics_of_hooks_of_all_classes_are_counted() {
    let rt = Builder::new()
        .cores(1)
        .on_worker_start(|worker| assert_ne!(worker.class(), ClassKind::Rt))
        .build()
        .unwrap();
    let task = rt.task().class(Class::rt(1));
    rt.block_on(task.spawn(async {})).unwrap();
    assert_eq!(rt.metrics().hook_panics(), 1);
}

#[test]
fn a_poll_that_does_not_end_is_told_while_it_goes_on() {
    const AFTER: Duration = Duration::from_millis(5);
    let (says, hears) = std::sync::mpsc::channel();
    let rt = Builder::new()
        .cores(1)
        .on_stall(AFTER, move |stall| says.send(*stall).unwrap())
        .build()
        .unwrap();
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let task = rt.task().class(Class::BATCH);
    let (line, task) = (line!(), task.spawn(async move { ended.recv().unwrap() }));
    // It waits for what comes after this.
    let stall = hears.recv().unwrap();
    assert_eq!(
        (stall.kind(), stall.id()),
        (StallKind::Poll, Some(task.id()))
    );
    let place = stall.spawned_at().unwrap();
    assert_eq!((place.file(), place.line()), (file!(), line));
    assert_eq!((stall.class(), stall.left_out()), (Some(Class::BATCH), 0));
    let worker = stall.worker().unwrap();
    let worker = (worker.class(), worker.core().index());
    assert_eq!(worker, (ClassKind::Batch, 0));
    assert!(stall.lasted() >= AFTER);
    // It is reported again after it has lasted twice as long.
    assert!(hears.recv().unwrap().lasted() >= 2 * stall.lasted());
    assert!(stall.to_string().contains(&place.to_string()), "{stall}");
    end.send(()).unwrap();
    rt.block_on(task).unwrap();
    drop(rt);
    assert!(hears.iter().all(|more| more.id() == stall.id()));
}

#[test]
fn s11_a_pool_of_threads_that_waits_for_itself_is_told() {
    let (says, hears) = std::sync::mpsc::channel();
    let rt = Builder::new()
        .cores(1)
        .blocking_threads(4)
        .on_stall(Duration::from_millis(10), move |stall| {
            let _ = says.send(*stall);
        })
        .build()
        .unwrap();
    let barrier = Arc::new(std::sync::Barrier::new(4));
    let (tell, told) = std::sync::mpsc::channel::<()>();
    let told = Arc::new(Mutex::new(told));
    let waits: Vec<_> = (0..4)
        .map(|_| {
            let (barrier, told) = (Arc::clone(&barrier), Arc::clone(&told));
            rt.spawn_blocking(move || {
                barrier.wait();
                let _ = told.lock().unwrap().recv();
            })
        })
        .collect();
    let tells = tell.clone();
    let fifth = rt.spawn_blocking(move || drop(tells));
    let mut all = std::iter::repeat_with(|| hears.recv_timeout(LONG).expect("it is told"));
    let stall = all.find(|stall| stall.kind() == StallKind::Queued).unwrap();
    assert!(stall.lasted() >= Duration::from_millis(500), "{stall}");
    assert_eq!((stall.id(), stall.worker().is_none()), (None, true));
    // The fifth waits on until one of them ends.
    let _ = tell.send(());
    drop(tell);
    rt.block_on(fifth).unwrap();
    for waits in waits {
        rt.block_on(waits).unwrap();
    }
}

/// Spawns a slow task in one of the possible ways, and waits for its end.
type Way = fn(&doorbell::Runtime) -> u32;

#[test]
fn each_way_to_spawn_tells_the_line_that_has_it() {
    async fn stalls() {
        std::thread::sleep(Duration::from_millis(10));
    }
    let ways: [Way; 7] = [
        |rt| rt.block_on(async { (doorbell::spawn(stalls()).await.unwrap(), line!()).1 }),
        |rt| (rt.block_on(rt.spawn(stalls())).unwrap(), line!()).1,
        |rt| {
            let (task, line) = (rt.task().on(0).try_spawn(stalls()), line!());
            rt.block_on(task.unwrap()).unwrap();
            line
        },
        |rt| {
            let (task, line) = (rt.spawn_local_on(0, stalls), line!());
            rt.block_on(task).unwrap();
            line
        },
        |rt| {
            let local = async || {
                let (task, line) = (doorbell::spawn_local(stalls()), line!());
                task.await.unwrap();
                line
            };
            rt.block_on(rt.spawn_local_on(0, local)).unwrap()
        },
        |rt| {
            let mut set = doorbell::JoinSet::new();
            rt.block_on(async {
                let line = (set.spawn(stalls()), line!()).1;
                set.join_next().await.unwrap().unwrap();
                line
            })
        },
        |rt| {
            rt.block_on(doorbell::scope(async |scope| {
                let (child, line) = (scope.spawn(stalls()), line!());
                child.await.unwrap();
                line
            }))
        },
    ];
    let told = Arc::new(Mutex::new(Vec::new()));
    let tells = Arc::clone(&told);
    let rt = Builder::new()
        .cores(1)
        .on_stall(Duration::from_millis(1), move |stall| {
            let place = stall.spawned_at().unwrap();
            tells.lock().unwrap().push((place.file(), place.line()));
        })
        .build()
        .unwrap();
    let mut lines = Vec::new();
    for way in ways {
        // On a busy machine the reporting thread may get no CPU in time.
        let line = std::iter::repeat_with(|| way(&rt));
        let is_told = |line: &u32| told.lock().unwrap().contains(&(file!(), *line));
        lines.push(line.into_iter().find(is_told).unwrap());
    }
    drop(rt);
    let told = told.lock().unwrap();
    assert!(
        told.iter().all(|(_, line)| lines.contains(line)),
        "{told:?}"
    );
}

#[test]
fn two_runtimes_whose_hooks_of_stalls_end_each_other_end() {
    let slots = [(); 2].map(|()| Arc::new(Mutex::new(None::<doorbell::Runtime>)));
    let (says, hears) = std::sync::mpsc::channel();
    let mut others = [1, 0].map(|other| Arc::clone(&slots[other])).into_iter();
    let handles = slots.each_ref().map(|slot| {
        let (other, says) = (others.next().unwrap(), says.clone());
        let is_told = Arc::new(AtomicBool::new(false));
        let tells = Arc::clone(&is_told);
        let rt = Builder::new()
            .cores(1)
            .on_stall(Duration::from_millis(1), move |_| {
                tells.store(true, SeqCst);
                // Both are inside their hooks.
                std::thread::sleep(Duration::from_millis(20));
                let Some(rt) = other.lock().unwrap().take() else {
                    return;
                };
                says.send(rt.shutdown_timeout(LONG).is_ok()).unwrap();
            })
            .build()
            .unwrap();
        let handle = rt.handle().clone();
        *slot.lock().unwrap() = Some(rt);
        (handle, is_told)
    });
    for (handle, is_told) in handles {
        // On a busy machine the reporting thread may get no CPU for a while. It is told nothing once its runtime has ended.
        drop(handle.spawn(async move {
            for _ in 0..1_000 {
                if is_told.load(SeqCst) {
                    return;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }));
    }
    for _ in 0..2 {
        assert!(
            hears.recv_timeout(LONG / 2).unwrap(),
            "one waits for the other"
        );
    }
}

#[test]
fn a_hook_of_stalls_may_panic_and_end_the_runtime() {
    let kept = Arc::new(Mutex::new(None::<doorbell::Runtime>));
    let ends = Arc::clone(&kept);
    let (says, hears) = std::sync::mpsc::channel();
    let rt = Builder::new()
        .cores(1)
        .on_stall(Duration::from_millis(1), move |_| {
            let rt = ends.lock().unwrap().take();
            // At first it is not there.
            if let Some(rt) = rt {
                drop(rt);
                says.send(()).unwrap();
            }
            panic!("of a hook");
        })
        .build()
        .unwrap();
    let handle = rt.handle().clone();
    let stalls = || std::thread::sleep(Duration::from_millis(10));
    while handle.metrics().hook_panics() == 0 {
        rt.block_on(rt.spawn(async move { stalls() })).unwrap();
    }
    let goes_on = async move {
        loop {
            stalls();
            yield_now().await;
        }
    };
    let task = rt.spawn(goes_on);
    *kept.lock().unwrap() = Some(rt);
    hears.recv().unwrap();
    assert!(task.is_finished());
}

#[test]
fn all_hooks_of_a_kind_are_called_in_their_order() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let note = |what: &'static str| {
        let log = Arc::clone(&log);
        move || log.lock().unwrap().push(what)
    };
    let mut builder = Builder::new().cores(1);
    for [start, stop, spawn, before, after, finish] in [
        [
            "start 1", "stop 1", "spawn 1", "before 1", "after 1", "finish 1",
        ],
        [
            "start 2", "stop 2", "spawn 2", "before 2", "after 2", "finish 2",
        ],
    ] {
        let [start, stop] = [note(start), note(stop)];
        let [spawn, before, after, finish] = [note(spawn), note(before), note(after), note(finish)];
        builder = builder
            .on_worker_start(move |_| start())
            .on_worker_stop(move |_| stop())
            .on_task_spawn(move |_| spawn())
            .on_before_task_poll(move |_| before())
            // A panic of one keeps no other from being called.
            .on_before_task_poll(|_| panic!("on purpose"))
            .on_after_task_poll(move |_| after())
            .on_task_finish(move |_| finish());
    }
    let rt = builder.build().unwrap();
    rt.block_on(rt.spawn(async {})).unwrap();
    assert_eq!(rt.metrics().hook_panics(), 2);
    drop(rt);
    let mut entries = log.lock().unwrap().clone();
    // The test spawns beside the worker's start.
    entries.sort_by_key(|entry| !entry.starts_with("start"));
    let pairs = ["start", "spawn", "before", "after", "finish", "stop"];
    let expected: Vec<String> = pairs
        .into_iter()
        .flat_map(|what| [format!("{what} 1"), format!("{what} 2")])
        .collect();
    assert_eq!(entries, expected);
}

#[test]
fn each_hook_for_stalls_hears_of_polls_that_are_long_enough_for_it() {
    let (says, hears) = std::sync::mpsc::channel();
    let short = says.clone();
    let rt = Builder::new()
        .cores(1)
        .on_stall(Duration::from_millis(2), move |_| {
            let _ = short.send("short");
        })
        .on_stall(LONG, move |_| says.send("long").unwrap())
        .build()
        .unwrap();
    let (ends, ended) = std::sync::mpsc::channel::<()>();
    let task = rt.spawn(async move { ended.recv() });
    assert_eq!(hears.recv_timeout(LONG).unwrap(), "short");
    drop(ends);
    rt.block_on(task).unwrap().unwrap_err();
    assert!(hears.try_iter().all(|heard| heard == "short"));
}

/// Sends what it finds when it is dropped.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

std::thread_local! {
    /// The hooks around what this thread does, the outermost first.
    static AROUND: std::cell::RefCell<Vec<&'static str>> = const { std::cell::RefCell::new(Vec::new()) };
}

fn around() -> Vec<&'static str> {
    AROUND.with_borrow(Vec::clone)
}

/// Enters `name` around all that threads do.
fn entering(builder: Builder, name: &'static str) -> Builder {
    builder.around_threads(move |_| {
        Ok(move |_: &ThreadRole, work: &mut dyn FnMut()| {
            AROUND.with_borrow_mut(|around| around.push(name));
            work();
            assert_eq!(AROUND.with_borrow_mut(Vec::pop), Some(name));
        })
    })
}

#[test]
fn hooks_are_around_all_that_threads_do_for_a_runtime() {
    let both = vec!["outer", "inner"];
    let builder = Builder::new().cores(1).blocking_threads(1);
    let builder = entering(entering(builder, "outer"), "inner");
    let rt = builder.clone().build().unwrap();
    for class in [Class::FAIR, Class::rt(1), Class::BATCH] {
        let task = rt.task().class(class).spawn(async { around() });
        assert_eq!(rt.block_on(task).unwrap(), both);
    }
    assert_eq!(rt.block_on(rt.spawn_blocking(around)).unwrap(), both);
    assert_eq!(rt.block_on(async { around() }), both);
    assert_eq!(around(), [""; 0]);
    // A panic of the future does not pass through the hooks, and reaches the caller.
    let caught = std::panic::catch_unwind(|| rt.block_on(async { panic!("on purpose") }));
    assert_eq!(caught.unwrap_err().downcast_ref(), Some(&"on purpose"));
    assert_eq!((around(), rt.metrics().hook_panics()), (vec![], 0));
    // The drop of a task that its worker, inside of a poll, cannot drop.
    let (says, hears) = std::sync::mpsc::channel();
    let seen = OnDrop(move || says.send(around()).unwrap());
    let (ends, ended) = std::sync::mpsc::channel::<()>();
    drop(rt.spawn(async move { ended.recv() }));
    drop(rt.spawn(async move {
        let _seen = (seen, ends);
        std::future::pending::<()>().await;
    }));
    drop(rt);
    assert_eq!(hears.recv_timeout(LONG).unwrap(), both);
}

#[test]
fn work_is_done_whatever_the_hooks_around_it_do() {
    let forgets = |_: &doorbell::Handle| Ok(|_: &ThreadRole, _: &mut dyn FnMut()| {});
    let panics =
        |_: &doorbell::Handle| Ok(|_: &ThreadRole, _: &mut dyn FnMut()| panic!("on purpose"));
    let twice = |_: &doorbell::Handle| {
        Ok(|_: &ThreadRole, work: &mut dyn FnMut()| {
            work();
            work();
            panic!("on purpose");
        })
    };
    let rt = Builder::new()
        .cores(1)
        .around_threads(forgets)
        .around_threads(panics)
        .around_threads(twice)
        .build()
        .unwrap();
    assert_eq!(rt.block_on(rt.spawn(async { 7 })).unwrap(), 7);
    assert_eq!(rt.block_on(rt.spawn_blocking(|| 8)).unwrap(), 8);
    // Two of the `block_on`s that are over; those of threads are still inside.
    assert!(rt.metrics().hook_panics() >= 4);
}

#[test]
fn what_a_hook_around_threads_owns_is_dropped_after_the_runtime_and_its_error_is_that_of_the_build()
{
    let is_dropped = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&is_dropped);
    let builder = Builder::new().cores(1).around_threads(move |runtime| {
        let flag = Arc::clone(&flag);
        let owned = OnDrop(move || flag.store(true, SeqCst));
        let weak = runtime.downgrade();
        Ok(move |_: &ThreadRole, work: &mut dyn FnMut()| {
            let _both = (&owned, &weak);
            work();
        })
    });
    let rt = builder.clone().build().unwrap();
    // A handle that is kept does not keep it.
    let weak = rt.handle().downgrade();
    let handle = rt.handle().clone();
    let (says, hears) = std::sync::mpsc::channel();
    let flag = Arc::clone(&is_dropped);
    let looks = OnDrop(move || says.send(flag.load(SeqCst)).unwrap());
    drop(rt.spawn(async move {
        let _looks = looks;
        std::future::pending::<()>().await;
    }));
    drop(rt);
    assert!(!hears.recv().unwrap(), "it outlives the tasks");
    assert!(is_dropped.load(SeqCst));
    assert!(weak.upgrade().is_some());
    drop(handle);
    assert!(weak.upgrade().is_none());

    is_dropped.store(false, SeqCst);
    let failing = builder.around_threads(|_| {
        if true {
            return Err("no luck".into());
        }
        Ok(|_: &ThreadRole, work: &mut dyn FnMut()| work())
    });
    let error = failing.build().unwrap_err();
    assert!(error.to_string().contains("no luck"), "{error}");
    assert!(is_dropped.load(SeqCst));
}
