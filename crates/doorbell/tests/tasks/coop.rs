//! A task for which something is always ready gives way to the others.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests play the outside world"
)]

mod places;
mod primitives;

use crate::shuffled::Builder;
use doorbell::Runtime;
use doorbell::coop::{consume_budget, cooperative, has_budget_remaining, unconstrained};
use doorbell::sync::Mutex;
use doorbell::time::{interval, sleep, timeout};
use primitives::{Step, finished, primitives};
use std::future::{pending, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{self, Receiver};
use std::task::Poll;
use std::time::{Duration, Instant};

/// A task that had to wait this long for its turn has starved.
const STARVED: Duration = Duration::from_secs(10);

/// Operations that one poll may complete, and operations in these tests.
const PER_POLL: usize = 128;
const OPERATIONS: usize = 1_000;

#[test]
fn s3_a_channel_that_is_never_empty_does_not_starve_the_others() {
    let rt = Builder::new().cores(1).build().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let received = Arc::new(AtomicUsize::new(0));
    let (to, mut from) = tokio::sync::mpsc::unbounded_channel();
    to.send(()).unwrap();
    let (seen, count) = (Arc::clone(&stop), Arc::clone(&received));
    let reader = rt.spawn(async move {
        while !seen.load(SeqCst) {
            cooperative(pin!(from.recv())).await.unwrap();
            count.fetch_add(1, SeqCst);
            to.send(()).unwrap();
        }
    });
    while received.load(SeqCst) == 0 {
        std::thread::yield_now();
    }
    // Both get their turn although the reader never waits.
    rt.block_on(rt.spawn(async {})).unwrap();
    rt.block_on(rt.call_on(0, || ())).unwrap();
    stop.store(true, SeqCst);
    rt.block_on(reader).unwrap();
}

/// Repeats a step until it is told to stop.
async fn without_end(mut step: Step, stop: Arc<AtomicBool>) {
    while !stop.load(SeqCst) {
        step().await;
    }
}

/// A task that does that, and signals when it has ended.
fn loop_on(
    rt: &Runtime,
    index: usize,
    stop: &Arc<AtomicBool>,
    limit: Option<Duration>,
) -> (doorbell::JoinHandle<bool>, Receiver<()>) {
    let (began, begun) = mpsc::channel();
    let stop = Arc::clone(stop);
    let task = rt.spawn_local_on(0, move || async move {
        let (_, step) = primitives().swap_remove(index);
        began.send(()).unwrap();
        let run = without_end(step, stop);
        if let Some(limit) = limit {
            return timeout(limit, run).await.is_err();
        }
        run.await;
        false
    });
    (task, begun)
}

/// Runs `check` for each primitive on a single-core runtime, and names those that failed. `check` gets a
/// flag that ends endless loops, since the runtime waits for its tasks.
fn for_each_primitive(check: impl Fn(Runtime, usize, &Arc<AtomicBool>) -> bool) {
    let mut failed = Vec::new();
    for (index, (name, _)) in primitives().into_iter().enumerate() {
        let rt = Builder::new().cores(1).build().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        if !check(rt, index, &stop) {
            failed.push(name);
        }
    }
    assert!(failed.is_empty(), "{failed:?}");
}

/// Whether the condition becomes true in time.
fn comes(in_time: Duration, condition: impl Fn() -> bool) -> bool {
    let begin = Instant::now();
    while !condition() {
        if begin.elapsed() > in_time {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

#[test]
fn a_loop_over_any_primitive_lets_the_timers_of_others_tick() {
    for_each_primitive(|rt, index, stop| {
        let ticks = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&ticks);
        rt.spawn(async move {
            let mut every = interval(Duration::from_millis(5));
            loop {
                every.tick().await;
                seen.fetch_add(1, SeqCst);
            }
        });
        let (_task, begun) = loop_on(&rt, index, stop, None);
        begun.recv_timeout(STARVED).unwrap();
        let before = ticks.load(SeqCst);
        let ticked = comes(STARVED, || ticks.load(SeqCst) >= before + 5);
        stop.store(true, SeqCst);
        ticked
    });
}

#[test]
fn a_timeout_around_a_loop_over_any_primitive_ends() {
    for_each_primitive(|rt, index, stop| {
        let limit = Duration::from_millis(50);
        let begin = Instant::now();
        let (task, _begun) = loop_on(&rt, index, stop, Some(limit));
        let ended = comes(STARVED, || task.is_finished());
        stop.store(true, SeqCst);
        ended && begin.elapsed() >= limit && rt.block_on(task).unwrap()
    });
}

#[test]
fn a_loop_over_any_primitive_is_aborted_and_ends_with_its_runtime() {
    for_each_primitive(|rt, index, stop| {
        let (task, begun) = loop_on(&rt, index, stop, None);
        begun.recv_timeout(STARVED).unwrap();
        task.abort();
        let aborted = comes(STARVED, || task.is_finished());
        let aborted = aborted && rt.block_on(task).unwrap_err().is_cancelled();
        let (_task, begun) = loop_on(&rt, index, stop, None);
        let (gone, is_gone) = mpsc::channel();
        let ends = std::thread::spawn(move || {
            let _ = begun.recv_timeout(STARVED);
            drop(rt);
            gone.send(()).unwrap();
        });
        let ended = is_gone.recv_timeout(2 * STARVED).is_ok();
        stop.store(true, SeqCst);
        ends.join().unwrap();
        aborted && ended
    });
}

/// How many polls `work` takes. The first one has a full budget.
async fn polls(work: impl Future<Output = ()>) -> usize {
    doorbell::yield_now().await;
    let mut work = pin!(work);
    let mut polls = 0;
    poll_fn(|cx| {
        polls += 1;
        work.as_mut().poll(cx)
    })
    .await;
    polls
}

#[test]
fn a_poll_completes_so_many_of_any_primitive_and_no_more() {
    let rt = Builder::new().cores(1).build().unwrap();
    let counted = rt.spawn_local_on(0, || async {
        let mut counted = Vec::new();
        for (name, mut step) in primitives() {
            let work = async {
                for _ in 0..OPERATIONS {
                    step().await;
                }
            };
            counted.push((name, polls(work).await));
        }
        counted
    });
    for (name, polls) in rt.block_on(counted).unwrap() {
        // Eight, of which the last is not full. Some primitives take several operations each.
        let least = OPERATIONS.div_ceil(PER_POLL);
        assert!(
            (least..=2 * least).contains(&polls),
            "{name}: {polls} polls"
        );
    }
}

#[test]
fn what_has_ended_before_it_is_awaited_counts_too() {
    let rt = Builder::new().cores(1).blocking_threads(2).build().unwrap();
    let counted = rt.spawn_local_on(0, || async {
        let mut counted = Vec::new();
        for (name, work) in finished(OPERATIONS).await {
            counted.push((name, polls(work).await));
        }
        counted
    });
    for (name, polls) in rt.block_on(counted).unwrap() {
        assert_eq!(polls, OPERATIONS.div_ceil(PER_POLL), "{name}");
    }
}

#[test]
fn a_timeout_inside_block_on_ends_too() {
    let stop = Arc::new(AtomicBool::new(false));
    let (ended, end) = mpsc::channel();
    let seen = Arc::clone(&stop);
    std::thread::spawn(move || {
        let rt = Builder::new().cores(1).build().unwrap();
        let mutex = Mutex::new(());
        let work = async {
            while !seen.load(SeqCst) {
                drop(mutex.lock().await);
            }
        };
        let limit = Duration::from_millis(50);
        let elapsed = rt.block_on(timeout(limit, work)).is_err();
        ended.send(elapsed).unwrap();
    });
    let elapsed = end.recv_timeout(STARVED);
    stop.store(true, SeqCst);
    assert_eq!(elapsed, Ok(true));
}

/// An arm that goes beyond the budget of each poll stands before a timeout of the same task.
#[test]
fn t15_a_timeout_ends_beside_timeouts_that_go_beyond_the_budget() {
    let rt = Builder::new().cores(1).build().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let (ended, end) = mpsc::channel();
    let seen = Arc::clone(&stop);
    let task = rt.spawn(async move {
        let (to, mut from) = tokio::sync::mpsc::unbounded_channel();
        to.send(()).unwrap();
        let always_ready = async {
            while !seen.load(SeqCst) {
                let got = timeout(Duration::from_secs(1), from.recv()).await;
                got.unwrap().unwrap();
                to.send(()).unwrap();
            }
        };
        let limited = async {
            let elapsed = timeout(Duration::from_millis(50), pending::<()>()).await;
            let ready = timeout(Duration::from_secs(3_600), async {}).await;
            cooperative(pin!(async {})).await;
            ended.send(elapsed.is_err() && ready.is_ok()).unwrap();
        };
        futures::join!(always_ready, limited);
    });
    let result = end.recv_timeout(STARVED);
    stop.store(true, SeqCst);
    assert_eq!(result, Ok(true));
    rt.block_on(task).unwrap();
}

#[test]
fn a_sleep_that_had_to_wait_is_ready_where_others_spend_the_budget() {
    let rt = Builder::new().cores(1).build().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&stop);
    let task = rt.spawn(async move {
        let mut sleep = pin!(sleep(Duration::from_millis(5)));
        poll_fn(|cx| {
            while pin!(consume_budget()).poll(cx).is_ready() {}
            match sleep.as_mut().poll(cx) {
                Poll::Pending if seen.load(SeqCst) => Poll::Ready(false),
                polled => polled.map(|()| true),
            }
        })
        .await
    });
    let ended = comes(STARVED, || task.is_finished());
    stop.store(true, SeqCst);
    assert!(rt.block_on(task).unwrap() && ended);
}

#[test]
fn what_is_not_ready_counts_nothing() {
    let rt = Builder::new().cores(1).build().unwrap();
    let work = || async {
        for _ in 0..OPERATIONS {
            let mut waits = pin!(cooperative(pending::<()>()));
            assert!(futures::poll!(waits.as_mut()).is_pending());
        }
        futures::poll!(pin!(consume_budget())).is_ready()
    };
    assert!(rt.block_on(rt.spawn(work())).unwrap(), "in a task");
    assert!(rt.block_on(work()), "in `block_on`");
}

#[test]
fn a_child_that_panics_ends_a_scope_whose_body_never_waits() {
    let rt = Builder::new().cores(1).build().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&stop);
    let task = rt.spawn_local_on(0, || async move {
        doorbell::scope(async |s| {
            drop(s.spawn(async { panic!("on purpose") }));
            while !seen.load(SeqCst) {
                consume_budget().await;
            }
        })
        .await;
    });
    let ended = comes(STARVED, || task.is_finished());
    stop.store(true, SeqCst);
    let panic = rt.block_on(task).unwrap_err();
    assert!(ended && panic.to_string().contains("on purpose"), "{panic}");
}

#[test]
fn an_executor_inside_a_poll_is_refused_for_a_while_and_then_goes_on() {
    let rt = Builder::new().cores(1).build().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&stop);
    let task = rt.spawn(async move {
        let mut work = pin!(async {
            for _ in 0..10 * OPERATIONS {
                consume_budget().await;
            }
        });
        // Polls until `work` is ready, without its task giving way.
        futures::executor::block_on(poll_fn(|cx| match work.as_mut().poll(cx) {
            Poll::Pending if seen.load(SeqCst) => Poll::Ready(false),
            polled => polled.map(|()| true),
        }))
    });
    let ended = comes(STARVED, || task.is_finished());
    stop.store(true, SeqCst);
    assert!(ended && rt.block_on(task).unwrap());
}

#[test]
fn what_a_task_has_spent_is_not_missing_between_polls() {
    let rt = Builder::new().cores(1).build().unwrap();
    rt.block_on(rt.spawn(async {
        let mut work = pin!(async {
            for _ in 0..PER_POLL {
                consume_budget().await;
            }
            pending::<()>().await;
        });
        assert!(futures::poll!(work.as_mut()).is_pending());
        assert!(futures::poll!(pin!(consume_budget())).is_pending());
    }))
    .unwrap();
    // The poll has used up the budget; a call is not a poll.
    let ready = rt.call_blocking(0, || {
        futures::FutureExt::now_or_never(consume_budget()).is_some()
    });
    assert!(ready.unwrap());
}

#[test]
fn a_join_set_gives_out_without_waiting_more_than_one_poll_may_await() {
    let rt = Builder::new().cores(1).build().unwrap();
    let taken = rt.spawn(async {
        let mut set = doorbell::JoinSet::new();
        let ran = Arc::new(AtomicUsize::new(0));
        for _ in 0..OPERATIONS {
            let ran = Arc::clone(&ran);
            set.spawn(async move { ran.fetch_add(1, SeqCst) });
        }
        while ran.load(SeqCst) < OPERATIONS {
            doorbell::yield_now().await;
        }
        let mut taken = 0;
        while set.try_join_next().is_some() {
            taken += 1;
        }
        taken
    });
    assert_eq!(rt.block_on(taken).unwrap(), OPERATIONS);
}

#[test]
fn a_loop_over_a_socket_that_is_ready_becomes_pending() {
    let rt = Builder::new().cores(1).build().unwrap();
    let (here, there) = std::os::unix::net::UnixStream::pair().unwrap();
    let counted = rt.spawn(async move {
        let fd = doorbell::net::AsyncFd::new(here);
        fd.writable().await.unwrap();
        doorbell::yield_now().await;
        let mut times = 0;
        while futures::poll!(pin!(fd.writable())).is_ready() {
            times += 1;
        }
        drop(there);
        times
    });
    assert_eq!(rt.block_on(counted).unwrap(), PER_POLL);
}

#[test]
fn on_a_thread_of_ones_own_nothing_is_counted() {
    futures::executor::block_on(async {
        let mut work = pin!(async {
            for _ in 0..OPERATIONS {
                consume_budget().await;
            }
        });
        let first = futures::poll!(work.as_mut());
        assert!(first.is_ready());
    });
}

#[test]
fn what_has_no_limit_takes_nothing_from_its_task_also_if_it_panics() {
    let rt = Builder::new().cores(1).build().unwrap();
    let work = || async {
        doorbell::yield_now().await;
        let many = unconstrained(async {
            for _ in 0..OPERATIONS {
                consume_budget().await;
            }
        });
        assert!(futures::poll!(pin!(many)).is_ready());
        let panics = unconstrained(async { panic!("on purpose") });
        let caught = std::panic::AssertUnwindSafe(panics);
        assert!(futures::FutureExt::catch_unwind(caught).await.is_err());
        let mut left = 0;
        while has_budget_remaining() {
            consume_budget().await;
            left += 1;
        }
        left
    };
    assert_eq!(
        rt.block_on(rt.spawn(work())).unwrap(),
        PER_POLL,
        "in a task"
    );
    assert_eq!(rt.block_on(work()), PER_POLL, "in `block_on`");
}
