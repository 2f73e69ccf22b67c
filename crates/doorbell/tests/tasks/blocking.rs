//! Blocking closures: they run, their threads are limited, and they end with their runtime.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests play the outside world"
)]

use crate::eventually;
use crate::shuffled::Builder;
use doorbell::{Runtime, spawn_blocking};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

fn runtime(threads: usize) -> Runtime {
    let builder = Builder::new().cores(2).blocking_threads(threads);
    builder.build().unwrap()
}

struct CountsDrops(Arc<AtomicUsize>);

impl Drop for CountsDrops {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[test]
fn results_come_back_and_workers_go_on() {
    let rt = runtime(4);
    let sum = rt.block_on(async {
        let (go_tx, go_rx) = mpsc::channel();
        let waits = spawn_blocking(move || go_rx.recv().unwrap());
        // The workers are free while the closure blocks.
        let task = doorbell::spawn(async move { go_tx.send(40).unwrap() });
        task.await.unwrap();
        waits.await.unwrap() + rt.spawn_blocking(|| 2).await.unwrap()
    });
    assert_eq!(sum, 42);
}

/// Set in the process that cannot start a thread.
const REFUSED: &str = "DOORBELL_TEST_REFUSED";

/// Runs the test of that name in a child process whose address space is small. Returns whether this is the child.
fn in_small_process(name: &str) -> bool {
    if std::env::var_os(REFUSED).is_some() {
        return true;
    }
    // The limit is in KiB.
    let script = "ulimit -v 1500000 && exec \"$0\" \"$@\"";
    let child = std::process::Command::new("sh")
        .args(["-c", script])
        .arg(std::env::current_exe().unwrap())
        .arg(format!("blocking::{name}"))
        .args(["--exact", "--nocapture", "--test-threads=1"])
        .env(REFUSED, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(
        child.status.success() && said.contains("1 passed"),
        "{child:?}"
    );
    false
}

/// Takes memory until there is no room for a thread's stack.
fn fill() -> Vec<Vec<u8>> {
    const MIB: usize = 1 << 20;
    let mut full: Vec<Vec<u8>> = Vec::with_capacity(4_096);
    loop {
        let mut next = Vec::new();
        if next.try_reserve_exact(MIB).is_err() {
            return full;
        }
        full.push(next);
    }
}

/// In a child process whose address space is full when it needs its first blocking thread.
#[test]
#[cfg_attr(
    doorbell_tsan,
    ignore = "the sanitizer needs more address space than any limit"
)]
fn a_runtime_that_is_refused_its_first_thread_says_so_and_goes_on() {
    if !in_small_process("a_runtime_that_is_refused_its_first_thread_says_so_and_goes_on") {
        return;
    }
    let rt = runtime(2);
    let dropped = Arc::new(AtomicUsize::new(0));
    let full = fill();
    let held = CountsDrops(Arc::clone(&dropped));
    let refused = rt.try_spawn_blocking(move || drop(held));
    drop(full);
    let error = refused.map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("ulimit -u"), "{error}");
    assert_eq!(dropped.load(SeqCst), 1, "the closure is gone");
    assert_eq!(
        rt.metrics().blocking(),
        doorbell::metrics::BlockingMetrics::default()
    );
    // The workers are unaffected, and with room a thread starts.
    assert_eq!(rt.block_on(rt.spawn(async { 1 })).unwrap(), 1);
    assert_eq!(rt.block_on(rt.spawn_blocking(|| 2)).unwrap(), 2);
}

/// As above, but there is one thread, and it waits for the closure that gets none.
#[test]
#[cfg_attr(
    doorbell_tsan,
    ignore = "the sanitizer needs more address space than any limit"
)]
fn s11_a_closure_that_is_refused_a_thread_gets_one_later() {
    if !in_small_process("s11_a_closure_that_is_refused_a_thread_gets_one_later") {
        return;
    }
    let rt = runtime(2);
    let (tell, told) = mpsc::channel();
    let (begins, begun) = mpsc::channel();
    let waits = rt.spawn_blocking(move || {
        begins.send(()).unwrap();
        told.recv_timeout(Duration::from_secs(60))
    });
    begun.recv().unwrap();
    let full = fill();
    // A name is looked up by such a closure too.
    let lookup = rt.spawn(doorbell::net::lookup_host(("localhost", 1)));
    eventually(|| rt.metrics().blocking().queued == 1);
    assert_eq!(rt.metrics().blocking().threads, 1, "the OS has refused one");
    drop(full);
    assert!(rt.block_on(lookup).unwrap().is_ok());
    drop(rt.try_spawn_blocking(move || tell.send(5)).unwrap());
    assert_eq!(rt.block_on(waits).unwrap(), Ok(5));
}

/// A paused clock stands while closures are queued, so no task asks again.
#[test]
#[cfg_attr(
    doorbell_tsan,
    ignore = "the sanitizer needs more address space than any limit"
)]
fn s11_a_thread_that_has_run_a_closure_asks_for_one_that_was_refused() {
    if !in_small_process("s11_a_thread_that_has_run_a_closure_asks_for_one_that_was_refused") {
        return;
    }
    let builder = Builder::new().cores(1).blocking_threads(2);
    let rt = builder.start_paused(true).build().unwrap();
    let (go, goes) = mpsc::channel::<()>();
    let (begins, begun) = mpsc::channel();
    let (tell, told) = mpsc::channel();
    let first = rt.spawn_blocking(move || {
        begins.send(()).unwrap();
        let _ = goes.recv();
    });
    begun.recv().unwrap();
    let full = fill();
    let waits = rt.spawn_blocking(move || told.recv_timeout(Duration::from_secs(20)));
    drop(rt.try_spawn_blocking(move || tell.send(5)).unwrap());
    assert_eq!(rt.metrics().blocking().threads, 1, "the OS has refused two");
    drop((full, go));
    rt.block_on(first).unwrap();
    assert_eq!(rt.block_on(waits).unwrap(), Ok(5));
}

#[test]
fn s11_the_age_of_the_oldest_closure_tells_of_a_pool_that_waits_for_itself() {
    let rt = Builder::new().cores(1).blocking_threads(1).build().unwrap();
    let handle = rt.handle().clone();
    let (go, goes) = mpsc::channel::<()>();
    let outer = rt.spawn_blocking(move || {
        let inner = handle.spawn_blocking(|| 3);
        let _ = goes.recv();
        inner
    });
    let age = || rt.metrics().blocking().oldest_queued;
    eventually(|| age().is_some_and(|age| age >= Duration::from_millis(50)));
    drop(go);
    let inner = rt.block_on(outer).unwrap();
    assert_eq!(rt.block_on(inner).unwrap(), 3);
    assert_eq!(age(), None);
}

#[test]
fn no_thread_before_the_first_use_and_no_more_than_allowed() {
    let rt = runtime(3);
    assert_eq!(
        rt.metrics().blocking(),
        doorbell::metrics::BlockingMetrics::default()
    );
    let (go_tx, go_rx) = std::sync::mpsc::channel::<()>();
    let go_rx = Arc::new(std::sync::Mutex::new(go_rx));
    let most = Arc::new(AtomicUsize::new(0));
    let now = Arc::new(AtomicUsize::new(0));
    let handles: Vec<_> = (0..20)
        .map(|_| {
            let (go, most, now) = (Arc::clone(&go_rx), Arc::clone(&most), Arc::clone(&now));
            rt.spawn_blocking(move || {
                most.fetch_max(now.fetch_add(1, SeqCst) + 1, SeqCst);
                let _ = go.lock().unwrap().recv();
                now.fetch_sub(1, SeqCst);
            })
        })
        .collect();
    eventually(|| rt.metrics().blocking().queued == 17);
    let counts = rt.metrics().blocking();
    assert_eq!((counts.threads, counts.idle, counts.started), (3, 0, 3));
    drop(go_tx);
    for handle in handles {
        rt.block_on(handle).unwrap();
    }
    assert!((1..=3).contains(&most.load(SeqCst)));
    eventually(|| rt.metrics().blocking().idle == 3);
    assert_eq!(rt.metrics().blocking().queued, 0);
}

#[test]
fn one_after_another_needs_one_thread_or_few() {
    let rt = runtime(64);
    for i in 0..200 {
        assert_eq!(rt.block_on(rt.spawn_blocking(move || i)).unwrap(), i);
        // The thread counts as idle a moment after its result is there.
        eventually(|| rt.metrics().blocking().idle > 0);
    }
    assert_eq!(rt.metrics().blocking().started, 1);
}

#[test]
fn idle_threads_end_and_come_again() {
    let rt = Builder::new()
        .cores(1)
        .blocking_keep_alive(Duration::from_millis(1))
        .build()
        .unwrap();
    for round in 1..=5 {
        rt.block_on(rt.spawn_blocking(|| ())).unwrap();
        eventually(|| rt.metrics().blocking().threads == 0);
        let counts = rt.metrics().blocking();
        assert_eq!((counts.queued, counts.idle, counts.started), (0, 0, round));
    }
}

#[test]
fn a_panic_comes_back_and_the_thread_goes_on() {
    let rt = runtime(1);
    let error = rt.block_on(rt.spawn_blocking(|| -> u32 { panic!("on purpose") }));
    let error = error.unwrap_err();
    assert!(error.is_panic());
    assert!(error.to_string().contains("on purpose"), "{error}");
    assert_eq!(rt.block_on(rt.spawn_blocking(|| 1)).unwrap(), 1);
    assert_eq!(rt.metrics().blocking().started, 1);
}

#[test]
fn destructors_that_panic_end_nothing() {
    struct Panics;
    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("in a destructor, on purpose");
        }
    }
    let rt = runtime(1);
    // As a result that is never taken, and in a closure that is withdrawn.
    drop(rt.spawn_blocking(|| Panics));
    let (go_tx, go_rx) = mpsc::channel::<()>();
    let remote = rt.spawn_blocking(move || go_rx.recv().is_err());
    let captured = Panics;
    let withdrawn = rt.spawn_blocking(move || drop(captured));
    withdrawn.abort();
    drop(go_tx);
    assert!(rt.block_on(remote).unwrap());
    assert!(rt.block_on(withdrawn).unwrap_err().is_cancelled());
    assert_eq!(rt.block_on(rt.spawn_blocking(|| 5)).unwrap(), 5);
}

#[test]
fn a_handle_dropped_lets_it_run_and_one_aborted_does_not() {
    let rt = runtime(1);
    let ran = Arc::new(AtomicUsize::new(0));
    let (go_tx, go_rx) = mpsc::channel::<()>();
    let remote = rt.spawn_blocking(move || go_rx.recv().is_err());
    let (first, second) = (Arc::clone(&ran), Arc::clone(&ran));
    drop(rt.spawn_blocking(move || first.fetch_add(1, SeqCst)));
    let aborted = rt.spawn_blocking(move || second.fetch_add(10, SeqCst));
    aborted.abort();
    assert!(!aborted.is_finished());
    drop(go_tx);
    assert!(rt.block_on(aborted).unwrap_err().is_cancelled());
    assert!(rt.block_on(remote).unwrap());
    assert_eq!(ran.load(SeqCst), 1);
}

#[test]
fn the_runtime_is_the_current_one_inside() {
    let rt = runtime(2);
    let answer = rt.spawn_blocking(|| {
        assert!(doorbell::current_core().is_none());
        let handle = doorbell::Handle::current();
        let task = doorbell::spawn(async { 6 });
        handle.try_block_on(task).unwrap().unwrap() * handle.call_blocking(1, || 7).unwrap()
    });
    assert_eq!(rt.block_on(answer).unwrap(), 42);
}

#[test]
fn the_end_waits_for_what_began_and_drops_what_did_not() {
    let rt = runtime(1);
    let drops = Arc::new(AtomicUsize::new(0));
    let ended = Arc::new(AtomicBool::new(false));
    let (begun_tx, begun_rx) = mpsc::channel();
    let (go_tx, go_rx) = mpsc::channel::<()>();
    let under_way = {
        let ended = Arc::clone(&ended);
        rt.spawn_blocking(move || {
            begun_tx.send(()).unwrap();
            let _ = go_rx.recv();
            ended.store(true, SeqCst);
            "done"
        })
    };
    begun_rx.recv().unwrap();
    let queued: Vec<_> = (0..10)
        .map(|_| {
            let guard = CountsDrops(Arc::clone(&drops));
            rt.spawn_blocking(move || drop(guard))
        })
        .collect();
    let handle = rt.handle().clone();
    let dropper = std::thread::spawn(move || drop(rt));
    eventually(|| drops.load(SeqCst) == 10);
    assert!(!ended.load(SeqCst));
    drop(go_tx);
    dropper.join().unwrap();
    assert!(ended.load(SeqCst));
    assert_eq!(handle.metrics().blocking().threads, 0);
    let outside = runtime(1);
    assert_eq!(outside.block_on(under_way).unwrap(), "done");
    for task in queued {
        assert!(outside.block_on(task).unwrap_err().is_cancelled());
    }
    // Later closures are refused.
    let guard = CountsDrops(Arc::clone(&drops));
    let late = handle.spawn_blocking(move || drop(guard));
    assert_eq!(drops.load(SeqCst), 11);
    assert!(outside.block_on(late).unwrap_err().is_cancelled());
}

#[test]
fn d5_runtimes_end_while_threads_are_started_woken_and_leaving() {
    let rounds = if cfg!(doorbell_tsan) { 20 } else { 150 };
    for round in 0..rounds {
        let rt = Builder::new()
            .cores(1)
            .blocking_threads(4)
            .blocking_keep_alive(Duration::from_micros(50 * (round % 4)))
            .build()
            .unwrap();
        let drops = Arc::new(AtomicUsize::new(0));
        let submitters: Vec<_> = (0..3)
            .map(|_| {
                let (handle, drops) = (rt.handle().clone(), Arc::clone(&drops));
                std::thread::spawn(move || {
                    for _ in 0..20 {
                        let guard = CountsDrops(Arc::clone(&drops));
                        drop(handle.spawn_blocking(move || drop(guard)));
                    }
                })
            })
            .collect();
        let handle = rt.handle().clone();
        drop(rt);
        for submitter in submitters {
            submitter.join().unwrap();
        }
        assert_eq!(drops.load(SeqCst), 60);
        let counts = handle.metrics().blocking();
        assert_eq!((counts.queued, counts.idle, counts.threads), (0, 0, 0));
    }
}

#[test]
fn a_closure_may_end_its_own_runtime() {
    let rt = runtime(2);
    let handle = rt.handle().clone();
    let (done_tx, done_rx) = mpsc::channel();
    drop(handle.spawn_blocking(move || {
        drop(rt);
        done_tx.send(()).unwrap();
    }));
    done_rx.recv().unwrap();
    eventually(|| handle.metrics().blocking().threads == 0);
}

#[test]
fn bad_numbers_say_what_to_do() {
    for asked in [0, usize::MAX] {
        let error = Builder::new().cores(1).blocking_threads(asked).build();
        let error = error.unwrap_err().to_string();
        assert!(error.contains("ask for 1 to 65535"), "{error}");
    }
}

/// A waker that panics when it is woken, and when its last clone is dropped.
struct Hostile(Arc<AtomicUsize>);

impl Wake for Hostile {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
        // Its drop must not panic during the same unwinding.
        std::mem::forget(self);
        panic!("a waker panics");
    }

    fn wake_by_ref(self: &Arc<Self>) {
        Arc::clone(self).wake();
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        panic!("the drop of a waker panics");
    }
}

fn poll_with(handle: &mut doorbell::BlockingHandle<u32>, waker: &Waker) {
    let polled = Pin::new(handle).poll(&mut Context::from_waker(waker));
    assert!(polled.is_pending());
}

#[test]
fn a_waker_that_panics_ends_neither_the_process_nor_the_thread() {
    let rt = runtime(1);
    let woken = Arc::new(AtomicUsize::new(0));
    let hostile = || Waker::from(Arc::new(Hostile(Arc::clone(&woken))));
    let (go, gate) = mpsc::channel::<()>();
    let mut handle = rt.spawn_blocking(move || {
        gate.recv().unwrap();
        7
    });
    // The handle drops the last clone of the first waker when it gets the second.
    let (first, second) = (hostile(), hostile());
    poll_with(&mut handle, &first);
    drop(first);
    poll_with(&mut handle, &second);
    std::mem::forget(second);
    go.send(()).unwrap();
    eventually(|| woken.load(SeqCst) == 1);
    assert_eq!(rt.block_on(handle).unwrap(), 7);
    assert_eq!(rt.block_on(rt.spawn_blocking(|| 8)).unwrap(), 8);
    eventually(|| rt.metrics().blocking().idle == 1);
    assert_eq!(rt.metrics().blocking().started, 1, "the thread goes on");
}
