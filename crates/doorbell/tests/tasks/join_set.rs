//! Sets of tasks: each task is returned once, none is left behind, and the cost per task does not grow with
//! their number.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests play the outside world"
)]

use crate::hostile;
use crate::shuffled::Builder;
use doorbell::{CoreId, JoinSet, Runtime, current_core, yield_now};
use std::future::{pending, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// How long anything may take before it counts as hung.
const LONG: Duration = Duration::from_secs(60);

fn runtime() -> Runtime {
    Builder::new().cores(2).build().unwrap()
}

struct CountsDrops(Arc<AtomicUsize>);

impl Drop for CountsDrops {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// A set of tasks that wait forever and count their drops.
fn waiting(drops: &Arc<AtomicUsize>, count: usize) -> JoinSet<()> {
    let mut set = JoinSet::new();
    for _ in 0..count {
        let guard = CountsDrops(Arc::clone(drops));
        set.spawn(async move {
            let _guard = guard;
            pending::<()>().await;
        });
    }
    set
}

#[test]
fn each_end_is_given_out_once_panics_too() {
    runtime().block_on(async {
        let mut set = JoinSet::new();
        assert!(set.is_empty() && set.join_next().await.is_none());
        for i in 0..100_u32 {
            set.spawn(async move {
                if i % 3 == 0 {
                    yield_now().await;
                }
                assert!(i != 50, "on purpose");
                i
            });
        }
        set.spawn_on(1, async {
            assert_eq!(current_core(), Some(CoreId::new(1)));
            1_000
        });
        assert_eq!(set.len(), 101);
        let (mut outputs, mut panics) = (Vec::new(), 0);
        while let Some(end) = set.join_next().await {
            match end {
                Ok(output) => outputs.push(output),
                Err(error) => panics += u32::from(error.is_panic()),
            }
        }
        outputs.sort_unstable();
        let expected: Vec<u32> = (0..100).filter(|i| *i != 50).chain([1_000]).collect();
        assert_eq!((outputs, panics), (expected, 1));
        assert!(set.try_join_next().is_none());
    });
}

#[test]
fn try_join_next_gives_what_has_ended_without_waiting() {
    runtime().block_on(async {
        let mut set = waiting(&Arc::default(), 3);
        assert!(set.try_join_next().is_none());
        let done = doorbell::spawn(async {});
        while !done.is_finished() {
            yield_now().await;
        }
        set.insert(done);
        assert!(set.try_join_next().unwrap().is_ok());
        assert!(set.try_join_next().is_none());
        assert_eq!(set.len(), 3);
    });
}

#[test]
fn abort_all_shutdown_and_drop_end_every_task() {
    let rt = runtime();
    let drops = Arc::new(AtomicUsize::new(0));
    rt.block_on(async {
        let mut set = waiting(&drops, 10);
        set.abort_all();
        for _ in 0..10 {
            assert!(set.join_next().await.unwrap().unwrap_err().is_cancelled());
        }
        assert_eq!(drops.load(SeqCst), 10);

        let mut set = waiting(&drops, 10);
        set.shutdown().await;
        assert!(set.is_empty());
        assert_eq!(drops.load(SeqCst), 20);

        drop(waiting(&drops, 10));
        while drops.load(SeqCst) < 30 {
            yield_now().await;
        }
    });
    assert_eq!(drops.load(SeqCst), 30);
}

#[test]
fn detached_tasks_run_on() {
    let ran = Arc::new(AtomicUsize::new(0));
    runtime().block_on(async {
        let (go, wait) = tokio::sync::watch::channel(());
        let mut set = JoinSet::new();
        for _ in 0..10 {
            let (ran, mut wait) = (Arc::clone(&ran), wait.clone());
            set.spawn(async move {
                wait.changed().await.unwrap();
                ran.fetch_add(1, SeqCst);
            });
        }
        set.detach_all();
        drop(set);
        go.send(()).unwrap();
        while ran.load(SeqCst) < 10 {
            yield_now().await;
        }
    });
}

#[test]
fn what_waits_is_not_lost_when_join_next_is_dropped() {
    runtime().block_on(async {
        let mut set = JoinSet::new();
        let (go, wait) = tokio::sync::oneshot::channel::<u32>();
        set.spawn(async move { wait.await.unwrap() });
        {
            let mut next = pin!(set.join_next());
            assert!(futures::poll!(&mut next).is_pending());
        }
        go.send(7).unwrap();
        assert_eq!(set.join_next().await.unwrap().unwrap(), 7);
    });
}

#[test]
fn a_waker_that_panics_where_it_is_dropped_does_not_keep_a_set_from_waking_the_next() {
    let rt = runtime();
    let (go, wait) = tokio::sync::oneshot::channel::<u32>();
    let mut set = JoinSet::new();
    set.insert(rt.spawn(async move { wait.await.unwrap() }));
    // A set wakes the poller of its newest task. That happens here.
    assert!(set.try_join_next().is_none());
    let counts = Arc::default();
    let polled = hostile::poll(&counts, |cx| set.poll_join_next(cx));
    assert!(polled.is_pending() && counts.dropped() == 0);
    let mut go = Some(go);
    let ended = rt.block_on(poll_fn(|cx| {
        let polled = set.poll_join_next(cx);
        // After the first poll: only the set's wake causes the second one.
        if let Some(go) = go.take() {
            go.send(7).unwrap();
        }
        polled
    }));
    assert_eq!(ended.unwrap().unwrap(), 7);
    assert_eq!((counts.woken(), counts.dropped()), (0, 1));
}

/// The future's poll panics and drops its set there. A second panic would end the process.
#[test]
fn a_waker_that_panics_where_it_is_woken_and_dropped_ends_no_future_that_has_a_set() {
    let rt = runtime();
    let task = rt.spawn(pending::<()>());
    let mut waits = Box::pin(async move {
        let mut set = JoinSet::new();
        set.insert(task);
        set.join_next().await
    });
    let counts = Arc::default();
    assert!(hostile::poll(&counts, |cx| waits.as_mut().poll(cx)).is_pending());
    assert_eq!((counts.woken(), counts.dropped()), (1, 0));
    drop(waits);
    // A worker ends the task meanwhile. It may wake the waker before either of the two drops it.
    let start = Instant::now();
    while counts.dropped() == 0 {
        assert!(start.elapsed() < LONG, "the waker is kept");
        std::thread::yield_now();
    }
    assert_eq!(counts.dropped(), 1);
    assert!((1..=2).contains(&counts.woken()), "{}", counts.woken());
}

/// One task awaits a hundred thousand tasks that all wait for one thing: the polls grow in proportion to
/// the tasks.
#[test]
fn s10_waking_a_hundred_thousand_is_linear() {
    const TASKS: u64 = if cfg!(doorbell_tsan) { 2_000 } else { 100_000 };
    let rt = runtime();
    let polls = |rt: &Runtime| -> u64 { rt.metrics().workers.iter().map(|l| l.counts.polls).sum() };
    let before = polls(&rt);
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let joiner_polls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&joiner_polls);
    let joiner = rt.spawn(async move {
        let mut set = JoinSet::new();
        let waiting = Arc::new(AtomicUsize::new(0));
        for _ in 0..TASKS {
            let (gate, waiting) = (Arc::clone(&gate), Arc::clone(&waiting));
            set.spawn(async move {
                waiting.fetch_add(1, SeqCst);
                gate.acquire().await.is_err()
            });
        }
        while waiting.load(SeqCst) < TASKS as usize {
            doorbell::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        gate.close();
        let mut ended = 0;
        let mut next = |cx: &mut std::task::Context<'_>| {
            counted.fetch_add(1, SeqCst);
            set.poll_join_next(cx)
        };
        while let Some(end) = std::future::poll_fn(&mut next).await {
            ended += u64::from(end.unwrap());
        }
        ended
    });
    assert_eq!(rt.block_on(joiner).unwrap(), TASKS);
    let joins = joiner_polls.load(SeqCst) as u64;
    assert!((TASKS..=3 * TASKS + 1_000).contains(&joins), "{joins}");
    let all = polls(&rt) - before;
    assert!((2 * TASKS..=4 * TASKS + 10_000).contains(&all), "{all}");
}

#[test]
fn blocking_closures_of_a_set_panic_and_are_withdrawn_as_tasks_do() {
    let rt = Builder::new().cores(1).blocking_threads(1).build().unwrap();
    rt.block_on(async {
        let mut set = JoinSet::new();
        let (go, gate) = std::sync::mpsc::channel::<()>();
        let runs = set.spawn_blocking(move || {
            let _ = gate.recv();
        });
        let panics = set.spawn_blocking(|| panic!("on purpose"));
        let ran = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&ran);
        let waits = set.spawn_blocking(move || {
            counted.fetch_add(1, SeqCst);
        });
        assert_eq!(set.len(), 3);
        assert!(set.abort(waits.id()));
        let (id, result) = set.join_next_with_id().await.unwrap();
        assert!(id == waits.id() && result.unwrap_err().is_cancelled());
        assert!(!set.abort(waits.id()), "it has left the set");
        drop(go);
        // Both may have ended before the set looks.
        let mut ended = Vec::new();
        while let Some((id, result)) = set.join_next_with_id().await {
            ended.push((id == runs.id(), result.is_ok()));
            assert!(id == runs.id() || (id == panics.id() && result.unwrap_err().is_panic()));
        }
        ended.sort_unstable();
        assert_eq!(ended, [(false, false), (true, true)]);
        assert_eq!(ran.load(SeqCst), 0);
    });
}

#[test]
fn a_panic_in_a_set_ends_join_all_and_the_others() {
    let rt = Builder::new().cores(1).build().unwrap();
    let dropped = Arc::new(());
    let held = Arc::clone(&dropped);
    let joins = rt.spawn(async move {
        let mut set = JoinSet::new();
        set.spawn(async move {
            std::future::pending::<()>().await;
            drop(held);
        });
        set.spawn(async { panic!("on purpose") });
        set.join_all().await
    });
    let error = rt.block_on(joins).unwrap_err();
    assert!(error.to_string().contains("on purpose"), "{error}");
    let error = std::io::Error::from(error);
    assert!(error.to_string().contains("on purpose"), "{error}");
    rt.block_on(async {
        while Arc::strong_count(&dropped) > 1 {
            doorbell::yield_now().await;
        }
    });
}
