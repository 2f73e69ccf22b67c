//! Workers that sleep until others' timers are due.

use super::scheduler_by_hand;
use crate::scheduler::idle::{LOOKS_EVERY_NS, OVERDUE_NS};
use crate::scheduler::offline::TakenOff;
use crate::task::Kind;
use crate::testing::{launch_as, spawn};
use crate::worker::Worker;
use doorbell_machine::{Host, Machine};

const HOUR_NS: u64 = 3_600_000_000_000;

/// When the worker makes its timed check.
fn planned_ns(of: &Worker<Host>) -> Option<u64> {
    let remote = of.shared.remote();
    remote.scheduler().checks().planned_ns(remote.worker())
}

/// Whether no worker looks in time at a timer at that time.
fn is_unattended(by: &Worker<Host>, due_ns: u64) -> bool {
    by.shared
        .remote()
        .scheduler()
        .checks()
        .is_unattended(due_ns)
}

/// The worker idles, as far as others can see.
fn idles(worker: &Worker<Host>) {
    let _ = worker.shared.remote().bell().announce_spin();
    worker.enter_idle_set();
}

/// It is inside a poll, as far as others know, and has a timer that is due in an hour.
fn arm(busy: &Worker<Host>) -> u64 {
    let due_ns = Host::now_ns() + HOUR_NS;
    let remote = busy.shared.remote();
    remote.publish_next_global(due_ns);
    remote.scheduler().work().add(remote.worker());
    due_ns
}

#[test]
fn one_worker_sleeps_until_a_timer_that_is_far_away_and_is_no_watchdog() {
    let [busy, relies, other] = scheduler_by_hand();
    let due_ns = arm(&busy);
    assert!(is_unattended(&busy, due_ns));
    let looks_ns = relies.watchdog_until_ns().expect("it looks then");
    assert!(looks_ns > due_ns - 1_000_000_000, "{looks_ns} for {due_ns}");
    assert!(planned_ns(&relies).is_some() && !relies.shared.remote().is_watchdog());
    assert!(!is_unattended(&busy, due_ns));
    assert_eq!(other.watchdog_until_ns(), None, "one is enough");
    assert!(
        is_unattended(&busy, due_ns - HOUR_NS / 2),
        "who arms that wakes somebody"
    );
    // It has something to run.
    relies.end_watchdog();
    assert!(is_unattended(&busy, due_ns) && planned_ns(&relies).is_none());
}

#[test]
fn a_timed_check_is_kept_where_other_workers_are_watchdogs() {
    let [busy, relies, watchdog, second] = scheduler_by_hand();
    let due_ns = arm(&busy);
    let remote = busy.shared.remote();
    let looks_ns = relies.watchdog_until_ns();
    assert_eq!(looks_ns, Some(due_ns + OVERDUE_NS));
    busy.local.enter(|| drop(spawn(remote, async {})));
    assert!(watchdog.watchdog_until_ns().is_some());
    assert!(second.watchdog_until_ns().is_some());
    assert!(watchdog.shared.remote().is_watchdog() && second.shared.remote().is_watchdog());
    assert_eq!(relies.watchdog_until_ns(), looks_ns);
    assert!(!relies.shared.remote().is_watchdog() && !is_unattended(&busy, due_ns));
    busy.local.enter(|| busy.local.close());
}

#[test]
fn a_watchdog_that_ends_wakes_nobody_for_what_another_looks_after() {
    let [busy, relies, watchdog] = scheduler_by_hand();
    let _ = arm(&busy);
    let remote = busy.shared.remote();
    busy.local.enter(|| drop(spawn(remote, async {})));
    assert!(watchdog.watchdog_until_ns().is_some());
    assert!(busy.local.enter(|| busy.local.run_one()));
    assert_eq!(relies.watchdog_until_ns().map(|_| ()), Some(()));
    assert!(planned_ns(&relies).is_some());
    watchdog.watchdog_end_ns.set(0);
    let idle = remote.scheduler().idle();
    idles(&watchdog);
    assert_eq!(watchdog.watchdog_until_ns(), None);
    assert!(!watchdog.shared.remote().is_watchdog() && !idle.wants_watchdog());
    busy.local.enter(|| busy.local.close());
}

/// Worker 0 asks for a timed check. Returns which of the two other workers it claimed.
fn asks(busy: &Worker<Host>) -> Vec<usize> {
    let idle = busy.shared.remote().scheduler().idle();
    let before: Vec<usize> = (1..=2).filter(|worker| idle.holds(*worker)).collect();
    busy.ask_for_watchdog();
    assert!(!idle.wants_watchdog(), "one check is enough");
    before
        .into_iter()
        .filter(|worker| !idle.holds(*worker))
        .collect()
}

#[test]
fn for_a_timer_that_is_far_away_a_worker_wakes_one_other_once() {
    let workers: [Worker<Host>; 3] = scheduler_by_hand();
    let [busy, others @ ..] = &workers;
    for other in others {
        idles(other);
    }
    let due_ns = arm(busy);
    let asked = asks(busy);
    assert_eq!(asked.len(), 1);
    assert!(asks(busy).is_empty(), "it is awake, and has not parked yet");
    // The poll is over, and its worker idles.
    let _ = busy.shared.remote().bell().announce_spin();
    let checker = &workers[asked[0]];
    for _ in 0..2 {
        // The second time it woke for something else.
        assert_eq!(checker.watchdog_until_ns(), Some(due_ns + OVERDUE_NS));
        assert!(!checker.shared.remote().is_watchdog());
        assert!(asks(busy).is_empty(), "it will look");
    }
    busy.shared
        .remote()
        .publish_next_global(due_ns - HOUR_NS / 2);
    assert_eq!(asks(busy).len(), 1, "that look comes too late");
}

#[test]
fn for_a_timer_that_is_due_soon_a_worker_is_woken_to_be_a_watchdog() {
    let [busy, other] = scheduler_by_hand();
    let remote = busy.shared.remote();
    let _ = arm(&busy);
    remote.publish_next_global(Host::now_ns());
    let idle = remote.scheduler().idle();
    idles(&other);
    busy.ask_for_watchdog();
    assert!(!idle.holds(1) && idle.wants_watchdog());
    assert!(is_unattended(&busy, HOUR_NS), "no timed check");
}

/// A worker that parks later sees the timer itself.
#[test]
fn while_nobody_is_idle_no_timed_check_is_asked_for() {
    let [busy, _other] = scheduler_by_hand();
    let due_ns = arm(&busy);
    busy.ask_for_watchdog();
    assert!(is_unattended(&busy, due_ns));
}

#[test]
fn a_worker_plans_its_timed_check_for_the_earliest_of_the_times_that_it_knows() {
    let [busy, relies, other] = scheduler_by_hand();
    let (due_ns, _) = (arm(&busy), arm(&other));
    let timer_of_other_at = |due_ns| {
        other.shared.remote().publish_next_global(due_ns);
        relies.watchdog_until_ns()
    };
    let planned_ns = Some(due_ns + OVERDUE_NS);
    assert_eq!(timer_of_other_at(due_ns + HOUR_NS), planned_ns);
    // That poll is over, and its worker idles with the timer.
    let _ = busy.shared.remote().bell().announce_spin();
    assert_eq!(timer_of_other_at(due_ns + HOUR_NS), planned_ns);
    let earlier_ns = due_ns - HOUR_NS / 2;
    assert_eq!(timer_of_other_at(earlier_ns), Some(earlier_ns + OVERDUE_NS));
    assert!(!is_unattended(&busy, earlier_ns));
}

#[test]
fn a_worker_whose_timed_check_is_over_and_found_nothing_looks_no_more() {
    let [relies, _other] = scheduler_by_hand();
    let remote = relies.shared.remote();
    remote.scheduler().checks().plan(0, Host::now_ns());
    assert_eq!(relies.watchdog_until_ns(), None);
    assert_eq!(planned_ns(&relies), None);
    assert!(
        is_unattended(&relies, u64::MAX / 2),
        "it is known to be over"
    );
}

/// That check is one look, of one worker.
#[test]
fn a_watchdog_that_ends_while_a_task_waits_wakes_another_although_a_timed_check_comes_soon() {
    let [busy, watchdog, asleep] = scheduler_by_hand();
    let remote = busy.shared.remote();
    busy.local.enter(|| drop(spawn(remote, async {})));
    assert!(watchdog.watchdog_until_ns().is_some());
    let idle = remote.scheduler().idle();
    idles(&asleep);
    remote.scheduler().checks().plan(2, Host::now_ns());
    watchdog.end_watchdog();
    assert!(!idle.holds(2) && idle.wants_watchdog());
    busy.local.enter(|| busy.local.close());
}

/// Else the one with the timer would ask a worker that relies on the check of a third one.
#[test]
fn a_worker_that_parks_relies_on_a_timed_check_as_the_worker_with_the_timer_does() {
    let [busy, relies, other] = scheduler_by_hand();
    let due_ns = arm(&busy);
    assert!(relies.watchdog_until_ns().is_some());
    let earlier_ns = due_ns - LOOKS_EVERY_NS;
    busy.shared.remote().publish_next_global(earlier_ns);
    assert!(is_unattended(&busy, earlier_ns));
    assert_eq!(other.watchdog_until_ns(), Some(earlier_ns + OVERDUE_NS));
}

#[test]
fn a_timed_check_that_is_handed_on_keeps_its_time() {
    let [busy, checker, other] = scheduler_by_hand();
    let due_ns = arm(&busy);
    assert!(checker.watchdog_until_ns().is_some());
    idles(&other);
    checker.end_watchdog();
    assert_eq!(planned_ns(&other), Some(due_ns + OVERDUE_NS));
}

#[test]
fn of_two_timed_checks_that_a_worker_gave_up_it_plans_the_earlier_one() {
    let [relies, _other] = scheduler_by_hand();
    let first_ns = Host::now_ns() + HOUR_NS;
    for at_ns in [first_ns, first_ns + HOUR_NS] {
        relies.shared.remote().scheduler().checks().plan(0, at_ns);
        relies.end_watchdog();
    }
    assert_eq!(relies.watchdog_until_ns(), Some(first_ns));
}

/// A worker was asked for a timed check, and then this comes between: another one is asked.
fn asks_another(between: fn(&Worker<Host>)) {
    let workers: [Worker<Host>; 3] = scheduler_by_hand();
    let [busy, others @ ..] = &workers;
    let idle = busy.shared.remote().scheduler().idle();
    for other in others {
        idles(other);
    }
    let _ = arm(busy);
    let [asked] = asks(busy)[..] else {
        panic!("nobody, or both")
    };
    between(&workers[asked]);
    assert!(!idle.holds(3 - asked), "nobody looks");
}

#[test]
fn a_worker_that_is_asked_for_a_timed_check_and_has_a_task_wakes_another() {
    asks_another(|checker| {
        wakes(checker);
        has_work(checker);
    });
}

#[test]
fn a_worker_that_is_asked_for_a_timed_check_and_taken_off_wakes_another() {
    asks_another(|checker| {
        let remote = checker.shared.remote();
        assert_eq!(remote.scheduler().take_off(remote.worker()), TakenOff::Now);
        checker.local.follow();
        assert!(checker.local.is_off());
        wakes(checker);
        assert_eq!(checker.watchdog_until_ns(), None);
    });
}

/// The worker wakes, and may have been claimed.
fn wakes(worker: &Worker<Host>) {
    worker.leave_idle_set();
    let _ = worker.shared.remote().bell().end_idle();
}

/// A worker gets a task that no other may run, and makes the steps of its loop. That task asks for no watchdog.
fn has_work(worker: &Worker<Host>) {
    worker
        .local
        .enter(|| drop(launch_as(worker.shared.remote(), Kind::Pinned, async {})));
    worker.end_watchdog();
    worker.end_search();
    worker.local.enter(|| worker.local.close());
}

#[test]
fn a_worker_that_was_asked_for_a_timed_check_and_gets_a_task_behind_its_search_wakes_another() {
    asks_another(|checker| {
        wakes(checker);
        assert!(!checker.search_if_claimed(), "there is nothing to take");
        has_work(checker);
    });
}

/// Worker 0 asks for a timed check before its polls. Between them it idles, and this happens at worker 1, which sleeps
/// again then. Returns how often a worker was claimed, of this many workers.
fn claims<const N: usize>(between: fn(&Worker<Host>)) -> usize {
    let workers: [Worker<Host>; N] = scheduler_by_hand();
    let (busy, first) = (&workers[0], &workers[1]);
    let remote = busy.shared.remote();
    let idle = remote.scheduler().idle();
    let _ = arm(busy);
    for other in &workers[1..] {
        idles(other);
    }
    let asks = |_: &usize| {
        busy.ask_for_watchdog();
        let asked: Vec<_> = (1..N).filter(|worker| !idle.holds(*worker)).collect();
        let _ = remote.bell().announce_spin();
        for worker in &asked {
            wakes(&workers[*worker]);
            assert!(!workers[*worker].search_if_claimed());
        }
        between(first);
        for worker in asked.iter().chain(&[1]) {
            idles(&workers[*worker]);
            let _ = workers[*worker].watchdog_until_ns();
        }
        let _ = remote.bell().end_idle();
        remote.scheduler().work().add_anew(0);
        !asked.is_empty()
    };
    (0..5).filter(asks).count()
}

fn takes_calls(worker: &Worker<Host>) {
    wakes(worker);
    let _ = worker.leave_behind_calls();
}

fn runs_a_task(worker: &Worker<Host>) {
    wakes(worker);
    worker.end_watchdog();
}

#[test]
fn calls_to_a_worker_with_a_timed_check_cost_no_wake_up() {
    assert_eq!([claims::<2>(takes_calls), claims::<3>(takes_calls)], [1, 1]);
}

/// It plans the check again, or the next poll asks another worker, which keeps it.
#[test]
fn a_worker_that_often_gives_its_timed_check_up_is_not_asked_again_and_again() {
    let of_two = claims::<2>(runs_a_task);
    let of_three = claims::<3>(runs_a_task);
    assert!(
        of_two == 1 && (1..=2).contains(&of_three),
        "{of_two}, {of_three}"
    );
}

/// It may look at nothing before the call is over. If no other worker idles, none has the check.
#[test]
fn a_worker_that_serves_calls_is_asked_for_no_timed_check_while_another_one_sleeps() {
    for second_sleeps in [true, false] {
        let [busy, serves, sleeps] = scheduler_by_hand();
        let due_ns = arm(&busy);
        idles(&serves);
        serves.shared.remote().set_serving(true);
        if second_sleeps {
            idles(&sleeps);
        }
        busy.ask_for_watchdog();
        assert_eq!(planned_ns(&serves), None);
        assert_eq!(planned_ns(&sleeps).is_some(), second_sleeps);
        assert_eq!(is_unattended(&busy, due_ns), !second_sleeps);
    }
}

#[test]
fn a_worker_that_serves_calls_is_not_claimed_again_and_again_for_a_timed_check() {
    let [busy, serves] = scheduler_by_hand();
    let remote = serves.shared.remote();
    let _ = arm(&busy);
    idles(&serves);
    let is_claimed = |_: &usize| {
        remote.set_serving(true);
        busy.ask_for_watchdog();
        remote.set_serving(false);
        let is_claimed = !remote.scheduler().idle().holds(1);
        if is_claimed {
            wakes(&serves);
            assert!(!serves.search_if_claimed());
            idles(&serves);
        }
        is_claimed
    };
    assert_eq!((0..5).filter(is_claimed).count(), 0);
}

#[test]
fn a_check_that_finds_a_later_timer_is_planned_anew_and_wakes_nobody() {
    let [busy, relies] = scheduler_by_hand();
    let idle = busy.shared.remote().scheduler().idle();
    let _ = arm(&busy);
    busy.shared
        .remote()
        .publish_next_global(Host::now_ns() + 2_000_000);
    idles(&relies);
    let looks_ns = relies.watchdog_until_ns().expect("it looks then");
    while Host::now_ns() <= looks_ns {
        std::hint::spin_loop();
    }
    let due_ns = arm(&busy);
    let looks_ns = relies.watchdog_until_ns();
    assert!(idle.holds(1), "it claimed itself");
    assert!(looks_ns.is_some_and(|looks_ns| looks_ns > due_ns));
}

/// Worker 0 asks so often, and each time worker 1 wakes if it was claimed, finds nothing, and parks. Returns how often.
fn wakes_of_first(busy: &Worker<Host>, first: &Worker<Host>) -> usize {
    let idle = busy.shared.remote().scheduler().idle();
    let asks = |_: &usize| {
        busy.ask_for_watchdog();
        let claimed = !idle.holds(1);
        if claimed {
            wakes(first);
            assert!(!first.search_if_claimed());
            idles(first);
            let _ = first.watchdog_until_ns();
        }
        claimed
    };
    (0..5).filter(asks).count()
}

#[test]
fn for_a_timer_a_little_before_another_one_no_worker_is_woken_again_and_again() {
    for apart_us in [300, 420, 480, 520, 620] {
        let [busy, first, relies] = scheduler_by_hand();
        idles(&first);
        let due_ns = arm(&busy);
        assert!(relies.watchdog_until_ns().is_some());
        busy.shared
            .remote()
            .publish_next_global(due_ns - apart_us * 1_000);
        let woken = wakes_of_first(&busy, &first);
        assert!(woken <= 1, "{apart_us} us: {woken}");
    }
}

#[test]
fn a_watchdog_is_not_asked_again_and_again_for_a_timed_check() {
    let [busy, watchdog] = scheduler_by_hand();
    let remote = busy.shared.remote();
    busy.local.enter(|| drop(spawn(remote, async {})));
    idles(&watchdog);
    assert!(watchdog.watchdog_until_ns().is_some());
    assert!(busy.local.enter(|| busy.local.run_one()));
    let _ = arm(&busy);
    assert!(watchdog.shared.remote().is_watchdog());
    let woken = wakes_of_first(&busy, &watchdog);
    assert!(woken <= 1, "{woken}");
    busy.local.enter(|| busy.local.close());
}
