//! A worker on its own thread, posted to, woken and closed from others.

use super::shared;
use crate::bell::WorkerState;
use crate::call::CallFailed;
use crate::mailbox::Posted;
use crate::switches::{CallCoalesce, IdleNotify, Switches};
use crate::testing::{Log, call, post, spawn};
use crate::wait::block_on;
use crate::worker::{Worker, WorkerCounts, WorkerShared};
use doorbell_machine::Host;
use std::future::poll_fn;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

const SPIN_NS: u64 = 5_000;

/// A worker that runs; closed and joined by [`Running::end`].
pub(super) struct Running {
    pub(super) shared: Arc<WorkerShared<Host>>,
    thread: std::thread::JoinHandle<()>,
}

impl Running {
    pub(super) fn start(spin_ns: u64, switches: Switches) -> Self {
        let shared = shared(spin_ns, switches);
        let theirs = Arc::clone(&shared);
        let thread = std::thread::spawn(move || Worker::new(theirs).run());
        Running { shared, thread }
    }

    /// Waits until the worker's thread blocks, or is about to.
    pub(super) fn until_parked(&self) {
        while self.shared.state() != WorkerState::Parked {
            std::thread::yield_now();
        }
    }

    pub(super) fn end(self) -> WorkerCounts {
        self.shared.close();
        self.thread.join().unwrap();
        let counts = self.shared.counts();
        let ended = counts.unparks_rung + counts.unparks_last_test + counts.unparks_ready;
        assert_eq!(counts.parks, ended);
        let needed = counts.rings - counts.rings_awake;
        assert!(needed <= counts.parks + counts.parks_avoided, "{counts:?}");
        assert!(counts.rings_for_stalled <= needed, "{counts:?}");
        assert!(counts.takes <= counts.delivered, "{counts:?}");
        counts
    }
}

/// Its thread was not started: what was posted before the end is not lost, and what comes later is refused.
#[test]
fn d23_a_worker_that_never_began_ends_what_was_posted_and_refuses_the_rest() {
    let shared = shared(0, Switches::default());
    let log = Log::default();
    assert_eq!(post(shared.remote(), 1, &log), Posted::Yes);
    let waits = spawn(shared.remote(), std::future::pending::<()>());
    shared.close_unbegun();
    log.assert_once_and_in_order(&[1]);
    assert_eq!(waits.phase(), crate::task::Phase::Complete);
    assert_eq!(post(shared.remote(), 2, &log), Posted::Closed);
    let late = spawn(shared.remote(), std::future::pending::<()>());
    assert_eq!(late.phase(), crate::task::Phase::Complete);
    assert!(!log.has(2));
}

#[test]
fn miri_a_task_is_spawned_joined_and_the_worker_closed() {
    let worker = Running::start(0, Switches::default());
    let join = spawn(worker.shared.remote(), async { 6 * 7 });
    assert_eq!(block_on::<Host, _>(join, 0).unwrap(), 42);
    let got = call(worker.shared.remote(), || 6 * 7);
    assert!(matches!(got, Ok(42)));
    let counts = worker.end();
    assert_eq!((counts.polls, counts.delivered), (1, 2));
    assert!(counts.rings <= 3, "task, call, close: {counts:?}");
}

#[test]
fn a_worker_is_rung_at_most_once_per_park() {
    let worker = Running::start(0, Switches::default());
    for round in 1..=50 {
        worker.until_parked();
        let before = worker.shared.counts();
        let log = Log::default();
        for entry in 0..20 {
            assert_eq!(post(worker.shared.remote(), entry, &log), Posted::Yes);
        }
        while log.len() < 20 {
            std::thread::yield_now();
        }
        worker.until_parked();
        let made = worker.shared.counts().since(&before);
        assert_eq!((made.delivered, made.polls, made.rings_awake), (20, 0, 0));
        // The first post rings. Later ones may find that the worker has parked again meanwhile.
        assert!((1..=20).contains(&made.rings), "{made:?} in {round}");
        assert!(made.rings <= made.parks + made.parks_avoided + 1);
    }
    worker.end();
}

#[test]
fn w1_a_ring_that_nobody_asked_for_ends_no_park() {
    let worker = Running::start(0, Switches::default());
    worker.until_parked();
    let remote = worker.shared.remote();
    for _ in 0..1_000 {
        remote.bell().ring(remote.parker());
    }
    let log = Log::default();
    assert_eq!(post(remote, 1, &log), Posted::Yes);
    while log.len() < 1 {
        std::thread::yield_now();
    }
    worker.until_parked();
    // One park until the post, which ended it or came just before it; one after it.
    let counts = worker.shared.counts();
    let ended = counts.unparks_rung + counts.unparks_last_test;
    assert_eq!((counts.rings, ended + counts.parks_avoided), (1, 1));
    assert!((ended..=2).contains(&counts.parks), "{counts:?}");
    worker.end();
}

#[test]
fn s6_a_worker_inside_a_long_poll_is_not_rung() {
    let worker = Running::start(SPIN_NS, Switches::default());
    let (started, go_on) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let (here, there) = (Arc::clone(&started), Arc::clone(&go_on));
    let join = spawn(worker.shared.remote(), async move {
        here.store(1, Relaxed);
        while there.load(Relaxed) == 0 {
            std::hint::spin_loop();
        }
    });
    while started.load(Relaxed) == 0 {
        std::thread::yield_now();
    }
    let (before, log) = (worker.shared.counts(), Log::default());
    for entry in 0..100 {
        assert_eq!(post(worker.shared.remote(), entry, &log), Posted::Yes);
    }
    let during = worker.shared.counts().since(&before);
    assert_eq!((during.rings, during.delivered, log.len()), (0, 0, 0));
    go_on.store(1, Relaxed);
    block_on::<Host, _>(join, 0).unwrap();
    while log.len() < 100 {
        std::thread::yield_now();
    }
    log.assert_once_and_in_order(&(0..100).collect::<Vec<_>>());
    let counts = worker.end();
    assert_eq!(
        (counts.delivered, counts.polls, counts.rings_awake),
        (101, 1, 0)
    );
}

#[test]
fn tasks_wake_each_other_across_two_workers() {
    // A ball goes to and fro; each hit is one wake of a task on the other worker.
    const HITS: usize = 2_000;
    let workers = [0, SPIN_NS].map(|spin_ns| Running::start(spin_ns, Switches::default()));
    let (ball, wakers) = (
        Arc::new(AtomicUsize::new(0)),
        Arc::new(Mutex::new([const { None::<Waker> }; 2])),
    );
    let joins: Vec<_> = (0..2)
        .map(|side| {
            let (ball, wakers) = (Arc::clone(&ball), Arc::clone(&wakers));
            spawn(
                workers[side].shared.remote(),
                poll_fn(move |cx| {
                    let mut both = wakers.lock().unwrap();
                    both[side] = Some(cx.waker().clone());
                    let at = ball.load(Relaxed);
                    if at < HITS && at % 2 == side {
                        ball.store(at + 1, Relaxed);
                    }
                    let other = both[1 - side].clone();
                    drop(both);
                    other.iter().for_each(Waker::wake_by_ref);
                    if at < HITS {
                        Poll::Pending
                    } else {
                        Poll::Ready(())
                    }
                }),
            )
        })
        .collect();
    for join in joins {
        block_on::<Host, _>(join, SPIN_NS).unwrap();
    }
    assert_eq!(ball.load(Relaxed), HITS);
    *wakers.lock().unwrap() = [None, None];
    for worker in workers {
        let counts = worker.end();
        assert!(counts.polls as usize >= HITS / 2, "{counts:?}");
        assert_eq!(counts.rings_awake, 0);
    }
}

#[test]
fn d2_posts_spawns_and_calls_in_every_phase_of_a_close() {
    for round in 0..300 {
        let worker = Running::start(
            if round % 2 == 0 { 0 } else { SPIN_NS },
            Switches::default(),
        );
        let (accepted, log) = (AtomicUsize::new(0), Log::default());
        let (ran, returned) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let shared = &worker.shared;
        std::thread::scope(|scope| {
            let remote = shared.remote();
            let (accepted, ran, returned) = (&accepted, &ran, &returned);
            let log = log.clone();
            scope.spawn(move || {
                for entry in 0..50 {
                    if post(remote, entry, &log) == Posted::Yes {
                        accepted.fetch_add(1, Relaxed);
                    }
                }
            });
            scope.spawn(move || {
                for _ in 0..20 {
                    let count = || ran.fetch_add(1, Relaxed);
                    match call(remote, count) {
                        Ok(_) => {}
                        Err(CallFailed::Gone(_)) => drop(returned.fetch_add(1, Relaxed)),
                        Err(CallFailed::Panicked(payload)) => panic!("{payload}"),
                    }
                    let ended = block_on::<Host, _>(spawn(remote, async {}), 0);
                    assert!(ended.is_ok_and(|()| true) || shared.is_closing());
                }
            });
            std::hint::black_box((0..round * 50).sum::<u64>());
            shared.close();
        });
        worker.end();
        assert_eq!(log.len(), accepted.load(Relaxed), "in round {round}");
        assert_eq!(ran.load(Relaxed) + returned.load(Relaxed), 20);
    }
}

#[test]
fn d3_workers_closed_one_after_another_while_one_waits_for_the_other() {
    let (first, second) = (
        Running::start(0, Switches::default()),
        Running::start(0, Switches::default()),
    );
    let waited_for = spawn(second.shared.remote(), std::future::pending::<()>());
    let waits = spawn(first.shared.remote(), async { waited_for.await.is_err() });
    // Only once the second worker is gone does the first one's task end.
    second.end();
    assert!(block_on::<Host, _>(waits, 0).unwrap());
    first.end();
}

/// Posts from two threads with these switches; returns the counts.
fn storm(switches: Switches, spin_ns: u64) -> WorkerCounts {
    const EACH: u64 = 3_000;
    let worker = Running::start(spin_ns, switches);
    let log = Log::default();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let (remote, log) = (worker.shared.remote(), log.clone());
            scope.spawn(move || {
                for entry in 0..EACH {
                    assert_eq!(post(remote, entry, &log), Posted::Yes);
                }
            });
        }
    });
    let counts = worker.end();
    assert_eq!(log.len() as u64, 2 * EACH);
    assert!(
        counts.rings <= 2 * EACH + 1,
        "posts and the close: {counts:?}"
    );
    counts
}

#[test]
fn a_storm_of_posts_under_every_switch() {
    for spin_ns in [0, SPIN_NS] {
        let with = |idle_notify, call_coalesce| Switches {
            idle_notify,
            call_coalesce,
            ..Switches::default()
        };
        let on = storm(with(IdleNotify::On, CallCoalesce::On), spin_ns);
        assert_eq!(on.rings_awake, 0);
        let off = storm(with(IdleNotify::Off, CallCoalesce::On), spin_ns);
        assert_eq!(off.rings_awake, 0);
        storm(with(IdleNotify::AlwaysRing, CallCoalesce::On), spin_ns);
        let base = storm(with(IdleNotify::On, CallCoalesce::Base), spin_ns);
        assert!(base.rings >= u64::from(spin_ns == 0), "{base:?}");
    }
}
