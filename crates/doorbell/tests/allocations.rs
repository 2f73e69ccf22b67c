//! On a warm runtime, wakes, timers and drops of urgent tasks allocate nothing.
//!
//! A test binary of its own: it counts the allocations of all threads, so its only test runs alone.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests play the outside world"
)]

mod counting;

use doorbell::time::{Sleep, sleep};
use doorbell::{Builder, Class, JoinHandle, Runtime};
use futures::task::AtomicWaker;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

const URGENT: Class = Class::rt(50);
const TIMES: u64 = 300;
const HOUR: Duration = Duration::from_secs(3_600);

/// How many allocations any thread makes while `f` runs.
fn during(f: impl FnOnce()) -> u64 {
    let before = counting::allocations();
    f();
    counting::allocations() - before
}

/// Waits for something that other threads do. The bound only keeps a bug from hanging the test.
fn until(is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed().as_secs() < 60, "it never came");
        std::thread::yield_now();
    }
}

/// A task that counts its wakes and does something at each.
#[derive(Default)]
struct Woken {
    waker: AtomicWaker,
    runs: AtomicU64,
}

impl Woken {
    fn spawn(
        runtime: &Runtime,
        class: Class,
        core: Option<usize>,
        mut act: impl FnMut(&mut Context<'_>) -> Poll<()> + Send + 'static,
    ) -> Arc<Woken> {
        let woken = Arc::new(Woken::default());
        let theirs = Arc::clone(&woken);
        let task = runtime.task().class(class);
        let task = core.iter().fold(task, |task, core| task.on(*core));
        drop(task.spawn(async move {
            poll_fn(move |cx| {
                theirs.waker.register(cx.waker());
                if act(cx).is_ready() {
                    theirs.runs.fetch_add(1, SeqCst);
                }
                Poll::<()>::Pending
            })
            .await;
        }));
        until(|| woken.runs.load(SeqCst) > 0);
        woken
    }

    /// Wakes it this many times, each time after it has run for the last wake.
    fn wake(&self) {
        for _ in 0..TIMES {
            self.wake_by(|| self.waker.wake());
        }
    }

    fn wake_by(&self, wake: impl FnOnce()) {
        let runs = self.runs.load(SeqCst);
        wake();
        until(|| self.runs.load(SeqCst) > runs);
    }
}

/// Wakes of a task, from each kind of waker.
fn wakes(runtime: &Runtime, core: Option<usize>) -> [(&'static str, u64); 3] {
    let woken = Woken::spawn(runtime, URGENT, core, |_| Poll::Ready(()));
    // Each run of this task wakes the other one, on the same worker if both are pinned.
    let theirs = Arc::clone(&woken);
    let wakes = Woken::spawn(runtime, URGENT, core, move |_| {
        theirs.waker.wake();
        Poll::Ready(())
    });
    // Wakes the other one this often in one poll.
    let theirs = Arc::clone(&woken);
    let fair = Woken::spawn(runtime, Class::FAIR, Some(0), move |_| {
        theirs.wake();
        Poll::Ready(())
    });
    let outside = during(|| woken.wake());
    let fair = during(|| fair.wake_by(|| fair.waker.wake()));
    let own = during(|| {
        for _ in 0..TIMES {
            woken.wake_by(|| wakes.waker.wake());
        }
    });
    [
        ("woken from outside", outside),
        ("woken from a Fair worker", fair),
        ("woken from an urgent worker", own),
    ]
}

/// Timers of an urgent task: some that fire, and some that are dropped before.
fn timers(runtime: &Runtime) -> [(&'static str, u64); 3] {
    let mut armed: Option<Sleep> = None;
    let fires = Woken::spawn(runtime, URGENT, Some(0), move |cx| {
        // Armed in the first poll after each wake, and polled until it fires.
        let sleep = armed.get_or_insert_with(|| sleep(Duration::from_micros(20)));
        let polled = Pin::new(sleep).poll(cx);
        if polled.is_ready() {
            armed = None;
        }
        polled
    });
    let drops = Woken::spawn(runtime, URGENT, Some(0), |cx| {
        let mut long = sleep(HOUR);
        assert!(Pin::new(&mut long).poll(cx).is_pending());
        Poll::Ready(())
    });
    let shared: Arc<Mutex<Option<Sleep>>> = Arc::default();
    let raised = Arc::clone(&shared);
    let raises = Woken::spawn(runtime, URGENT, Some(0), move |cx| {
        let mut long = sleep(HOUR);
        assert!(Pin::new(&mut long).poll(cx).is_pending());
        *raised.lock().unwrap() = Some(long);
        Poll::Ready(())
    });
    let elsewhere = during(|| {
        for _ in 0..TIMES {
            raises.wake_by(|| raises.waker.wake());
            drop(shared.lock().unwrap().take());
        }
    });
    [
        ("timer armed and fired", during(|| fires.wake())),
        ("timer dropped by its task", during(|| drops.wake())),
        ("timer dropped elsewhere", elsewhere),
    ]
}

/// Values to drop at the next run of a task, or elsewhere.
type Heap<T> = Arc<Mutex<Vec<T>>>;

/// Drops half of them here, and half on an urgent worker.
fn drop_all<T: Send + 'static>(runtime: &Runtime, mut all: Vec<T>) -> [u64; 2] {
    assert!(all.len() as u64 >= TIMES);
    let heap: Heap<T> = Heap::default();
    let theirs = Arc::clone(&heap);
    let drops = Woken::spawn(runtime, URGENT, Some(0), move |_| {
        theirs.lock().unwrap().clear();
        Poll::Ready(())
    });
    *heap.lock().unwrap() = all.split_off(all.len() / 2);
    let here = during(|| all.clear());
    let there = during(|| drops.wake_by(|| drops.waker.wake()));
    assert!(heap.lock().unwrap().is_empty());
    [here, there]
}

/// Drops of handles and wakers.
fn drops(runtime: &Runtime) -> [(&'static str, u64); 4] {
    let wakers: Heap<Waker> = Heap::default();
    let spawn = |_| {
        let wakers = Arc::clone(&wakers);
        runtime.task().class(URGENT).spawn(poll_fn(move |cx| {
            wakers.lock().unwrap().push(cx.waker().clone());
            Poll::Pending
        }))
    };
    let tasks: Vec<JoinHandle<()>> = (0..TIMES).map(spawn).collect();
    until(|| wakers.lock().unwrap().len() as u64 == TIMES);
    let [handles_here, handles_there] = drop_all(runtime, tasks);
    let wakers = std::mem::take(&mut *wakers.lock().unwrap());
    let [wakers_here, wakers_there] = drop_all(runtime, wakers);
    [
        ("handles dropped outside", handles_here),
        ("handles dropped on a worker", handles_there),
        ("wakers dropped outside", wakers_here),
        ("wakers dropped on a worker", wakers_there),
    ]
}

/// Does all of it once. Returns each operation with its number of allocations.
fn all(runtime: &Runtime) -> Vec<(&'static str, u64)> {
    let wakes = [Some(0), None].map(|core| wakes(runtime, core));
    let (timers, drops) = (timers(runtime), drops(runtime));
    let all = wakes.iter().flatten().chain(&timers).chain(&drops);
    all.copied().collect()
}

#[test]
fn wakes_timers_and_drops_of_urgent_tasks_allocate_nothing() {
    let runtime = Builder::new().cores(2).build().unwrap();
    // Warm up: the workers of all classes have started and done each operation.
    let _ = (all(&runtime), all(&runtime));
    for round in 0..3 {
        for (what, count) in all(&runtime) {
            assert_eq!(
                count, 0,
                "{what}: allocations in {TIMES} times, round {round}"
            );
        }
    }

    // Checks the counter itself: it sees a box, a growing vector, and tasks on any thread.
    assert_eq!(during(|| drop(std::hint::black_box(Box::new(7)))), 1);
    let mut grows = vec![1_u8];
    grows.shrink_to_fit();
    let grown = during(|| {
        grows.reserve_exact(100_000);
        std::hint::black_box(&mut grows);
    });
    assert_eq!(grown, 1);
    let spawned = during(|| {
        for _ in 0..TIMES {
            runtime
                .block_on(runtime.task().class(URGENT).spawn(async {}))
                .unwrap();
        }
    });
    assert!((TIMES..=5 * TIMES).contains(&spawned), "{spawned}");
    let boxes = Woken::spawn(&runtime, URGENT, Some(0), |_| {
        drop(std::hint::black_box(Box::new(7)));
        Poll::Ready(())
    });
    assert_eq!(during(|| boxes.wake()), TIMES);
}
