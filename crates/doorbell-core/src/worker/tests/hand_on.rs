//! What a worker hands on to others when it stops looking, or has found more than it runs next, step by step.

use super::starved::{post_one, take_injected};
use super::{scheduler_by_hand, scheduler_that_idles_by};
use crate::bell::Announced;
use crate::scheduler::RemoteRef;
use crate::scheduler::idle::{Search, Searching, Watchdog, Wish};
use crate::scheduler::offline::TakenOff;
use crate::testing::spawn;
use crate::worker::pace::POLLS_PER_READING;
use crate::worker::spin::SpinEnd;
use crate::worker::timer::RawTimer;
use crate::worker::{IdlePolicy, Worker, WorkerCounts};
use doorbell_machine::{Host, Machine};
use std::task::Waker;

pub(super) const MS: u64 = 1_000_000;
const HOUR_NS: u64 = 3_600_000_000_000;

/// A pass was made just now, and the worker has learned that polls are tiny: it reads the clock seldom.
pub(super) fn polls_are_tiny(worker: &Worker<Host>) {
    let (pace, now_ns) = (worker.local.pace(), Host::now_ns());
    pace.note_look(now_ns);
    let _ = pace.begin_pass(now_ns);
    (0..POLLS_PER_READING).for_each(|_| _ = pace.read(now_ns));
}

/// Workers whose scheduler has as many watchdogs as it may have: single tasks wake nobody.
fn with_watchdogs<const N: usize>() -> [Worker<Host>; N] {
    let workers = scheduler_by_hand();
    let idle = workers[0].shared.remote().scheduler().idle();
    assert_eq!(idle.begin_watchdog(), Watchdog::Begun);
    assert_eq!(idle.begin_watchdog(), Watchdog::Begun);
    workers
}

/// The worker sleeps, as far as the others can see.
pub(super) fn falls_asleep(worker: &Worker<Host>) {
    assert!(!worker.look_for_the_last_time());
}

/// Whether somebody has claimed and told the worker, which fell asleep.
pub(super) fn is_told(worker: &Worker<Host>) -> bool {
    let remote = worker.shared.remote();
    let is_claimed = !remote.scheduler().idle().holds(remote.worker());
    assert_eq!(remote.bell().signalled(), is_claimed);
    is_claimed
}

/// A worker with work of its own looks at the others for the first time. The first pass after it was idle only sets the
/// pace.
pub(super) fn looks_after_its_first_pass(worker: &Worker<Host>) {
    worker.check_stuck(MS);
    assert_eq!(counts(worker).searches, 0, "what woke it goes first");
    worker.check_stuck(MS);
    assert_eq!(counts(worker).searches, 1);
}

/// The worker gets so many tasks, and runs so many of them.
pub(super) fn gets(worker: &Worker<Host>, tasks: usize, ran: usize) {
    worker.local.enter(|| {
        (0..tasks).for_each(|_| drop(spawn(worker.shared.remote(), async {})));
        (0..ran).for_each(|_| assert!(worker.local.run_one()));
    });
}

pub(super) fn end<const N: usize>(workers: [Worker<Host>; N]) {
    for worker in workers {
        worker.local.enter(|| worker.local.close());
    }
}

pub(super) fn counts(worker: &Worker<Host>) -> WorkerCounts {
    worker.shared.counts()
}

/// Each worker seems idle, and runs something else when the task has been posted to it.
#[test]
fn a_task_that_waits_again_when_it_is_placed_anew_is_offered() {
    let workers: [Worker<Host>; 3] = scheduler_by_hand();
    let idle = workers[0].shared.remote().scheduler().idle();
    for (at, worker) in workers.iter().enumerate() {
        worker.shared.remote().set_serving(true);
        idle.enter(at);
    }
    drop(spawn(workers[0].shared.remote(), async {}));
    let mut stand = [0, 1, 2].map(|at| {
        let has_it = workers[at].shared.remote().has_injected();
        (has_it, counts(&workers[at]).stacked, idle.holds(at))
    });
    stand.sort_unstable();
    let taken = (false, 0, false);
    assert_eq!(stand, [taken, taken, (true, 1, false)]);
    end(workers);
}

/// Worker 1 is counted as searching, and gets no CPU. The busy worker relied on that, and woke nobody.
#[test]
fn what_waits_when_the_last_search_lapses_is_found_and_another_worker_is_woken() {
    for tasks in [1, 2] {
        let workers = with_watchdogs();
        let [busy, starved, watchdog, asleep] = &workers;
        let idle = busy.shared.remote().scheduler().idle();
        let searches = idle.begin_search(starved.shared.remote().worker());
        assert_eq!(searches, Search::Begun);
        falls_asleep(asleep);
        gets(busy, tasks, 0);
        watchdog.shared.remote().set_watchdog(true);
        watchdog.end_lapsed_searches();
        assert!(idle.anyone_searches() && !is_told(asleep));
        assert!(
            !watchdog.observe(busy.shared.remote(), 0).stood_still,
            "not known yet"
        );
        watchdog.watch.set_searchers_ns(0);
        assert!(watchdog.look_for_the_last_time(), "it takes one");
        assert!(!idle.anyone_searches(), "it has lapsed");
        watchdog.leave_idle_set();
        watchdog.end_watchdog();
        assert_eq!(is_told(asleep), tasks > 1);
        end(workers);
    }
}

/// Whoever took it has lost its CPU before the post.
#[test]
fn a_sleeping_worker_that_was_taken_for_a_task_which_does_not_come_is_woken_at_the_second_look() {
    for goes_off in [false, true] {
        let workers = scheduler_by_hand();
        let [taken, watchdog, _] = &workers;
        let remote = taken.shared.remote();
        let idle = remote.scheduler().idle();
        assert_eq!(remote.bell().announce_spin(), Announced::Yes);
        assert_eq!(remote.bell().announce_park(), Announced::Yes);
        falls_asleep(taken);
        if goes_off {
            assert_eq!(remote.scheduler().take_off(remote.worker()), TakenOff::Now);
        }
        assert!(idle.take(remote.worker()));
        let is_woken = || {
            watchdog.watch.set_searchers_ns(0);
            watchdog.end_lapsed_searches();
            remote.bell().signalled()
        };
        assert!(!is_woken(), "it may be told soon");
        remote.note_sleep();
        assert!(!is_woken(), "it was awake meanwhile");
        assert_eq!([is_woken(), is_woken()], [!goes_off, !goes_off]);
        let _ = remote.bell().end_idle();
        end(workers);
    }
}

#[test]
fn a_search_lapses_at_the_second_of_two_looks_that_lie_apart_in_one_stay_of_a_watchdog() {
    let workers = scheduler_by_hand();
    let [busy, searches, watchdog] = &workers;
    gets(busy, 1, 0);
    let idle = busy.shared.remote().scheduler().idle();
    let worker = searches.shared.remote().worker();
    // Whether the search lapses at a look so long after the last one.
    let lapses = |last_look_ns| {
        watchdog.watch.set_searchers_ns(last_look_ns);
        watchdog.end_lapsed_searches();
        !idle.anyone_searches()
    };
    for _ in 0..2 {
        assert!(watchdog.next_look().is_some(), "one task waits");
        assert_eq!(idle.begin_search(worker), Search::Begun);
        assert!(!lapses(0), "the first look");
        // As if that look were just over, however slow this computer is.
        assert!(!lapses(Host::now_ns() + HOUR_NS), "too soon");
        assert_eq!(idle.end_search(worker), Searching::None);
        watchdog.end_watchdog();
    }
    assert!(watchdog.next_look().is_some());
    assert_eq!(idle.begin_search(worker), Search::Begun);
    assert_eq!([lapses(0), lapses(0)], [false, true]);
    end(workers);
}

/// Its poster relied on the search.
#[test]
fn what_came_to_the_inject_queue_of_the_worker_that_ends_the_last_search_is_offered() {
    let workers = with_watchdogs();
    let [worker, _, asleep] = &workers;
    let remote = worker.shared.remote();
    assert_eq!(remote.scheduler().idle().begin_search(0), Search::Begun);
    worker.looking.set_counted();
    falls_asleep(asleep);
    gets(worker, 1, 0);
    post_one(remote, asleep.shared.remote());
    assert!(!is_told(asleep), "a search was relied on");
    worker.end_search();
    assert!(is_told(asleep));
    assert_eq!(take_injected(remote), 1);
    end(workers);
}

/// After a fence: a pass that finds it offers it without one.
#[test]
fn what_the_last_look_brings_beyond_one_task_is_offered_before_the_next_pass() {
    for (tasks, brings) in [(2, 1), (4, 2)] {
        let workers = with_watchdogs();
        let [busy, worker, asleep] = &workers;
        gets(busy, tasks, 0);
        busy.shared.remote().scheduler().idle().enter(2);
        assert!(worker.look_for_the_last_time());
        assert_eq!(counts(worker).stolen, brings);
        worker.leave_idle_set();
        worker.end_search();
        assert_eq!(is_told(asleep), brings > 1);
        end(workers);
    }
}

/// A task of a worker that is stuck may take as long here as there.
#[test]
fn what_a_worker_had_before_it_took_a_task_of_a_stuck_one_is_offered() {
    let workers = with_watchdogs();
    let [stuck, checker, asleep] = &workers;
    gets(stuck, 2, 1);
    gets(checker, 1, 0);
    stuck.shared.remote().scheduler().idle().enter(2);
    looks_after_its_first_pass(checker);
    assert_eq!((counts(checker).thefts, is_told(asleep)), (0, false));
    // Its pulse stood still since.
    checker.check_stuck(2 * MS);
    assert_eq!((counts(checker).thefts, is_told(asleep)), (1, true));
    end(workers);
}

/// Also where its claim has lapsed. Others search, so that this end of a search sees to nothing else.
#[test]
fn a_worker_that_was_claimed_to_be_a_watchdog_and_has_a_task_leaves_that_to_another() {
    for lapses in [false, true] {
        let workers = scheduler_by_hand();
        let [busy, claimed, searches, asleep] = &workers;
        let idle = busy.shared.remote().scheduler().idle();
        assert_eq!(idle.begin_watchdog(), Watchdog::Begun);
        falls_asleep(claimed);
        falls_asleep(asleep);
        gets(busy, 1, 0);
        assert!(idle.wants_watchdog() && is_told(claimed) && !is_told(asleep));
        let other = idle.begin_search(searches.shared.remote().worker());
        assert_eq!(other, Search::Begun);
        if lapses {
            assert!(idle.lapse(claimed.shared.remote().worker()).is_some());
        }
        claimed.leave_idle_set();
        gets(claimed, 1, 0);
        assert!(!is_told(asleep), "the claimed worker is waited for");
        claimed.end_watchdog();
        claimed.end_search();
        assert!(idle.wants_watchdog() && is_told(asleep));
        end(workers);
    }
}

/// A timer for any worker, from a thread that is none.
/// It owes nothing any more once it has become one.
#[test]
fn a_watchdog_that_ends_takes_back_no_request_that_another_worker_is_woken_for() {
    let [_busy, watchdog, other] = scheduler_by_hand();
    let idle = watchdog.shared.remote().scheduler().idle();
    let wants = |worker: &Worker<Host>| {
        let number = worker.shared.remote().worker();
        worker.enter_idle_set();
        let claimed = idle.want_watchdog(Wish::of(number), |it| it == number);
        assert_eq!(claimed, Some(number));
    };
    wants(&watchdog);
    watchdog.leave_idle_set();
    assert!(!watchdog.search_if_claimed());
    assert!(watchdog.next_look().is_some());
    assert!(watchdog.shared.remote().is_watchdog() && !idle.wants_watchdog());
    wants(&other);
    watchdog.end_watchdog();
    assert!(idle.wants_watchdog());
}

fn timer_from_outside(remote: &RemoteRef<Host>) -> RawTimer {
    let arm = || RawTimer::arm(remote, Host::now_ns() + HOUR_NS, Waker::noop());
    std::thread::scope(|scope| scope.spawn(arm).join().unwrap()).unwrap()
}

/// The worker takes a timer from outside, whose handle is dropped then.
fn takes_and_drops(worker: &Worker<Host>, timer: RawTimer) {
    worker.local.enter(|| {
        worker.take_common();
        drop(timer);
    });
}

/// A call for the worker comes; no other worker is told of it.
fn gets_call(worker: &Worker<Host>) {
    assert!(crate::parcel::post(&**worker.shared.remote(), || ()).is_ok());
}

/// The call may take long.
#[test]
fn timers_from_outside_are_looked_after_while_a_worker_runs_calls() {
    let workers = scheduler_by_hand();
    let [worker, asleep] = &workers;
    let remote = worker.shared.remote();
    // Nobody was asleep when it came.
    let timer = timer_from_outside(remote);
    remote.scheduler().idle().enter(1);
    assert_eq!(worker.local.enter(|| worker.take()).delivered, 0);
    assert!(!is_told(asleep), "there is no call");
    gets_call(worker);
    assert_eq!(worker.local.enter(|| worker.take()).delivered, 1);
    assert!(is_told(asleep));
    takes_and_drops(worker, timer);
    end(workers);
}

/// A worker that spins is in the idle set itself.
#[test]
fn a_spinning_worker_asks_another_one_to_look_after_timers_from_outside() {
    let workers = scheduler_by_hand();
    let [worker, asleep] = &workers;
    let remote = worker.shared.remote();
    let timer = timer_from_outside(remote);
    worker.enter_idle_set();
    remote.scheduler().idle().enter(1);
    gets_call(worker);
    let _ = worker.local.enter(|| worker.take());
    assert!(is_told(asleep) && !remote.bell().signalled());
    takes_and_drops(worker, timer);
    end(workers);
}

/// Whoever claimed it has not told it yet.
#[test]
fn a_spinning_worker_that_finds_itself_claimed_before_calls_ends_its_spin() {
    let workers = scheduler_that_idles_by(IdlePolicy::Spin { spin_ns: MS });
    let [worker, _] = &workers;
    let remote = worker.shared.remote();
    let timer = timer_from_outside(remote);
    worker.enter_idle_set();
    let idle = remote.scheduler().idle();
    assert_eq!(idle.claim_as_first(Wish::of(1), |_| true), Some(0));
    let _ = remote.bell().acknowledge();
    assert_eq!(remote.bell().announce_spin(), Announced::Yes);
    gets_call(worker);
    assert_eq!(worker.local.enter(|| worker.spin()), SpinEnd::Busy);
    assert!(worker.looking.is_counted());
    worker.end_search();
    takes_and_drops(worker, timer);
    end(workers);
}

#[test]
fn a_stolen_task_is_looked_after_while_its_worker_runs_calls() {
    let workers = scheduler_by_hand();
    let [busy, worker, asleep] = &workers;
    let remote = worker.shared.remote();
    gets(busy, 2, 0);
    assert!(worker.look_for_the_last_time(), "it takes one");
    worker.leave_idle_set();
    remote.scheduler().idle().enter(2);
    assert!(!remote.has_work(), "it is in the worker's hands");
    gets_call(worker);
    assert_eq!(worker.local.enter(|| worker.take()).delivered, 1);
    assert!(remote.has_work() && is_told(asleep));
    end(workers);
}

#[test]
fn a_task_in_the_inject_queue_is_looked_after_while_its_worker_runs_calls_in_its_spin() {
    let workers = scheduler_that_idles_by(IdlePolicy::Spin { spin_ns: u64::MAX });
    let [worker, asleep] = &workers;
    let remote = worker.shared.remote();
    asleep.shared.remote().scheduler().idle().enter(1);
    assert_eq!(remote.bell().announce_spin(), Announced::Yes);
    post_one(remote, asleep.shared.remote());
    gets_call(worker);
    assert!(!is_told(asleep), "the worker sees both");
    assert_eq!(worker.local.enter(|| worker.spin()), SpinEnd::Busy);
    assert!(is_told(asleep));
    assert_eq!((counts(worker).delivered, take_injected(remote)), (1, 1));
    end(workers);
}

/// The call may wait for the task.
#[test]
fn w34_a_watchdog_with_a_task_and_a_call_has_another_one_woken() {
    let workers = scheduler_by_hand();
    let [watchdog, asleep] = &workers;
    let remote = watchdog.shared.remote();
    let idle = remote.scheduler().idle();
    assert_eq!(idle.begin_watchdog(), Watchdog::Begun);
    remote.set_watchdog(true);
    idle.enter(1);
    assert_eq!(remote.bell().announce_spin(), Announced::Yes);
    post_one(remote, asleep.shared.remote());
    gets_call(watchdog);
    assert!(!is_told(asleep), "the watchdog sees both");
    assert_eq!(watchdog.local.enter(|| watchdog.take()).delivered, 1);
    assert!(is_told(asleep) && idle.wants_watchdog() && !remote.is_watchdog());
    assert_eq!(take_injected(remote), 1);
    end(workers);
}

/// Who armed it found no worker idle.
#[test]
fn the_last_look_takes_timers_from_outside() {
    let workers = scheduler_by_hand();
    let [worker, _] = &workers;
    let timer = timer_from_outside(worker.shared.remote());
    assert_eq!(worker.local.due_ns(), None);
    assert!(!worker.local.enter(|| worker.look_for_the_last_time()));
    assert!(worker.local.due_ns().is_some(), "the worker sleeps past it");
    worker.local.enter(|| drop(timer));
    end(workers);
}

#[test]
fn a_worker_that_is_asked_to_close_ends_the_search_that_it_was_claimed_for() {
    let [worker, asleep] = scheduler_by_hand();
    let idle = asleep.shared.remote().scheduler().idle();
    assert_eq!(idle.begin_search(0), Search::Begun);
    worker.looking.set_counted();
    worker.shared.close();
    worker.run();
    assert!(!idle.anyone_searches(), "others rely on it for ever");
    end([asleep]);
}

/// It scans nobody, and wakes one that does.
#[test]
fn a_worker_that_goes_off_hands_on_its_search() {
    let workers = with_watchdogs();
    let [busy, worker, asleep] = &workers;
    let scheduler = busy.shared.remote().scheduler();
    assert_eq!(scheduler.idle().begin_search(1), Search::Begun);
    worker.looking.set_counted();
    scheduler.idle().enter(2);
    gets(busy, 4, 0);
    assert_eq!(scheduler.take_off(1), TakenOff::Now);
    worker.local.enter(|| worker.local.follow());
    assert!(!is_told(asleep), "a search was relied on");
    worker.local.enter(|| worker.end_search());
    assert_eq!((counts(worker).thefts, is_told(asleep)), (0, true));
    end(workers);
}
