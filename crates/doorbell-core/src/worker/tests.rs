//! The loop of a worker on this computer: by hand on the test's thread, and on one of its own.

// Tests on real threads, outside of any model.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

mod between_polls;
mod budget;
mod common;
mod deferred;
mod descriptors;
mod disturbed;
mod hand_on;
mod in_tree;
mod left_to_itself;
mod placed;
mod pull;
mod push;
mod starved;
mod stuck;
mod threads;

use super::pace::{LOOK_NS, POLLS_PER_READING};
use super::spin::SpinEnd;
use super::{IdlePolicy, Pass, Worker, WorkerConfig, WorkerCounts, WorkerShared};
use crate::bell::{Announced, WorkerState};
use crate::link::{Delivered, Node};
use crate::mailbox::Posted;
use crate::scheduler::offline::TakenOff;
use crate::scheduler::{RemoteRef, Scheduler};
use crate::switches::{CallCoalesce, IdleNotify, SwitchWord, Switches};
use crate::testing::{Log, post, spawn, worker_by_hand};
use doorbell_machine::{Counter, Host, Machine as _};
use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::Poll;

fn shared(spin_ns: u64, switches: Switches) -> Arc<WorkerShared<Host>> {
    let switches = Arc::new(SwitchWord::new(switches));
    Arc::new(WorkerShared::new(
        WorkerConfig {
            idle: IdlePolicy::Spin { spin_ns },
        },
        &switches,
    ))
}

/// A worker that the test drives step by step.
fn by_hand(spin_ns: u64, switches: Switches) -> Worker<Host> {
    Worker::new(shared(spin_ns, switches))
}

const NONE: WorkerCounts = WorkerCounts {
    takes: 0,
    delivered: 0,
    polls: 0,
    passes: 0,
    spins: 0,
    notified: 0,
    parks: 0,
    parks_avoided: 0,
    unparks_rung: 0,
    unparks_last_test: 0,
    unparks_deadline: 0,
    unparks_ready: 0,
    timers_fired: 0,
    timers_for_stuck: 0,
    timers_pulled: 0,
    pulls_refused: 0,
    pulls_fenced: 0,
    duties_ended: 0,
    set_aside: 0,
    spun_vain_ns: 0,
    preemptions: 0,
    searches: 0,
    thefts: 0,
    stolen: 0,
    claims: 0,
    watchdogs: 0,
    watchdogs_ended: 0,
    throttles: 0,
    throttled_ns: 0,
    rings: 0,
    rings_awake: 0,
    rings_helped: 0,
    rings_for_stalled: 0,
    stacked: 0,
    claims_lost: 0,
    pulls_placed: 0,
    posts_panicked: 0,
};

/// A spinning worker is posted to three times and spins on; then it is quiet.
fn spin_through_posts(switches: Switches) -> (SpinEnd, WorkerCounts) {
    let worker = by_hand(1_000, switches);
    let log = Log::default();
    assert_eq!(
        worker.shared.remote().bell().announce_spin(),
        Announced::Yes
    );
    for entry in 0..3 {
        assert_eq!(post(worker.shared.remote(), entry, &log), Posted::Yes);
    }
    let end = worker.spin();
    if end == SpinEnd::Busy {
        let _ = worker.shared.remote().bell().end_idle();
        assert!(matches!(worker.pass(), Pass::Work));
    }
    log.assert_once_and_in_order(&[0, 1, 2]);
    (end, worker.shared.counts())
}

#[test]
fn s6_a_spinning_worker_serves_calls_without_a_pass_and_without_a_ring() {
    let expected = WorkerCounts {
        takes: 1,
        delivered: 3,
        spins: 1,
        spun_vain_ns: 1_000,
        notified: 1,
        ..NONE
    };
    let seen = spin_through_posts(Switches::default());
    assert_eq!(seen, (SpinEnd::Quiet, expected));
}

#[test]
fn with_idle_notify_off_every_call_costs_a_pass() {
    let switches = Switches {
        idle_notify: IdleNotify::Off,
        ..Switches::default()
    };
    let expected = WorkerCounts {
        takes: 1,
        delivered: 3,
        spins: 1,
        notified: 1,
        passes: 1,
        ..NONE
    };
    assert_eq!(spin_through_posts(switches), (SpinEnd::Busy, expected));
}

#[test]
fn with_always_ring_a_spinning_worker_is_rung_for_nothing() {
    let switches = Switches {
        idle_notify: IdleNotify::AlwaysRing,
        ..Switches::default()
    };
    let expected = WorkerCounts {
        takes: 1,
        delivered: 3,
        spins: 1,
        spun_vain_ns: 1_000,
        notified: 1,
        rings: 1,
        rings_awake: 1,
        ..NONE
    };
    assert_eq!(spin_through_posts(switches), (SpinEnd::Quiet, expected));
}

#[test]
fn w5_a_post_after_the_announcement_avoids_the_park() {
    // Before the announcement to spin, between the two, and after the second.
    for when in 0..3 {
        let worker = by_hand(0, Switches::default());
        let (remote, log) = (worker.shared.remote(), Log::default());
        let post_if = |now: i32| {
            if now == when {
                assert_eq!(post(remote, 1, &log), Posted::Yes);
            }
        };
        post_if(0);
        assert_eq!(remote.bell().announce_spin(), Announced::Yes);
        post_if(1);
        assert_eq!(remote.bell().announce_park(), Announced::Yes);
        post_if(2);
        assert!(
            !remote.mailbox_is_empty(),
            "the look after the announcement"
        );
        let _ = remote.bell().end_idle();
        // Only the post that found it parked rings; that one looked in vain for a sleeper.
        assert_eq!(remote.counts().rings.get(), u64::from(when == 2));
        // The pass takes it; a call that has run leaves nothing to run.
        assert!(matches!(worker.pass(), Pass::Nothing(_)));
        assert_eq!(log.entries(), [1]);
    }
}

#[test]
fn the_real_park_is_avoided_by_a_post_before_it() {
    let worker = by_hand(0, Switches::default());
    let log = Log::default();
    assert_eq!(
        worker.shared.remote().bell().announce_spin(),
        Announced::Yes
    );
    assert_eq!(post(worker.shared.remote(), 1, &log), Posted::Yes);
    worker.park();
    let counts = worker.shared.counts();
    assert_eq!((counts.parks, counts.parks_avoided), (0, 1));
    let _ = worker.shared.remote().bell().end_idle();
    worker.shared.remote().request_pass();
    worker.park();
    assert_eq!(worker.take().delivered, 1);
    let counts = worker.shared.counts();
    assert_eq!((counts.parks, counts.parks_avoided), (0, 1));
    assert_eq!(counts.rings, 0);
}

#[test]
fn a_request_for_a_pass_that_comes_with_a_post_ends_the_spinning() {
    // The request is cleared by the same step that takes the post, and must not be lost there.
    for request_first in [true, false] {
        let worker = by_hand(u64::MAX, Switches::default());
        let (remote, log) = (worker.shared.remote(), Log::default());
        assert_eq!(remote.bell().announce_spin(), Announced::Yes);
        if request_first {
            remote.request_pass();
        }
        assert_eq!(post(remote, 1, &log), Posted::Yes);
        if !request_first {
            remote.request_pass();
        }
        assert_eq!(worker.spin(), SpinEnd::Busy);
        assert!(remote.bell().end_idle().pass);
        // The pass takes it; a call that has run leaves nothing to run.
        assert!(matches!(worker.pass(), Pass::Nothing(_)));
        assert_eq!(log.entries(), [1]);
    }
}

#[test]
fn a_request_that_comes_while_a_spinning_worker_serves_is_kept() {
    // A call that asks its own worker to close, while the worker spins.
    struct Closes(Arc<WorkerShared<Host>>);
    let worker = by_hand(u64::MAX, Switches::default());
    let remote = worker.shared.remote();
    assert_eq!(remote.bell().announce_spin(), Announced::Yes);
    let closes = Closes(Arc::clone(&worker.shared));
    let call = crate::task::Once::new(move || {
        let it = &closes;
        it.0.close();
    });
    let join = crate::testing::launch_as(remote, crate::task::Kind::Call, call);
    assert_eq!(worker.spin(), SpinEnd::Busy);
    let _ = remote.bell().end_idle();
    assert!(matches!(worker.pass(), Pass::Closing));
    drop(join);
}

#[test]
fn a_pass_comes_after_some_time_whatever_polls_take() {
    const TASKS: u64 = 40;
    let worker = by_hand(0, Switches::default());
    let shared = Arc::clone(&worker.shared);
    worker.local.enter(|| {
        for i in 1..=TASKS {
            let shared = Arc::clone(&shared);
            let compute = async move {
                let from_ns = Host::now_ns();
                while Host::now_ns() < from_ns + LOOK_NS / 2 {}
                // The last one asks the worker to end.
                (i == TASKS).then(|| shared.close())
            };
            drop(spawn(worker.shared.remote(), compute));
        }
    });
    worker.run();
    let counts = shared.counts();
    assert_eq!(counts.polls, TASKS);
    // One after two or three polls; after each one, if the OS lets others run.
    assert!(
        (TASKS / 4..=TASKS + 2).contains(&counts.passes),
        "{counts:?}"
    );
}

#[test]
fn a_request_for_a_pass_interrupts_the_ready_tasks() {
    let worker = by_hand(0, Switches::default());
    let shared = Arc::clone(&worker.shared);
    worker.local.enter(|| {
        for i in 0..10 {
            let shared = Arc::clone(&shared);
            drop(spawn(worker.shared.remote(), async move {
                if i == 3 {
                    shared.remote().request_pass();
                } else if i == 6 {
                    shared.close();
                }
            }));
        }
    });
    worker.run();
    let counts = shared.counts();
    // Passes: first, after the fourth, and the one that closes after the seventh.
    assert_eq!((counts.polls, counts.passes, counts.rings), (7, 3, 0));
}

/// A node that posts itself again whenever it is delivered.
#[repr(C)]
struct Eternal {
    node: Node<Host>,
    remote: RemoteRef<Host>,
    rounds_left: Cell<u64>,
}

/// # Safety
/// As for `Deliver`, for the node of an `Eternal`.
unsafe fn again(node: NonNull<Node<Host>>) -> Delivered {
    // SAFETY: it lies on the test's stack until the mailbox is empty.
    let it = unsafe { node.cast::<Eternal>().as_ref() };
    if it.rounds_left.get() > 0 {
        it.rounds_left.set(it.rounds_left.get() - 1);
        // SAFETY: as above.
        assert_eq!(unsafe { it.remote.post(node) }, Posted::Yes);
    }
    Delivered::Done
}

#[test]
fn b10_calls_without_end_do_not_keep_a_spinning_worker_from_its_pass() {
    let worker = by_hand(u64::MAX, Switches::default());
    let remote = worker.shared.remote().clone();
    let it = Eternal {
        node: Node::new(again),
        remote: remote.clone(),
        rounds_left: Cell::new(u64::MAX),
    };
    assert_eq!(remote.bell().announce_spin(), Announced::Yes);
    // SAFETY: `it` stays in place until its last delivery below.
    let posted = unsafe { remote.post(NonNull::from(&it).cast()) };
    assert_eq!(posted, Posted::Yes);
    assert_eq!(worker.spin(), SpinEnd::Busy);
    let counts = worker.shared.counts();
    assert!(counts.takes > POLLS_PER_READING);
    assert_eq!((counts.delivered, counts.rings), (counts.takes, 0));
    it.rounds_left.set(0);
    assert_eq!(worker.take().delivered, 1);
}

/// Workers of one scheduler.
fn scheduler_by_hand<const N: usize>() -> [Worker<Host>; N] {
    scheduler_that_idles_by(IdlePolicy::Park)
}

fn scheduler_that_idles_by<const N: usize>(idle: IdlePolicy) -> [Worker<Host>; N] {
    all_by_hand(Scheduler::new(N, &Arc::default(), |_, _| 0), idle)
}

/// The workers with these remote halves. The test makes their steps.
fn all_by_hand<const N: usize>(
    remotes: Vec<RemoteRef<Host>>,
    idle: IdlePolicy,
) -> [Worker<Host>; N] {
    let by_hand = |remote| worker_by_hand(remote, idle);
    let workers = remotes.into_iter().map(by_hand);
    workers
        .collect::<Vec<_>>()
        .try_into()
        .expect("as many workers")
}

#[test]
fn w17_a_worker_leaves_the_work_set_before_it_sleeps() {
    let [worker, _other] = scheduler_by_hand();
    let remote = worker.shared.remote().clone();
    let work = remote.scheduler().work();
    worker.local.enter(|| {
        drop(spawn(&remote, async {}));
        assert!(work.holds(0));
        assert!(worker.local.run_one());
    });
    assert!(work.holds(0), "it may get the next one soon");
    assert!(!worker.look_for_the_last_time());
    assert!(!work.holds(0));
    // It gets a task while it idles, which is stolen at once.
    work.add(0);
    assert!(!worker.look_for_the_last_time());
    assert!(!work.holds(0));
    worker.leave_idle_set();
    worker.local.enter(|| drop(spawn(&remote, async {})));
    assert!(work.holds(0), "and so for each stay");
    worker.local.enter(|| worker.local.close());
}

#[test]
fn s2_a_watchdog_that_is_taken_off_leaves_it_to_another() {
    let [busy, first, second, third] = scheduler_by_hand();
    // It runs, and has one task waiting.
    busy.local
        .enter(|| drop(spawn(busy.shared.remote(), async {})));
    assert!(first.next_look().is_some());
    assert!(second.next_look().is_some());
    assert!(third.next_look().is_none(), "there are two");
    let scheduler = first.shared.remote().scheduler();
    assert_eq!(scheduler.take_off(1), TakenOff::Now);
    first.local.follow();
    assert!(first.next_look().is_none(), "it is off");
    assert!(third.next_look().is_some(), "the next one");
    busy.local.enter(|| busy.local.close());
}

#[test]
fn posts_wait_for_a_worker_that_has_not_begun() {
    for call_coalesce in [CallCoalesce::On, CallCoalesce::Base] {
        let switches = Switches {
            call_coalesce,
            ..Switches::default()
        };
        let shared = shared(0, switches);
        let log = Log::default();
        for entry in 0..5 {
            assert_eq!(post(shared.remote(), entry, &log), Posted::Yes);
        }
        shared.close();
        assert_eq!((log.len(), shared.state()), (0, WorkerState::Running));
        Worker::new(Arc::clone(&shared)).run();
        log.assert_once_and_in_order(&[0, 1, 2, 3, 4]);
        let counts = shared.counts();
        assert_eq!((counts.passes, counts.delivered, counts.takes), (1, 5, 1));
        assert_eq!(post(shared.remote(), 9, &log), Posted::Closed);
    }
}

#[test]
fn a_close_cancels_what_waits_and_runs_what_was_posted() {
    let worker = by_hand(0, Switches::default());
    let shared = Arc::clone(&worker.shared);
    let log = Log::default();
    let joins = worker.local.enter(|| {
        let waits = spawn(shared.remote(), std::future::pending::<()>());
        let (theirs, log) = (Arc::clone(&shared), log.clone());
        let closes = spawn(
            shared.remote(),
            std::future::poll_fn(move |_| {
                theirs.close();
                assert_eq!(post(theirs.remote(), 7, &log), Posted::Yes);
                Poll::Ready(())
            }),
        );
        let late = spawn(shared.remote(), async {});
        [waits, closes, late]
    });
    worker.run();
    let [waits, closes, late] = joins.map(|join| crate::wait::block_on::<Host, _>(join, 0));
    assert!(waits.unwrap_err().is_cancelled());
    closes.unwrap();
    assert!(late.unwrap_err().is_cancelled());
    assert_eq!((log.entries(), shared.counts().polls), (vec![7], 2));
}

#[test]
fn counts_since_a_moment() {
    let shared = shared(0, Switches::default());
    let log = Log::default();
    assert_eq!(shared.counts(), NONE);
    assert_eq!(post(shared.remote(), 1, &log), Posted::Yes);
    shared.close();
    let before = shared.counts();
    assert_eq!(before.since(&NONE), before);
    Worker::new(Arc::clone(&shared)).run();
    let after = shared.counts().since(&before);
    let expected = WorkerCounts {
        takes: 1,
        delivered: 1,
        passes: 1,
        ..NONE
    };
    assert_eq!(after, expected);
}
