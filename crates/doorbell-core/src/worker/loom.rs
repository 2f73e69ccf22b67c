//! The worker's real loop in every interleaving, from its start to its close.

// What a model counts with std's atomics and locks is not part of it and orders nothing in it.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use super::{IdlePolicy, Worker, WorkerConfig, WorkerCounts, WorkerShared};
use crate::io::{Direction, Registration};
use crate::mailbox::Posted;
use crate::scheduler::RemoteRef;
use crate::switches::{IdleNotify, SwitchWord, Switches};
use crate::testing::model::{Shows, check, check_large, must_be_noticed_by, mutant};
use crate::testing::{Log, call, post, spawn};
use crate::wait::block_on;
use crate::wheel::Clock;
use ::loom::sync::atomic::AtomicU32;
use ::loom::thread::{self, JoinHandle};
use doorbell_machine::loom::LoomFd;
use doorbell_machine::{Bug, Loom, Readiness};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

/// Shows that the model notices a mutant, as does that of the mutant's own protocol.
macro_rules! also_noticed {
    ($test:ident, $bug:ident, $model:ident) => {
        #[test]
        fn $test() {
            let test = concat!(module_path!(), "::", stringify!($test));
            let test = test.trim_start_matches("doorbell_core::");
            must_be_noticed_by(test, Shows::Deadlock, Bug::$bug, $model);
        }
    };
}

mod behind;
mod keeper;
mod pair;
mod placed;
mod pull;
mod push;
mod relieve;
mod spin;
mod stalls;
mod watchdog;

/// The workers with these remote halves, which idle like that. They have one clock.
fn with_one_clock<const RING: usize, const N: usize>(
    remotes: Vec<RemoteRef<Loom<RING>>>,
    idle: IdlePolicy,
) -> [Arc<WorkerShared<Loom<RING>>>; N] {
    let (clock, config) = (Arc::new(Clock::default()), WorkerConfig { idle });
    let shared = |remote| Arc::new(WorkerShared::with(config, remote, Arc::clone(&clock)));
    let workers: Vec<_> = remotes.into_iter().map(shared).collect();
    let workers = workers.try_into().ok();
    workers.expect("the scheduler has so many workers")
}

/// The worker runs on a thread of its own; the model's first thread posts, spawns and closes.
struct Running {
    shared: Arc<WorkerShared<Loom>>,
    thread: JoinHandle<()>,
}

impl Running {
    fn start(spin_ns: u64) -> Self {
        Self::start_with(spin_ns, IdleNotify::On)
    }

    fn start_with(spin_ns: u64, idle_notify: IdleNotify) -> Self {
        Self::start_shared(&Self::shared(spin_ns, idle_notify))
    }

    fn shared(spin_ns: u64, idle_notify: IdleNotify) -> Arc<WorkerShared<Loom>> {
        let switches = Switches {
            idle_notify,
            ..Switches::default()
        };
        let switches = Arc::new(SwitchWord::new(switches));
        Arc::new(WorkerShared::new(
            WorkerConfig {
                idle: IdlePolicy::Spin { spin_ns },
            },
            &switches,
        ))
    }

    /// The worker is made by its thread.
    fn start_shared(shared: &Arc<WorkerShared<Loom>>) -> Self {
        let (shared, theirs) = (Arc::clone(shared), Arc::clone(shared));
        let thread = thread::spawn(move || Worker::new(theirs).run());
        Running { shared, thread }
    }

    /// Waits for a worker that was asked to close; the counts are those of a worker at rest.
    fn ended(self) -> WorkerCounts {
        self.thread.join().unwrap();
        let counts = self.shared.counts();
        let announced = counts.parks + counts.parks_avoided;
        assert!(counts.rings <= announced, "{counts:?}");
        let told = counts.unparks_rung + counts.unparks_last_test + counts.unparks_ready;
        assert_eq!(counts.parks, told + counts.unparks_deadline);
        assert_eq!(counts.rings_awake, 0);
        assert!(counts.passes > counts.parks, "{counts:?}");
        counts
    }
}

/// A worker that idles is asked to close.
fn close() {
    let worker = Running::start(0);
    worker.shared.close();
    let counts = worker.ended();
    assert_eq!((counts.delivered, counts.polls), (0, 0));
}

/// The same while it spins.
fn close_while_spinning() {
    let worker = Running::start(1);
    worker.shared.close();
    let counts = worker.ended();
    assert_eq!((counts.delivered, counts.polls), (0, 0));
}

/// A post and the close come from two threads: what was accepted is delivered.
fn post_and_close() {
    post_and_close_with(IdleNotify::On);
}

/// The same where the post too asks for a pass.
fn post_and_close_by_passes() {
    post_and_close_with(IdleNotify::Off);
}

fn post_and_close_with(idle_notify: IdleNotify) {
    let worker = Running::start_with(1, idle_notify);
    let log = Log::default();
    let (shared, theirs) = (Arc::clone(&worker.shared), log.clone());
    let poster = thread::spawn(move || {
        let posted = post(shared.remote(), 100, &theirs);
        posted == Posted::Yes
    });
    worker.shared.close();
    let accepted = u64::from(poster.join().unwrap());
    let counts = worker.ended();
    assert_eq!(log.len() as u64, accepted);
    // What the close itself took is not counted as a take.
    assert!(counts.delivered <= accepted);
}

/// A task is spawned, joined, and then the worker closes.
fn spawn_join_close() {
    let worker = Running::start(0);
    let polls = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&polls);
    let join = spawn(worker.shared.remote(), async move {
        count.fetch_add(1, Relaxed);
        7
    });
    let output = block_on::<Loom, _>(join, 0);
    assert_eq!(output.unwrap(), 7);
    worker.shared.close();
    let counts = worker.ended();
    assert_eq!(
        (polls.load(Relaxed), counts.polls, counts.delivered),
        (1, 1, 1)
    );
}

/// A task is spawned and the worker closes at once: it runs, or it is cancelled.
fn spawn_against_close() {
    let worker = Running::start(0);
    let join = spawn(worker.shared.remote(), async { 7 });
    worker.shared.close();
    match block_on::<Loom, _>(join, 0) {
        Ok(output) => assert_eq!(output, 7),
        Err(error) => assert!(error.is_cancelled(), "{error}"),
    }
    let counts = worker.ended();
    assert!(counts.polls <= 1);
}

/// Two posters, then the close: all is delivered once.
fn two_posters_then_close() {
    let worker = Running::start(0);
    let log = Log::default();
    let (shared, theirs) = (Arc::clone(&worker.shared), log.clone());
    let poster = thread::spawn(move || {
        assert_eq!(post(shared.remote(), 100, &theirs), Posted::Yes);
    });
    assert_eq!(post(worker.shared.remote(), 200, &log), Posted::Yes);
    poster.join().unwrap();
    worker.shared.close();
    let counts = worker.ended();
    log.assert_once_and_in_order(&[100, 200]);
    // The close itself delivers what the last take missed.
    assert!(counts.takes <= counts.delivered && counts.delivered <= 2);
}

/// A thread blocks on a call, then the worker closes.
fn blocking_call_then_close() {
    let worker = Running::start(1);
    let ran = AtomicUsize::new(0);
    let result = call(worker.shared.remote(), || ran.fetch_add(1, Relaxed));
    assert!(matches!(result, Ok(0)), "the worker was not asked to close");
    worker.shared.close();
    let counts = worker.ended();
    assert_eq!((counts.delivered, counts.takes), (1, 1));
    assert_eq!(ran.into_inner(), 1);
}

/// A task is woken while its worker polls it for the first time, or idles.
fn wake_then_close() {
    let worker = Running::start(0);
    let (polls, waker) = (Arc::new(AtomicUsize::new(0)), Arc::new(Waiting::default()));
    let (count, theirs) = (Arc::clone(&polls), Arc::clone(&waker));
    let join = spawn(
        worker.shared.remote(),
        std::future::poll_fn(move |cx| {
            count.fetch_add(1, Relaxed);
            theirs.poll(cx)
        }),
    );
    waker.wake();
    block_on::<Loom, _>(join, 0).unwrap();
    worker.shared.close();
    let counts = worker.ended();
    let polls = polls.load(Relaxed) as u64;
    assert!((1..=2).contains(&polls), "{polls} polls for one wake");
    assert_eq!(counts.polls, polls);
    // A wake during the poll does not go through the mailbox.
    assert!((1..=polls).contains(&counts.delivered), "{counts:?}");
}

/// A waker that asks the worker to end.
struct Closes(Arc<WorkerShared<Loom>>);

impl Wake for Closes {
    fn wake(self: Arc<Self>) {
        self.0.close();
    }
}

/// A worker that idles gets its first descriptor, which is ready, and ends when it has brought that.
fn first_descriptor() {
    let worker = Running::start(0);
    let remote = worker.shared.remote().clone();
    let registration = Registration::new(remote.clone(), LoomFd(0)).unwrap();
    let poller = remote.driver().poller().unwrap();
    poller.set_ready(LoomFd(0), Readiness::READABLE);
    let waker = Waker::from(Arc::new(Closes(Arc::clone(&worker.shared))));
    let polled = registration.poll_ready(&Context::from_waker(&waker), Direction::Read);
    if polled.is_ready() {
        worker.shared.close();
    }
    let counts = worker.ended();
    assert_eq!((counts.delivered, counts.polls), (0, 0));
    drop(registration);
}

/// The part of a task that is dropped with it, and says whether it sees what was written then.
struct Sees {
    written: Arc<AtomicU32>,
    seen: Arc<AtomicUsize>,
}

impl Drop for Sees {
    fn drop(&mut self) {
        self.seen
            .fetch_add(1 + self.written.load(Relaxed) as usize, Relaxed);
    }
}

/// A worker is asked to close, and ends a task: that one sees what the asker did before.
fn write_and_close() {
    let shared = Running::shared(0, IdleNotify::On);
    let (written, seen) = (Arc::new(AtomicU32::new(0)), Arc::default());
    let part = Sees {
        written: Arc::clone(&written),
        seen: Arc::clone(&seen),
    };
    drop(spawn(shared.remote(), async move {
        std::future::pending::<()>().await;
        drop(part);
    }));
    let worker = Running::start_shared(&shared);
    written.store(1, Relaxed);
    shared.close();
    let _ = worker.ended();
    assert_eq!(seen.load(Relaxed), 2, "a task ended, and did not see it");
}

/// A task's wait for one event, by a lock that the model does not see.
#[derive(Default)]
struct Waiting(Mutex<(bool, Option<Waker>)>);

impl Waiting {
    fn poll(&self, cx: &Context<'_>) -> Poll<()> {
        // No step of the model while the lock is held: another thread of it would wait here.
        let waker = cx.waker().clone();
        let mut inner = self.0.lock().unwrap();
        let unused = if inner.0 {
            Some(waker)
        } else {
            inner.1.replace(waker)
        };
        let ready = inner.0;
        drop(inner);
        drop(unused);
        if ready {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }

    fn wake(&self) {
        let mut inner = self.0.lock().unwrap();
        inner.0 = true;
        let waker = inner.1.take();
        drop(inner);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

#[test]
fn two_posters_are_served_before_the_close() {
    check_large(two_posters_then_close);
}

#[test]
fn a_blocking_call_is_served_before_the_close() {
    check(blocking_call_then_close);
}

#[test]
fn a_wake_reaches_an_idle_worker() {
    check_large(wake_then_close);
}

#[test]
fn a_close_is_never_missed() {
    check(close);
    check(close_while_spinning);
}

#[test]
fn what_was_done_before_the_close_is_seen_by_what_that_ends() {
    check(write_and_close);
}

#[test]
fn what_was_accepted_before_the_close_is_delivered() {
    check(post_and_close);
    check(post_and_close_by_passes);
}

#[test]
fn a_task_is_spawned_joined_and_the_worker_closed() {
    check_large(spawn_join_close);
}

#[test]
fn a_task_is_spawned_against_the_close() {
    check_large(spawn_against_close);
}

#[test]
fn a_first_descriptor_reaches_an_idle_worker() {
    check(first_descriptor);
}

// Fences, which a simulated machine does not miss.
also_noticed!(mutant_no_arm_fence, IoNoArmFence, first_descriptor);
also_noticed!(mutant_no_event_fence, IoNoEventFence, first_descriptor);

#[test]
fn mutant_clear_after_take() {
    mutant!(BellClearAfterTake, close);
}
