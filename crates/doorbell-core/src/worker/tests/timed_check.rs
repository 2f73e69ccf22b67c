//! Workers that sleep until others' timers are due.

use super::scheduler_by_hand;
use crate::testing::spawn;
use crate::worker::Worker;
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
    assert!(relies.relies.get() && !relies.shared.remote().is_watchdog());
    assert!(!scheduler.armed().is_unattended(due_ns));
    assert_eq!(other.watchdog_until_ns(), None, "one is enough");
    assert!(
        scheduler.armed().is_unattended(due_ns - HOUR_NS / 2),
        "who arms that wakes somebody"
    );
    // It has something to run.
    relies.end_watchdog();
    assert!(scheduler.armed().is_unattended(due_ns) && !relies.relies.get());
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
    assert!(relies.relies.get());
    watchdog.watchdog_end_ns.set(0);
    let idle = remote.scheduler().idle();
    idle.enter(watchdog.shared.remote().worker());
    assert_eq!(watchdog.watchdog_until_ns(), None);
    assert!(!watchdog.shared.remote().is_watchdog() && !idle.wants_watchdog());
    busy.local.enter(|| busy.local.close());
}
