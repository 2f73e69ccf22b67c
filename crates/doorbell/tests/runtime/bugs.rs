//! Bugs of other projects, tested at the public surface. `docs/bugs.md` lists all of them.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests play the outside world"
)]

use doorbell::{Builder, Runtime, error::BlockOnError, metrics::WorkerState, yield_now};
use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

/// Workers that park at once.
fn runtime(cores: usize) -> Runtime {
    let builder = Builder::new().cores(cores).spin(Duration::ZERO);
    builder.build().unwrap()
}

fn wait_until_parked(rt: &Runtime) {
    while !(0..rt.cores()).all(|core| rt.worker_state(core) == Some(WorkerState::Parked)) {
        std::thread::yield_now();
    }
}

fn rings(rt: &Runtime) -> Vec<u64> {
    let workers = rt.metrics().workers;
    workers.iter().map(|worker| worker.counts.rings).collect()
}

#[test]
fn s9_a_task_that_stays_rings_its_own_worker_only() {
    const WAKES: u64 = 200;
    let rt = runtime(3);
    let (polls, kept) = (Arc::new(AtomicU64::new(0)), Arc::new(Mutex::new(None)));
    let (count, slot) = (Arc::clone(&polls), Arc::clone(&kept));
    let task = rt.task().on(1).spawn(poll_fn(move |cx| {
        *slot.lock().unwrap() = Some(cx.waker().clone());
        if count.fetch_add(1, SeqCst) == WAKES {
            return Poll::Ready(());
        }
        Poll::Pending
    }));
    while polls.load(SeqCst) == 0 {
        std::thread::yield_now();
    }
    wait_until_parked(&rt);
    let before = rings(&rt);
    for wake in 1..=WAKES {
        let waker: Waker = kept.lock().unwrap().clone().unwrap();
        waker.wake();
        while polls.load(SeqCst) <= wake {
            std::thread::yield_now();
        }
        wait_until_parked(&rt);
    }
    rt.block_on(task).unwrap();
    let after = rings(&rt);
    assert_eq!([after[0], after[2]], [before[0], before[2]]);
    let own = after[1] - before[1];
    // A worker on its way to sleep may look once more before it sleeps.
    assert!((WAKES / 2..=WAKES).contains(&own), "{own} of {WAKES}");
}

#[test]
fn s7_a_task_that_wakes_itself_is_not_rung() {
    const TURNS: u64 = 10_000;
    let rt = runtime(1);
    wait_until_parked(&rt);
    let before = rt.metrics().workers[0].raw();
    let task = rt.spawn(async {
        for _ in 0..TURNS {
            yield_now().await;
        }
    });
    rt.block_on(task).unwrap();
    let done = rt.metrics().workers[0].raw().since(&before);
    assert!((1..=2).contains(&done.rings), "the spawn's: {done:?}");
    assert!((TURNS..TURNS + 10).contains(&done.polls), "{done:?}");
}

#[test]
fn d15_a_wake_under_a_lock_that_the_woken_task_takes() {
    let rt = runtime(2);
    let shared = Arc::new(Mutex::new((None::<Waker>, false)));
    let inside = Arc::clone(&shared);
    let task = rt.spawn(poll_fn(move |cx| {
        let mut state = inside.lock().unwrap();
        state.0 = Some(cx.waker().clone());
        if state.1 {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }));
    // From outside, from a task and from a call; by value and by reference.
    while shared.lock().unwrap().0.is_none() {
        std::thread::yield_now();
    }
    let wake = |end: bool| {
        let shared = Arc::clone(&shared);
        move || {
            let mut state = shared.lock().unwrap();
            state.1 = end;
            state.0.as_ref().unwrap().wake_by_ref();
            state.0.clone().unwrap().wake();
        }
    };
    wake(false)();
    rt.call_blocking(0, wake(false)).unwrap();
    let last = wake(true);
    rt.block_on(rt.spawn(async move { last() })).unwrap();
    rt.block_on(task).unwrap();
}

#[test]
fn d6_block_on_inside_a_runtime_is_refused_or_ends_but_does_not_hang() {
    let rt = runtime(1);
    let handle = rt.handle().clone();
    let on_a_worker = rt.spawn(async move { handle.try_block_on(async {}) });
    let refused = rt.block_on(on_a_worker).unwrap();
    assert!(
        matches!(refused, Err(BlockOnError::InsideWorker)),
        "{refused:?}"
    );
    // A thread that may block waits for a task, and the runtime ends meanwhile.
    let handle = rt.handle().clone();
    let (started, starts) = std::sync::mpsc::channel();
    let blocked = rt.spawn_blocking(move || {
        let task = handle.spawn(std::future::pending::<()>());
        started.send(()).unwrap();
        handle.try_block_on(task).unwrap().unwrap_err()
    });
    starts.recv().unwrap();
    drop(rt);
    let error = runtime(1).block_on(blocked).unwrap();
    assert!(error.is_cancelled(), "{error}");
}

#[test]
fn t15_a_task_that_wakes_itself_for_ever_does_not_keep_timers_from_firing() {
    let rt = runtime(1);
    let busy = rt.spawn(async {
        loop {
            yield_now().await;
        }
    });
    let slept = rt.spawn(async {
        for _ in 0..20 {
            doorbell::time::sleep(Duration::from_micros(100)).await;
        }
    });
    rt.block_on(slept).unwrap();
    busy.abort();
    assert!(rt.block_on(busy).unwrap_err().is_cancelled());
}

/// A task spawns one child while every other worker sleeps, and blocks its worker until the child has run.
#[test]
fn s2_the_only_task_behind_a_blocked_one_runs_elsewhere() {
    let rt = runtime(2);
    for _ in 0..20 {
        wait_until_parked(&rt);
        let parent = rt.spawn(async {
            let (ran, has_run) = std::sync::mpsc::channel();
            let child = doorbell::spawn(async move { ran.send(()).unwrap() });
            has_run.recv().unwrap();
            child.await.unwrap();
        });
        rt.block_on(parent).unwrap();
    }
}

/// The same pushes without blocking: they wake workers at most a hundred times a second.
#[test]
fn s2_and_tasks_that_are_run_next_wake_hardly_anybody() {
    const CHILDREN: u64 = 2_000;
    let rt = runtime(2);
    wait_until_parked(&rt);
    let before = rt.metrics();
    let began = std::time::Instant::now();
    rt.block_on(rt.spawn(async {
        for _ in 0..CHILDREN {
            doorbell::spawn(async {}).await.unwrap();
        }
    }))
    .unwrap();
    let sum = |metrics: &doorbell::metrics::Metrics,
               of: fn(&doorbell::metrics::raw::WorkerCounts) -> u64| {
        metrics
            .workers
            .iter()
            .map(|worker| of(&worker.raw()))
            .sum::<u64>()
    };
    let after = rt.metrics();
    let rings = sum(&after, |counts| counts.rings) - sum(&before, |counts| counts.rings);
    let polls = sum(&after, |counts| counts.polls) - sum(&before, |counts| counts.polls);
    // Each child once, and its parent for most of them: not for a child that the other worker ran before it
    // was awaited. A worker's counts lag behind what it is doing.
    assert!(
        (CHILDREN..=2 * CHILDREN + 10).contains(&polls),
        "{polls} polls"
    );
    // One wake for the parent, one for each look that another worker takes after the pushes, and further
    // wakes that each of those causes. A worker whose CPU the OS takes away looks stuck and is helped.
    let looks = began.elapsed().as_millis() as u64 / 10 + 1;
    let most = 4 * looks + CHILDREN / 10;
    assert!((1..=most).contains(&rings), "{rings} rings");
}

/// Tasks hop between cores that go off and come back, and are woken from outside all the while.
#[test]
fn w24_a_task_is_woken_while_it_moves() {
    const WAKES: u64 = 3_000;
    /// The number requested, and the waker of the task.
    type Told = (AtomicU64, Mutex<Option<Waker>>);
    let rt = runtime(3);
    let mut wakers = Vec::new();
    let mut tasks = Vec::new();
    for _ in 0..4 {
        let told: Arc<Told> = Arc::default();
        let seen = Arc::clone(&told);
        tasks.push(rt.spawn(poll_fn(move |cx| {
            *seen.1.lock().unwrap() = Some(cx.waker().clone());
            if seen.0.load(SeqCst) == WAKES {
                return Poll::Ready(());
            }
            Poll::Pending
        })));
        wakers.push(std::thread::spawn(move || {
            for _ in 0..WAKES {
                told.0.fetch_add(1, SeqCst);
                let waker = told.1.lock().unwrap().clone();
                if let Some(waker) = waker {
                    waker.wake();
                }
            }
        }));
    }
    let mut turns = 0;
    while !tasks.iter().all(doorbell::JoinHandle::is_finished) {
        let core = turns % 3;
        rt.block_on(rt.core_offline(core)).unwrap();
        rt.block_on(rt.core_online(core)).unwrap();
        turns += 1;
        if wakers.iter().all(std::thread::JoinHandle::is_finished) {
            // A task that was not notified by now never will be, and the join hangs.
            break;
        }
    }
    for task in tasks {
        rt.block_on(task).unwrap();
    }
    for waker in wakers {
        waker.join().unwrap();
    }
}

/// As many tasks are woken at once as there are idle cores. Each keeps its core until all run.
#[test]
fn b21_as_many_wakers_as_idle_cores_get_one_each() {
    const CORES: usize = 4;
    const ROUNDS: usize = 50;
    let rt = runtime(CORES);
    let all_run = Arc::new(std::sync::Barrier::new(CORES));
    let mut tells = Vec::new();
    let mut tasks = Vec::new();
    for _ in 0..CORES {
        let (tell, mut told) = tokio::sync::mpsc::unbounded_channel::<()>();
        let all_run = Arc::clone(&all_run);
        tells.push(tell);
        tasks.push(rt.spawn(async move {
            let mut rounds = 0;
            while told.recv().await.is_some() {
                all_run.wait();
                rounds += 1;
            }
            rounds
        }));
    }
    for _ in 0..ROUNDS {
        wait_until_parked(&rt);
        let at_once = std::sync::Barrier::new(CORES);
        std::thread::scope(|scope| {
            for tell in &tells {
                scope.spawn(|| {
                    at_once.wait();
                    tell.send(()).unwrap();
                });
            }
        });
    }
    drop(tells);
    for task in tasks {
        assert_eq!(rt.block_on(task).unwrap(), ROUNDS);
    }
}

/// How often the calling thread has blocked in the OS.
fn waits_of_this_thread() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let count = status
        .lines()
        .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    count.unwrap().trim().parse().unwrap()
}

/// In a runtime that has never slept, the worker blocks only for its own parks: the first sleep sets up
/// nothing that blocks. (The minimum over many runtimes counts, since a page fault may block a thread too.)
#[test]
fn t16_the_first_sleep_waits_for_nothing_but_its_time() {
    let waits_beside_parks = || {
        let rt = runtime(1);
        let task = rt.spawn(async {
            let parks = || doorbell::Handle::current().metrics().workers[0].raw().parks;
            let before = (waits_of_this_thread(), parks());
            doorbell::time::sleep(Duration::from_micros(300)).await;
            let waits = waits_of_this_thread() - before.0;
            (waits, parks() - before.1)
        });
        rt.block_on(task).unwrap()
    };
    let all: Vec<_> = (0..20).map(|_| waits_beside_parks()).collect();
    let least = all
        .iter()
        .map(|(waits, parks)| waits.saturating_sub(*parks));
    assert_eq!(least.min(), Some(0), "{all:?}");
    assert!(all.iter().any(|(_, parks)| *parks > 0), "{all:?}");
}
