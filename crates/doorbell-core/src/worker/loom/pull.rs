//! Workers in the timer tree, by the steps of the real ones: what one of them leaves to the others is seen by one, and
//! a timer that two find due fires once.

use super::with_one_clock;
use crate::scheduler::Scheduler;
use crate::scheduler::offline::TakenOff;
use crate::switches::TimerPull;
use crate::testing::model::{Shows, check_large, must_be_noticed_by, mutant};
use crate::testing::{Wakes, pulling};
use crate::worker::timer::RawTimer;
use crate::worker::{IdlePolicy, Worker, WorkerShared};
use ::loom::thread;
use doorbell_machine::{Bug, Loom};
use std::sync::Arc;
use std::task::Waker;

/// The worker that runs.
const BUSY: usize = 0;
/// The worker that falls asleep.
const SLEEPER: usize = 1;
/// One that sleeps all the time.
const ASLEEP: usize = 2;

/// When the timers of the models are due: always.
const DUE_NS: u64 = 0;
/// When another one is due: not in a model.
const NEVER_NS: u64 = u64::MAX - 1;

/// A scheduler with `timer_pull=on`, whose last worker sleeps and can be claimed; the others are active.
fn two_active() -> [Arc<WorkerShared<Loom>>; 3] {
    let remotes = Scheduler::new(3, &pulling::<Loom>(TimerPull::On), |_, _| 0);
    let workers = with_one_clock(remotes, IdlePolicy::Park);
    let scheduler = workers[BUSY].remote().scheduler();
    scheduler.idle().enter(ASLEEP);
    let tree = scheduler.tree().expect("it is of class Fair");
    tree.activate(BUSY);
    tree.activate(SLEEPER);
    workers
}

/// A worker leaves a timer to one that begins a long poll: it finds that one, and looks after it, or that one asks a third
/// worker for that.
fn leave_against_run() {
    let workers = two_active();
    let shared = Arc::clone(&workers[SLEEPER]);
    let sleeper = thread::spawn(move || {
        let worker = Worker::new(shared);
        worker.shared.remote().publish_next_global(DUE_NS);
        let until_ns = worker.leave_timers();
        assert_eq!(until_ns, None, "another worker is awake");
        worker.wish_ns(0).is_some()
    });
    Worker::new(Arc::clone(&workers[BUSY]))
        .local
        .begin_long_poll();
    let sees = sleeper.join().unwrap();
    let idle = workers[BUSY].remote().scheduler().idle();
    assert!(sees || !idle.holds(ASLEEP), "nobody was told");
}

/// A worker that is off leaves a timer to one that begins a long poll. Whoever sees the other asks a third worker for it.
fn step_aside_against_run() {
    let workers = two_active();
    let shared = Arc::clone(&workers[SLEEPER]);
    let taken = shared.remote().scheduler().take_off(SLEEPER);
    assert_eq!(taken, TakenOff::Now);
    let sleeper = thread::spawn(move || {
        let worker = Worker::new(shared);
        worker.local.follow();
        worker.shared.remote().publish_next_global(DUE_NS);
        assert_eq!(worker.leave_timers(), None, "it is off");
    });
    Worker::new(Arc::clone(&workers[BUSY]))
        .local
        .begin_long_poll();
    sleeper.join().unwrap();
    let idle = workers[BUSY].remote().scheduler().idle();
    assert!(!idle.holds(ASLEEP), "nobody was told");
}

/// A worker that has left its timer wakes at once, and finds it due, as the one that looks after it does.
fn wake_against_pull() {
    let workers = two_active();
    let wakes = Arc::new(Wakes::default());
    let (shared, waker) = (
        Arc::clone(&workers[SLEEPER]),
        Waker::from(Arc::clone(&wakes)),
    );
    let sleeper = thread::spawn(move || {
        let worker = Worker::new(shared);
        worker.local.enter_gated(|| {
            let timer = RawTimer::arm(worker.shared.remote(), DUE_NS, &waker);
            drop(waker);
            let _ = worker.leave_timers();
            worker.come_back();
            worker.expire();
            drop(timer);
            worker.local.close();
        });
    });
    let busy = Worker::new(Arc::clone(&workers[BUSY]));
    let pulled = busy.pull_timers();
    sleeper.join().unwrap();
    let fired = wakes.get();
    assert!(fired <= 1, "fired twice");
    assert!(!pulled || fired == 1, "fired, and woke nobody");
    assert_eq!(Arc::strong_count(&wakes), 1, "a waker was leaked");
}

/// A worker ends while the one that looks after its timers visits it. Behind that nothing waits for the worker that has
/// ended.
fn end_against_pull() {
    let workers = two_active();
    let shared = Arc::clone(&workers[SLEEPER]);
    let sleeper = thread::spawn(move || {
        let worker = Worker::new(shared);
        worker.local.enter_gated(|| {
            let arm = |at_ns| RawTimer::arm(worker.shared.remote(), at_ns, Waker::noop());
            let timers = [DUE_NS, NEVER_NS].map(arm);
            let _ = worker.leave_timers();
            worker.come_back();
            worker.leave_tree();
            worker.close();
            drop(timers);
        });
    });
    let busy = Worker::new(Arc::clone(&workers[BUSY]));
    let _ = busy.pull_timers();
    sleeper.join().unwrap();
    let tree = workers[BUSY].remote().scheduler().tree();
    let left_ns = tree.expect("it is of class Fair").next_ns(BUSY);
    assert_eq!(left_ns, u64::MAX, "a next wake was left behind");
}

#[test]
fn a_worker_that_ends_leaves_no_next_wake_behind() {
    check_large(end_against_pull);
}

#[test]
fn mutant_ends_early() {
    mutant!(PullEndsEarly, end_against_pull);
}

#[test]
fn a_timer_that_is_left_to_a_worker_that_begins_to_run_is_looked_after() {
    check_large(leave_against_run);
}

#[test]
fn a_timer_that_a_worker_which_is_off_leaves_is_looked_after() {
    check_large(step_aside_against_run);
}

#[test]
fn a_timer_that_its_worker_and_a_migrator_find_due_fires_once() {
    check_large(wake_against_pull);
}

#[test]
fn mutant_leaves_no_fence() {
    mutant!(PullLeavesNoFence, leave_against_run);
}

#[test]
fn a_worker_that_is_off_and_leaves_no_fence_is_noticed() {
    let test = "worker::loom::pull::a_worker_that_is_off_and_leaves_no_fence_is_noticed";
    must_be_noticed_by(
        test,
        Shows::Assertion("nobody was told"),
        Bug::PullLeavesNoFence,
        step_aside_against_run,
    );
}
