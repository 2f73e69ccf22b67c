//! Workers that stop to look after others, or ask others to look after them, by the steps of the real ones: what
//! one of them leaves undone is seen by the other, or a worker that sleeps is told.

use super::with_one_clock;
use crate::queue::{Share, is_shareable};
use crate::scheduler::idle::Left;
use crate::scheduler::idle::Wish;
use crate::scheduler::{Member, Scheduler};
use crate::task::Kind;
use crate::testing::model::{check, check_large, mutant};
use crate::testing::{Item, Log, launch_as, spawn};
use crate::worker::pace::POLLS_PER_READING;
use crate::worker::timer::RawTimer;
use crate::worker::watchdog::{NextCheck, WATCHDOG_MIN_NS};
use crate::worker::{IdlePolicy, Worker, WorkerShared};
use ::loom::thread;
use doorbell_machine::{Loom, Machine, Parker, Word};
use std::sync::Arc;
use std::task::Waker;

/// The worker that has something to run.
const BUSY: usize = 0;

/// The worker that looks after others.
const CHECKER: usize = 1;

/// One more that is awake.
const OTHER: usize = 2;

/// The worker that sleeps.
const ASLEEP: usize = 3;

/// When a timer is due that needs a timed check and no watchdog.
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
    workers[BUSY].remote().scheduler().watchful().begin(0);
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

/// Of a worker that has a timer, and begins to run.
fn end_against_run() {
    end_against(|shared| {
        shared.remote().publish_next_global(DUE_NS);
        Worker::new(shared).ask_for_watchdog();
    });
}

/// Of one that arms a timer in a poll, and begins the next one.
fn end_against_poll() {
    let (_, worker) = end_against(|shared| {
        let (remote, worker) = (shared.remote().clone(), Worker::new(shared));
        let arms = async move {
            let _timer = RawTimer::arm(&remote, DUE_NS, Waker::noop());
            std::future::pending::<()>().await;
        };
        worker.local.enter(|| {
            let remote = worker.shared.remote();
            worker.local.bring(|| drop(spawn(remote, arms)));
            drop(launch_as(remote, Kind::Pinned, async {}));
            // As if it had asked before.
            worker.local.set_unattended(false);
            // And as behind many tiny polls: it reads no clock between these two.
            (0..POLLS_PER_READING).for_each(|_| _ = worker.local.pace().read(0));
            worker.run_ready();
        });
        worker
    });
    worker.local.enter(|| worker.local.close());
}

/// Of one that has a timer, and begins to rest.
fn end_against_quiescence() {
    end_against(|shared| {
        shared.remote().publish_next_global(DUE_NS);
        Worker::new(shared).leave_to_others();
    });
}

/// One of two watchdogs stops being one, and plans a timed check instead.
fn plan_against_push() {
    let workers = scheduler(2);
    workers[CHECKER].remote().set_watchdog(true);
    let shared = Arc::clone(&workers[CHECKER]);
    let plans = thread::spawn(move || Worker::new(shared).plan_check(0, Some(FAR_NS)));
    let busy = workers[BUSY].remote();
    push(busy);
    busy.scheduler().arm_watchdog(BUSY);
    let next = plans.join().unwrap();
    let sees = matches!(next, NextCheck::Soon(_));
    let is_told = !busy.scheduler().idle().holds(ASLEEP);
    assert!(sees || is_told, "nobody looks soon");
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
        worker.in_idle_set.set(true);
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

/// A worker that was woken for a timed check has something to do by now, while another one asks for a check.
fn decline_against_far_timer() {
    let workers = scheduler(0);
    let scheduler = workers[BUSY].remote().scheduler();
    scheduler.watchful().begin(0);
    scheduler.idle().enter(CHECKER);
    // For a timer that was cancelled since. The claim has lapsed, so that the worker sees to no search.
    assert_eq!(
        scheduler.idle().claim(Wish::of(CHECKER), |_| true),
        Some(CHECKER)
    );
    scheduler.checks().plan(CHECKER, FAR_NS);
    assert!(scheduler.idle().lapse(CHECKER).is_some());
    let shared = Arc::clone(&workers[CHECKER]);
    let declines = thread::spawn(move || {
        let worker = Worker::new(shared);
        worker.in_idle_set.set(true);
        worker.leave_idle_set();
        put(worker.shared.remote());
        worker.end_watchdog();
        worker.end_search();
    });
    workers[BUSY].remote().publish_next_global(FAR_NS);
    Worker::new(Arc::clone(&workers[BUSY])).ask_for_watchdog();
    declines.join().unwrap();
    assert_told(&workers);
    drain(workers[CHECKER].remote());
}

/// A worker that is claimed for a timed check sees that before it is told. It has something to do, and an earlier
/// check, which the end of another one has hidden.
fn decline_against_claim() {
    let workers = scheduler(0);
    let scheduler = workers[BUSY].remote().scheduler();
    scheduler.watchful().begin(0);
    let earlier_ns = FAR_NS / 2;
    scheduler.checks().plan(CHECKER, earlier_ns);
    scheduler.checks().plan(OTHER, earlier_ns - 1);
    let _ = scheduler.checks().end(OTHER);
    scheduler.idle().enter(CHECKER);
    let _ = workers[CHECKER].remote().bell().announce_spin();
    let shared = Arc::clone(&workers[CHECKER]);
    let declines = thread::spawn(move || {
        let worker = Worker::new(shared);
        worker.in_idle_set.set(true);
        worker.leave_idle_set();
        let is_claimed = worker.searching.get();
        let is_told = worker.shared.remote().bell().end_idle().pass;
        put(worker.shared.remote());
        worker.end_watchdog();
        worker.end_search();
        (is_claimed && !is_told, worker.given_up_ns.get())
    });
    workers[BUSY].remote().publish_next_global(FAR_NS);
    Worker::new(Arc::clone(&workers[BUSY])).ask_for_watchdog();
    let (is_untold, kept_ns) = declines.join().unwrap();
    assert_told(&workers);
    let is_told = workers[CHECKER].remote().bell().wants_pass();
    assert!(is_told || !is_untold, "claimed, and not told");
    let next_ns = scheduler.checks().planned_ns(ASLEEP);
    assert!([kept_ns, next_ns].contains(&Some(earlier_ns)), "forgotten");
    drain(workers[CHECKER].remote());
}

/// Another worker falls asleep while two workers ask for a timed check. One that is in the idle set has something to
/// run.
fn ask_against_sleep() {
    let workers = scheduler(0);
    let scheduler = workers[BUSY].remote().scheduler();
    scheduler.watchful().begin(0);
    let idle = scheduler.idle();
    assert_eq!(idle.leave(ASLEEP), Left::ByItself);
    // As others see it, it runs something and has not left the idle set yet.
    idle.enter(CHECKER);
    let theirs = workers[ASLEEP].remote().clone();
    let sleeps = thread::spawn(move || {
        let scheduler = theirs.scheduler();
        scheduler.idle().enter(ASLEEP);
        [BUSY, OTHER].map(|worker| scheduler.remotes()[worker].next_global_ns() == FAR_NS)
    });
    let theirs = Arc::clone(&workers[OTHER]);
    let relies = thread::spawn(move || {
        theirs.remote().publish_next_global(FAR_NS);
        Worker::new(theirs).ask_for_watchdog();
    });
    workers[BUSY].remote().publish_next_global(FAR_NS);
    Worker::new(Arc::clone(&workers[BUSY])).ask_for_watchdog();
    relies.join().unwrap();
    let sees = sleeps.join().unwrap();
    let checks = scheduler.checks();
    assert_eq!(checks.planned_ns(CHECKER), None, "left to one that runs");
    let is_told = checks.planned_ns(ASLEEP).is_some();
    assert!(is_told || sees == [true; 2], "nobody looks in time");
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
        worker.searching.set(true);
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
        for (ns, lapses) in [
            (WATCHDOG_MIN_NS, false),
            (WATCHDOG_MIN_NS - 1, false),
            (1, true),
        ] {
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
fn what_comes_while_a_watchdog_plans_a_timed_check_is_looked_after() {
    check(plan_against_push);
}

#[test]
fn a_far_timer_is_looked_after_although_the_worker_that_was_woken_for_it_has_something_to_do() {
    check(decline_against_far_timer);
}

#[test]
fn mutant_check_forgotten() {
    mutant!(IdleCheckForgotten, decline_against_far_timer);
}

#[test]
fn a_worker_that_sees_its_claim_before_it_is_told_hands_the_timed_check_on() {
    check(decline_against_claim);
}

#[test]
fn a_timed_check_that_no_idle_worker_gets_goes_to_one_that_falls_asleep() {
    check_large(ask_against_sleep);
}

#[test]
fn a_timer_of_a_worker_that_begins_to_run_is_looked_after_while_a_watchdog_ends() {
    check(end_against_run);
}

#[test]
fn a_timer_that_is_armed_in_a_poll_is_looked_after_in_the_next_one() {
    check_large(end_against_poll);
}

#[test]
fn mutant_asks_once() {
    mutant!(WorkerAsksOnce, end_against_poll);
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
