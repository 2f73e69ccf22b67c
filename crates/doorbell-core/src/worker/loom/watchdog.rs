//! Workers that stop to look after others, or ask others to look after them, by the steps of the real ones: what
//! one of them leaves undone is seen by the other, or a worker that sleeps is told.

use super::with_one_clock;
use crate::queue::{Share, is_shareable};
use crate::scheduler::idle::Left;
use crate::scheduler::idle::Wish;
use crate::scheduler::{Member, Scheduler};
use crate::testing::model::check;
use crate::testing::{Item, Log};
use crate::worker::watch::SOON_NS;
use crate::worker::{IdlePolicy, Worker, WorkerShared};
use ::loom::thread;
use doorbell_machine::{Loom, Machine, Parker, Word};
use std::sync::Arc;

/// The worker that has something to run.
const BUSY: usize = 0;

/// The worker that looks after others.
const CHECKER: usize = 1;

/// One more that is awake.
const OTHER: usize = 2;

/// The worker that sleeps.
const ASLEEP: usize = 3;

/// When a timer is due that needs one look then, and no watchdog.
const FAR_NS: u64 = 1 << 40;

/// When the timers of the models are due: always.
const DUE_NS: u64 = 0;

type Shared = Arc<WorkerShared<Loom>>;

/// A scheduler in which the last worker can be claimed. So many of its watchdogs are there already.
fn scheduler(watchdogs: usize) -> [Shared; 4] {
    let remotes = Scheduler::new(4, &Arc::default(), |_, _| 0);
    let workers = with_one_clock(remotes, IdlePolicy::Park);
    let idle = workers[BUSY].remote().scheduler().idle();
    idle.enter(ASLEEP);
    let _ = workers[ASLEEP].remote().bell().announce_spin();
    for _ in 0..watchdogs {
        let _ = idle.begin_watchdog();
    }
    assert_eq!(idle.lacks_watchdog(), watchdogs < 2);
    workers
}

#[track_caller]
fn assert_told(workers: &[Shared; 4]) {
    let idle = workers[BUSY].remote().scheduler().idle();
    assert!(!idle.holds(ASLEEP), "nobody was told");
}

/// The worker, whose thread the caller is, gets one task and makes it known.
fn put(remote: &Member<Loom>) {
    let node = Item::boxed(1, &Log::default());
    // SAFETY: this thread is the owner; the node lives until `drain`.
    let _ = unsafe { remote.queue().push(node, Share::Always) };
    remote.scheduler().work().add_anew(remote.worker());
}

/// The same, and a fence follows.
fn push(remote: &Member<Loom>) {
    put(remote);
    <Loom>::fence_recheck();
}

/// Takes that task out again.
fn drain(remote: &Member<Loom>) {
    // SAFETY: the worker's thread has ended, or is this one.
    let node = unsafe { remote.queue().pop() }.expect("nobody ran it");
    // SAFETY: made by `push`, and in no queue any more.
    let _ = unsafe { Item::reclaim(node) };
}

/// In a model a sleep with an end takes no time but that of its thread.
fn sleep_for(ns: u64) {
    let parker = <<Loom as Machine>::Parker as Parker<Loom>>::new();
    let until_ns = <Loom>::now_ns() + ns;
    let word = <Loom as Machine>::U32::new(0);
    let _ = Parker::<Loom>::park(&parker, &word, 0, Some(until_ns));
}

/// One of two watchdogs gets something to do, while the busy worker relies on both.
fn end_against<R>(relies: fn(Shared) -> R) -> ([Shared; 4], R) {
    let workers = scheduler(2);
    workers[CHECKER].remote().set_watchdog(true);
    let shared = Arc::clone(&workers[CHECKER]);
    let watchdog = thread::spawn(move || Worker::new(shared).end_watchdog());
    let relied = relies(Arc::clone(&workers[BUSY]));
    watchdog.join().unwrap();
    assert_told(&workers);
    (workers, relied)
}

fn end_against_push() {
    let (workers, ()) = end_against(|shared| {
        push(shared.remote());
        shared.remote().scheduler().arm_watchdog(BUSY);
    });
    drain(workers[BUSY].remote());
}

/// Of a worker that has a timer, and begins a long poll.
fn end_against_long_poll() {
    end_against(|shared| {
        shared.remote().publish_next_global(DUE_NS);
        Worker::new(shared).local.begin_long_poll();
    });
}

/// Of one that has a timer, and begins to rest.
fn end_against_quiescence() {
    end_against(|shared| {
        shared.remote().publish_next_global(DUE_NS);
        Worker::new(shared).leave_to_others();
    });
}

/// One of two watchdogs stops being one, because it need only look at a timer that is due later.
fn look_later_against_push() {
    let workers = scheduler(2);
    let other = workers[OTHER].remote();
    other.publish_next_global(FAR_NS);
    other.set_expects_long(true);
    other.scheduler().work().add(OTHER);
    workers[CHECKER].remote().set_watchdog(true);
    let shared = Arc::clone(&workers[CHECKER]);
    let looks = thread::spawn(move || Worker::new(shared).next_look());
    let busy = workers[BUSY].remote();
    push(busy);
    busy.scheduler().arm_watchdog(BUSY);
    let looks_ns = looks.join().unwrap();
    let is_told = !busy.scheduler().idle().holds(ASLEEP);
    let looks_soon = looks_ns.is_some_and(|looks_ns| looks_ns < FAR_NS);
    assert!(looks_soon || is_told, "nobody looks soon");
    drain(busy);
}

/// A worker that was claimed to be a watchdog, and has something to do by now. Its claim has lapsed, so that
/// it sees to no search.
fn decline_against_push() {
    let workers = scheduler(1);
    let idle = workers[BUSY].remote().scheduler().idle();
    idle.enter(CHECKER);
    let wanted = idle.want_watchdog(Wish::of(CHECKER), |_| true);
    assert_eq!(wanted, Some(CHECKER));
    assert!(idle.lapse(CHECKER).is_some());
    let shared = Arc::clone(&workers[CHECKER]);
    let declines = thread::spawn(move || {
        let worker = Worker::new(shared);
        worker.looking.set_in_idle_set();
        worker.leave_idle_set();
        push(worker.shared.remote());
        worker.end_watchdog();
        worker.end_search();
    });
    let busy = workers[BUSY].remote();
    push(busy);
    busy.scheduler().arm_watchdog(BUSY);
    declines.join().unwrap();
    assert_told(&workers);
    drain(busy);
    drain(workers[CHECKER].remote());
}

/// A worker ends the last search, since it has found something, while the busy worker relies on that search.
fn end_of_search_against_push() {
    let workers = scheduler(2);
    let _ = workers[BUSY]
        .remote()
        .scheduler()
        .idle()
        .begin_search(CHECKER);
    let shared = Arc::clone(&workers[CHECKER]);
    let searches = thread::spawn(move || {
        let worker = Worker::new(shared);
        worker.looking.set_counted();
        push(worker.shared.remote());
        worker.end_search();
    });
    let busy = workers[BUSY].remote();
    push(busy);
    busy.scheduler().offer(BUSY);
    searches.join().unwrap();
    assert_told(&workers);
    drain(busy);
    drain(workers[CHECKER].remote());
}

/// A watchdog lets the last search lapse while the busy worker relies on it: it sees what that worker has.
fn lapse_against_push() {
    let workers = scheduler(2);
    let idle = workers[BUSY].remote().scheduler().idle();
    let _ = idle.begin_search(OTHER);
    let shared = Arc::clone(&workers[CHECKER]);
    let watchdog = thread::spawn(move || {
        let worker = Worker::new(shared);
        let idle = worker.shared.remote().scheduler().idle();
        let searches = || idle.is_searching(OTHER);
        // The first look, one that comes just too soon after it, and one that does not.
        for (ns, lapses) in [(SOON_NS, false), (SOON_NS - 1, false), (1, true)] {
            sleep_for(ns);
            worker.end_lapsed_searches();
            assert_eq!(searches(), !lapses);
        }
        worker.others_have_work()
    });
    let busy = workers[BUSY].remote();
    push(busy);
    busy.scheduler().offer(BUSY);
    let sees = watchdog.join().unwrap();
    assert!(sees || !idle.holds(ASLEEP), "nobody knows of the task");
    drain(busy);
}

/// A worker gets more than it runs next while another one falls asleep.
fn surplus_against_sleep() {
    let workers = scheduler(2);
    let idle = workers[BUSY].remote().scheduler().idle();
    assert_eq!(idle.leave(ASLEEP), Left::ByItself);
    let [busy, own] = [BUSY, ASLEEP].map(|worker| workers[worker].remote().clone());
    let sleeper = thread::spawn(move || {
        own.scheduler().idle().enter(ASLEEP);
        own.scheduler().work().holds(BUSY) && is_shareable(busy.queue().len())
    });
    let worker = Worker::new(Arc::clone(&workers[BUSY]));
    (0..2).for_each(|_| put(worker.shared.remote()));
    worker.offer_new_surplus();
    let sees = sleeper.join().unwrap();
    assert!(sees || !idle.holds(ASLEEP), "it sleeps, and knows nothing");
    (0..2).for_each(|_| drain(worker.shared.remote()));
}

#[test]
fn a_worker_that_falls_asleep_sees_what_another_got_or_is_told() {
    check(surplus_against_sleep);
}

#[test]
fn what_comes_while_a_watchdog_ends_is_looked_after() {
    check(end_against_push);
}

#[test]
fn what_comes_while_a_watchdog_ends_for_a_timer_that_is_due_later_is_looked_after() {
    check(look_later_against_push);
}

#[test]
fn a_timer_of_a_worker_that_begins_a_long_poll_is_looked_after_while_a_watchdog_ends() {
    check(end_against_long_poll);
}

#[test]
fn a_timer_of_a_worker_that_is_throttled_is_looked_after_while_a_watchdog_ends() {
    check(end_against_quiescence);
}

#[test]
fn what_comes_while_a_worker_declines_to_be_a_watchdog_is_looked_after() {
    check(decline_against_push);
}

#[test]
fn what_comes_while_the_last_search_ends_is_offered() {
    check(end_of_search_against_push);
}

#[test]
fn what_comes_while_the_last_search_lapses_is_offered() {
    check(lapse_against_push);
}
