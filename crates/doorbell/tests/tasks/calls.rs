//! Calls to a named core, awaited or blocking.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests play the outside world"
)]

use crate::shuffled::Builder;
use doorbell::{
    CallError, CoreId, Runtime, call_on, current_core,
    metrics::WorkerState,
    switches::{CallCoalesce, IdleNotify, Switches},
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

fn runtime(cores: usize, spin: Duration) -> Runtime {
    Builder::new().cores(cores).spin(spin).build().unwrap()
}

const LONG: Duration = Duration::from_secs(3_600);

/// Waits until a worker is in a state. The bound only keeps a bug from hanging the test.
fn wait_for(rt: &Runtime, core: usize, state: WorkerState) {
    let start = Instant::now();
    while rt.worker_state(core) != Some(state) {
        assert!(
            start.elapsed() < Duration::from_secs(30),
            "core {core} never was {state:?}"
        );
        std::thread::yield_now();
    }
}

#[test]
fn a_call_runs_on_the_core_it_names() {
    let rt = runtime(3, Duration::from_micros(50));
    for core in 0..3 {
        let there = rt.call_blocking(core, current_core).unwrap();
        assert_eq!(there, Some(CoreId::new(core)));
        let there = rt.block_on(rt.call_on(core, current_core)).unwrap();
        assert_eq!(there, Some(CoreId::new(core)));
    }
    let from_a_worker = rt.block_on(rt.task().on(0).spawn(async {
        (
            call_on(2, current_core).await.unwrap(),
            call_on(0, current_core).await.unwrap(),
        )
    }));
    assert_eq!(
        from_a_worker.unwrap(),
        (Some(CoreId::new(2)), Some(CoreId::new(0)))
    );
}

#[repr(align(256))]
struct Aligned(u8);

#[test]
fn a_blocking_call_may_borrow_and_carry_large_values() {
    let rt = runtime(1, Duration::from_micros(50));
    let text = String::from("borrowed");
    assert_eq!(rt.call_blocking(0, || text.len()).unwrap(), 8);
    let large = [7u8; 4096];
    let back = rt.call_blocking(0, move || large).unwrap();
    assert!(back.iter().all(|&byte| byte == 7));
    let aligned = Aligned(3);
    let back = rt.call_blocking(0, move || aligned).unwrap();
    assert_eq!((std::ptr::from_ref(&back).addr() % 256, back.0), (0, 3));
    rt.call_blocking(0, || ()).unwrap();
}

#[test]
fn calls_of_one_thread_run_in_order() {
    let rt = runtime(1, Duration::from_micros(50));
    let log = Arc::new(std::sync::Mutex::new(Vec::new()));
    let calls: Vec<_> = (0..1_000)
        .map(|i| {
            let log = Arc::clone(&log);
            rt.call_on(0, move || log.lock().unwrap().push(i))
        })
        .collect();
    rt.block_on(async {
        for call in calls {
            call.await.unwrap();
        }
    });
    assert!(log.lock().unwrap().iter().copied().eq(0..1_000));
}

#[test]
fn a_panicking_call_comes_back_and_the_worker_lives_on() {
    let rt = runtime(1, Duration::from_micros(50));
    let error = rt.call_blocking(0, || panic!("blocking")).unwrap_err();
    assert_eq!(error.to_string(), "the call panicked: blocking");
    let error = rt
        .block_on(rt.call_on(0, || panic!("awaited")))
        .unwrap_err();
    assert_eq!(error.to_string(), "the call panicked: awaited");
    let payload = error.try_into_panic().unwrap();
    assert_eq!(*payload.downcast::<&str>().unwrap(), "awaited");
    assert_eq!(rt.call_blocking(0, || 4).unwrap(), 4);
}

#[test]
fn a_call_dropped_before_it_ran_is_withdrawn() {
    let rt = runtime(1, Duration::from_micros(50));
    let (hold, held) = (
        Arc::new(AtomicBool::new(true)),
        Arc::new(AtomicBool::new(false)),
    );
    // Keeps the worker inside a call.
    let (hold2, held2) = (Arc::clone(&hold), Arc::clone(&held));
    let holder = rt.call_on(0, move || {
        held2.store(true, Ordering::SeqCst);
        while hold2.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
    });
    while !held.load(Ordering::SeqCst) {
        std::thread::yield_now();
    }
    let runs = Arc::new(AtomicUsize::new(0));
    let captured = Arc::clone(&runs);
    drop(rt.call_on(0, move || captured.fetch_add(1, Ordering::SeqCst)));
    hold.store(false, Ordering::SeqCst);
    rt.block_on(holder).unwrap();
    rt.call_blocking(0, || ()).unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 0, "a withdrawn call ran");
    assert_eq!(
        Arc::strong_count(&runs),
        1,
        "the withdrawn closure was not dropped"
    );
}

#[test]
fn a_call_to_a_spinning_worker_makes_no_syscall_and_no_pass() {
    const CALLS: u64 = 10_000;
    let rt = runtime(1, LONG);
    wait_for(&rt, 0, WorkerState::Spinning);
    let before = rt.metrics().workers[0].raw();
    let start = Instant::now();
    for _ in 0..CALLS {
        rt.call_blocking(0, || ()).unwrap();
    }
    let took_ms = u64::try_from(start.elapsed().as_millis()).unwrap();
    let counts = rt.metrics().workers[0].raw().since(&before);
    // A worker counts a take after delivering it, so the last one may still be missing.
    assert!(
        counts.delivered <= CALLS && counts.delivered + 1 >= CALLS,
        "{counts:?}"
    );
    assert_eq!((counts.rings, counts.parks), (0, 0));
    // However busy the spinning is, one pass per millisecond is due, and a second one if a call came right
    // then.
    let passes_max = 2 * (took_ms + 1) + 1;
    assert!(counts.passes <= passes_max, "{counts:?} in {took_ms} ms");
    assert!(
        counts.notified >= 1 && counts.notified <= CALLS,
        "{counts:?}"
    );
}

#[test]
fn without_idle_notify_every_call_costs_a_pass() {
    const CALLS: u64 = 1_000;
    let rt = runtime(1, LONG);
    rt.set_switches(Switches {
        idle_notify: IdleNotify::Off,
        ..Switches::default()
    });
    let before = rt.metrics().workers[0].raw();
    for _ in 0..CALLS {
        wait_for(&rt, 0, WorkerState::Spinning);
        rt.call_blocking(0, || ()).unwrap();
    }
    wait_for(&rt, 0, WorkerState::Spinning);
    let counts = rt.metrics().workers[0].raw().since(&before);
    // One pass takes the call, and one more finds nothing. A call that comes during the worker's last look
    // before it spins costs no pass. That is rare, but less so on a busy machine.
    assert!(counts.passes >= CALLS / 2, "{} passes", counts.passes);
    assert!(counts.passes <= 3 * CALLS, "{} passes", counts.passes);
    assert_eq!(counts.rings, 0);
}

#[test]
fn always_ring_rings_a_spinning_worker_once_a_call() {
    const CALLS: u64 = 1_000;
    let rt = runtime(1, LONG);
    rt.set_switches(Switches {
        idle_notify: IdleNotify::AlwaysRing,
        ..Switches::default()
    });
    for _ in 0..CALLS {
        wait_for(&rt, 0, WorkerState::Spinning);
        rt.call_blocking(0, || ()).unwrap();
    }
    let counts = rt.metrics().workers[0].raw();
    // A call that comes during the worker's pass of the millisecond makes no ring.
    assert_eq!(counts.rings, counts.rings_awake);
    assert!(
        counts.rings <= CALLS && counts.rings >= CALLS * 9 / 10,
        "{counts:?}"
    );
}

#[test]
fn a_call_to_a_parked_worker_rings_exactly_once() {
    const CALLS: u64 = 500;
    let rt = runtime(1, Duration::ZERO);
    for _ in 0..CALLS {
        wait_for(&rt, 0, WorkerState::Parked);
        rt.call_blocking(0, || ()).unwrap();
    }
    wait_for(&rt, 0, WorkerState::Parked);
    let counts = rt.metrics().workers[0].raw();
    // A worker that was preempted between its announcement and its last look may be notified and rung
    // without having parked. Each such case is counted.
    let avoided = counts.parks_avoided;
    assert_eq!(counts.rings_awake, 0);
    assert!(
        counts.rings <= CALLS && counts.rings + avoided >= CALLS,
        "{counts:?}"
    );
    // A ring ended each park, before or after the thread slept. The worker is in one more park.
    let ended = counts.unparks_rung + counts.unparks_last_test;
    assert_eq!(counts.parks, ended + 1, "{counts:?}");
    assert!(
        ended <= counts.rings && ended + avoided >= CALLS,
        "{counts:?}"
    );
}

/// Posts `POSTS` calls while the worker is kept busy. Returns how many rings that made.
fn rings_of_posts_to_a_busy_worker(coalesce: CallCoalesce) -> u64 {
    const POSTS: usize = 100;
    let rt = runtime(1, LONG);
    rt.set_switches(Switches {
        call_coalesce: coalesce,
        ..Switches::default()
    });
    wait_for(&rt, 0, WorkerState::Spinning);
    let hold = Arc::new(AtomicBool::new(true));
    let holding = Arc::clone(&hold);
    // A task, not a call: a call would be served while spinning, and a task makes the worker run.
    let holder = rt.spawn(async move {
        while holding.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
    });
    wait_for(&rt, 0, WorkerState::Running);
    let before = rt.metrics().workers[0].counts.rings;
    let calls: Vec<_> = (0..POSTS).map(|_| rt.call_on(0, || ())).collect();
    let rings = rt.metrics().workers[0].counts.rings - before;
    hold.store(false, Ordering::SeqCst);
    rt.block_on(async {
        holder.await.unwrap();
        for call in calls {
            call.await.unwrap();
        }
    });
    rings
}

#[test]
fn posts_to_a_running_worker_ring_never_or_with_base_every_time() {
    assert_eq!(rings_of_posts_to_a_busy_worker(CallCoalesce::On), 0);
    assert_eq!(rings_of_posts_to_a_busy_worker(CallCoalesce::Base), 100);
}

// Two workers that call each other at the same time must not wait for each other forever (property C8).
#[test]
fn two_workers_call_each_other() {
    let rt = runtime(2, Duration::from_micros(50));
    let task = |own: usize| {
        rt.task().on(own).spawn(async move {
            let mut sum = 0;
            for i in 0..2_000u64 {
                sum += call_on(1 - own, move || i).await.unwrap();
            }
            sum
        })
    };
    let (a, b) = (task(0), task(1));
    assert_eq!(
        rt.block_on(a).unwrap() + rt.block_on(b).unwrap(),
        2 * 1_999_000
    );
}

#[test]
fn a_call_that_calls_back_is_no_deadlock() {
    let rt = runtime(2, Duration::from_micros(50));
    let handle = rt.handle().clone();
    let back = rt.block_on(async {
        // The closure on core 1 posts to core 0 and returns the call, which is then awaited.
        call_on(1, move || handle.call_on(0, current_core))
            .await
            .unwrap()
            .await
    });
    assert_eq!(back.unwrap(), Some(CoreId::new(0)));
}

#[test]
fn errors_of_calls_say_what_is_wrong() {
    let rt = runtime(2, Duration::from_micros(50));
    let error = rt.call_blocking(2, || ()).unwrap_err();
    assert!(matches!(error, CallError::NoSuchCore { cores: 2, .. }));
    assert_eq!(
        error.to_string(),
        "there is no core 2: the runtime has cores 0 to 1"
    );
    let error = rt.block_on(rt.call_on(usize::MAX, || ())).unwrap_err();
    assert!(matches!(error, CallError::NoSuchCore { .. }));
    let handle = rt.handle().clone();
    let inside = rt.block_on(rt.spawn(async move { handle.call_blocking(0, || ()) }));
    assert!(matches!(inside.unwrap(), Err(CallError::InsideWorker)));
}

#[test]
fn a_detached_call_runs_unobserved() {
    let rt = runtime(1, Duration::from_micros(50));
    let (tx, rx) = std::sync::mpsc::channel();
    rt.call_on(0, move || tx.send(()).unwrap()).detach();
    rx.recv_timeout(Duration::from_secs(30))
        .expect("it was withdrawn");
}
