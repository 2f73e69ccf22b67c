//! Workers that sleep until others' timers are due.

use super::scheduler_by_hand;
use crate::scheduler::offline::TakenOff;
use crate::task::Kind;
use crate::testing::{launch_as, spawn};
use crate::worker::Worker;
use crate::worker::stuck::OVERDUE_NS;
use doorbell_machine::{Host, Machine};

const HOUR_NS: u64 = 3_600_000_000_000;

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
    let scheduler = busy.shared.remote().scheduler();
    assert!(scheduler.armed().is_unattended(due_ns));
    let looks_ns = relies.watchdog_until_ns().expect("it looks then");
    assert!(looks_ns > due_ns - 1_000_000_000, "{looks_ns} for {due_ns}");
    assert!(relies.check_at_ns.get().is_some() && !relies.shared.remote().is_watchdog());
    assert!(!scheduler.armed().is_unattended(due_ns));
    assert_eq!(other.watchdog_until_ns(), None, "one is enough");
    assert!(
        scheduler.armed().is_unattended(due_ns - HOUR_NS / 2),
        "who arms that wakes somebody"
    );
    // It has something to run.
    relies.end_watchdog();
    assert!(scheduler.armed().is_unattended(due_ns) && relies.check_at_ns.get().is_none());
}

#[test]
fn a_timed_check_is_given_up_where_other_workers_are_watchdogs() {
    let [busy, relies, watchdog, second] = scheduler_by_hand();
    let due_ns = arm(&busy);
    let remote = busy.shared.remote();
    assert!(relies.watchdog_until_ns().is_some());
    busy.local.enter(|| drop(spawn(remote, async {})));
    assert!(watchdog.watchdog_until_ns().is_some());
    assert!(second.watchdog_until_ns().is_some());
    assert!(watchdog.shared.remote().is_watchdog() && second.shared.remote().is_watchdog());
    assert_eq!(relies.watchdog_until_ns(), None);
    let armed = remote.scheduler().armed();
    assert!(
        armed.is_unattended(due_ns),
        "nobody sleeps only until then any more"
    );
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
    assert!(relies.check_at_ns.get().is_some());
    watchdog.watchdog_end_ns.set(0);
    let idle = remote.scheduler().idle();
    idle.enter(watchdog.shared.remote().worker());
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
    let idle = busy.shared.remote().scheduler().idle();
    for other in others {
        idle.enter(other.shared.remote().worker());
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
    let [busy, _other] = scheduler_by_hand();
    let remote = busy.shared.remote();
    let _ = arm(&busy);
    remote.publish_next_global(Host::now_ns());
    let idle = remote.scheduler().idle();
    idle.enter(1);
    busy.ask_for_watchdog();
    assert!(!idle.holds(1) && idle.wants_watchdog());
    assert_eq!(remote.scheduler().armed().take_asked(), None);
}

/// A worker that parks later sees the timer itself.
#[test]
fn while_nobody_is_idle_no_timed_check_is_asked_for() {
    let [busy, _other] = scheduler_by_hand();
    let _ = arm(&busy);
    busy.ask_for_watchdog();
    let scheduler = busy.shared.remote().scheduler();
    assert_eq!(scheduler.armed().take_asked(), None);
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
    let scheduler = busy.shared.remote().scheduler();
    assert!(!scheduler.armed().is_unattended(earlier_ns));
}

#[test]
fn a_worker_whose_timed_check_is_over_and_found_nothing_looks_no_more() {
    let [relies, _other] = scheduler_by_hand();
    relies.check_at_ns.set(Some(Host::now_ns()));
    assert_eq!(relies.watchdog_until_ns(), None);
    assert_eq!(relies.check_at_ns.get(), None);
}

/// That check is one look, of one worker.
#[test]
fn a_watchdog_that_ends_while_a_task_waits_wakes_another_although_a_timed_check_comes_soon() {
    let [busy, watchdog, _asleep] = scheduler_by_hand();
    let remote = busy.shared.remote();
    busy.local.enter(|| drop(spawn(remote, async {})));
    assert!(watchdog.watchdog_until_ns().is_some());
    let idle = remote.scheduler().idle();
    idle.enter(2);
    remote.scheduler().armed().plan_check(Host::now_ns());
    watchdog.end_watchdog();
    assert!(!idle.holds(2) && idle.wants_watchdog());
    busy.local.enter(|| busy.local.close());
}

/// A worker was asked for a timed check, and then this comes between: another one is asked.
fn asks_another(between: fn(&Worker<Host>)) {
    let workers: [Worker<Host>; 3] = scheduler_by_hand();
    let [busy, others @ ..] = &workers;
    let idle = busy.shared.remote().scheduler().idle();
    for other in others {
        idle.enter(other.shared.remote().worker());
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

/// The worker was claimed, and has woken.
fn wakes(worker: &Worker<Host>) {
    worker.in_idle_set.set(true);
    worker.leave_idle_set();
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

#[test]
fn a_worker_that_was_asked_for_a_timed_check_and_takes_calls_wakes_another() {
    asks_another(|checker| {
        wakes(checker);
        let _ = checker.leave_behind_calls();
    });
    // It has slept since.
    asks_another(|checker| {
        wakes(checker);
        assert!(!checker.search_if_claimed(), "there is nothing to take");
        assert!(checker.watchdog_until_ns().is_some());
        let _ = checker.leave_behind_calls();
    });
}

/// A worker sleeps until a timer of worker 0, wakes, and spins in the idle set.
fn plans_and_spins(busy: &Worker<Host>, relies: &Worker<Host>) -> u64 {
    let due_ns = arm(busy);
    assert_eq!(relies.watchdog_until_ns(), Some(due_ns + OVERDUE_NS));
    relies.enter_idle_set();
    due_ns
}

#[test]
fn a_worker_that_spins_and_takes_calls_hands_its_timed_check_to_another_and_no_later() {
    let [busy, relies, other] = scheduler_by_hand();
    let idle = busy.shared.remote().scheduler().idle();
    let due_ns = plans_and_spins(&busy, &relies);
    idle.enter(2);
    let _ = relies.leave_behind_calls();
    assert!(idle.is_searching(2), "the other worker is asked");
    assert!(!idle.is_searching(1), "it asked itself");
    // The worker with the timer idles, so that only the request tells of it.
    let _ = busy.shared.remote().bell().announce_spin();
    let planned_ns = other.watchdog_until_ns().expect("it looks then");
    assert_eq!(planned_ns, due_ns + OVERDUE_NS);
}

/// So the next worker that arms a timer, or begins to run with one, asks again.
#[test]
fn nobody_relies_on_the_timed_check_of_a_worker_that_takes_calls() {
    let [busy, relies] = scheduler_by_hand();
    let due_ns = plans_and_spins(&busy, &relies);
    let _ = relies.leave_behind_calls();
    let scheduler = busy.shared.remote().scheduler();
    assert!(scheduler.armed().is_unattended(due_ns));
}

#[test]
fn a_worker_that_takes_calls_is_not_asked_for_a_timed_check_again_and_again() {
    let [busy, only] = scheduler_by_hand();
    let remote = busy.shared.remote();
    let idle = remote.scheduler().idle();
    let _ = arm(&busy);
    let asks = |_: &usize| {
        // It spins, and serves calls between two polls of the worker with the timer.
        only.enter_idle_set();
        busy.ask_for_watchdog();
        let claimed = !idle.holds(1);
        only.leave_idle_set();
        let _ = only.leave_behind_calls();
        only.end_search();
        claimed
    };
    assert_eq!((0..5).filter(asks).count(), 1);
    assert!(only.watchdog_until_ns().is_some(), "it plans the check");
}

#[test]
fn a_check_that_finds_a_later_timer_is_planned_anew_and_wakes_nobody() {
    let [busy, relies] = scheduler_by_hand();
    let idle = busy.shared.remote().scheduler().idle();
    let _ = arm(&busy);
    busy.shared
        .remote()
        .publish_next_global(Host::now_ns() + 2_000_000);
    idle.enter(1);
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
            idle.enter(1);
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
        busy.shared.remote().scheduler().idle().enter(1);
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
    remote.scheduler().idle().enter(1);
    assert!(watchdog.watchdog_until_ns().is_some());
    assert!(busy.local.enter(|| busy.local.run_one()));
    let _ = arm(&busy);
    assert!(watchdog.shared.remote().is_watchdog());
    let woken = wakes_of_first(&busy, &watchdog);
    assert!(woken <= 1, "{woken}");
    busy.local.enter(|| busy.local.close());
}
