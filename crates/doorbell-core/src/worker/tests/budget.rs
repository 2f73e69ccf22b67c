//! The arithmetic of budgets, by times that are told.

use crate::scheduler::Scheduler;
use crate::scheduler::idle::Watchdog;
use crate::task::Kind;
use crate::testing::launch_as;
use crate::worker::budget::{BudgetAccount, RunBudget, Verdict};
use crate::worker::{IdlePolicy, Worker, WorkerConfig, WorkerShared};
use doorbell_machine::Host;
use proptest::prelude::*;
use std::sync::Arc;

const MS: u64 = 1_000_000;

fn account() -> BudgetAccount {
    BudgetAccount::new(RunBudget {
        run_ns: 95 * MS,
        period_ns: 100 * MS,
    })
}

fn spent(until_ms: u64) -> Verdict {
    Verdict::Spent {
        until_ns: until_ms * MS,
    }
}

#[test]
fn a_worker_runs_for_its_budget_and_is_throttled_for_the_rest_of_the_period() {
    let mut account = account();
    account.begin(0);
    assert_eq!(account.verdict(94 * MS), Verdict::Go);
    assert_eq!(account.verdict(95 * MS), spent(100));
    account.end(95 * MS);
    account.begin(100 * MS);
    assert_eq!(account.verdict(100 * MS), Verdict::Go);
    assert_eq!(account.verdict(195 * MS - 1), Verdict::Go);
    assert_eq!(account.verdict(195 * MS), spent(200));
}

#[test]
fn what_sleeps_uses_nothing() {
    let mut account = account();
    for period in 0..10 {
        let start = period * 100;
        account.begin(start * MS);
        account.end((start + 40) * MS);
        account.begin((start + 50) * MS);
        assert_eq!(account.verdict((start + 99) * MS), Verdict::Go);
        account.end((start + 99) * MS);
    }
}

#[test]
fn a_poll_that_was_too_long_is_paid_for_later() {
    let mut account = account();
    account.begin(0);
    // 130 ms in one poll: 35 are of the second period.
    assert_eq!(account.verdict(130 * MS), Verdict::Go);
    assert_eq!(account.verdict(190 * MS - 1), Verdict::Go);
    assert_eq!(account.verdict(190 * MS), spent(200));
}

#[test]
fn after_a_poll_of_hours_or_a_leap_of_the_clock_one_rest_is_enough() {
    let mut account = account();
    account.begin(0);
    let late = 5 * 3_600_000;
    assert_eq!(account.verdict(late * MS), spent(late + 100));
    account.end(late * MS);
    account.begin((late + 100) * MS);
    assert_eq!(account.verdict((late + 100) * MS), Verdict::Go);
}

#[test]
fn a_clock_that_goes_back_begins_a_new_period() {
    let mut account = account();
    account.begin(1_000 * MS);
    assert_eq!(account.verdict(1_095 * MS), spent(1_100));
    assert_eq!(account.verdict(7 * MS), Verdict::Go);
    assert_eq!(account.verdict(101 * MS), Verdict::Go);
    assert_eq!(account.verdict(102 * MS), spent(107));
}

#[test]
fn at_the_end_of_time_nobody_is_throttled() {
    let mut account = account();
    account.begin(u64::MAX - 50 * MS);
    account.end(u64::MAX - 40 * MS);
    account.begin(u64::MAX - 40 * MS);
    assert_eq!(account.verdict(u64::MAX), Verdict::Go);
    let mut extreme = BudgetAccount::new(RunBudget {
        run_ns: u64::MAX,
        period_ns: 0,
    });
    extreme.begin(0);
    assert_eq!(extreme.verdict(u64::MAX), Verdict::Go);
    let mut least = BudgetAccount::new(RunBudget {
        run_ns: 0,
        period_ns: 0,
    });
    least.begin(5);
    assert_eq!(least.verdict(6), Verdict::Go);
}

#[test]
fn a_whole_period_is_no_limit() {
    let mut account = BudgetAccount::new(RunBudget {
        run_ns: 100 * MS,
        period_ns: 100 * MS,
    });
    account.begin(0);
    for ms in [99, 100, 150, 200, 10_000] {
        assert_eq!(account.verdict(ms * MS), Verdict::Go);
    }
}

/// It may sleep for long, and look at nobody meanwhile.
#[test]
fn a_worker_that_is_throttled_is_no_watchdog() {
    let remotes = Scheduler::<Host>::new(2, &Arc::default(), |_, _| 0);
    let idle = IdlePolicy::Park;
    let shared = WorkerShared::with(WorkerConfig { idle }, remotes[0].clone(), Arc::default());
    let budget = RunBudget {
        run_ns: 1,
        period_ns: MS,
    };
    let worker = Worker::limited(Arc::new(shared), Some(budget));
    let idle = remotes[0].scheduler().idle();
    assert_eq!(idle.begin_watchdog(), Watchdog::Begun);
    remotes[0].set_watchdog(true);
    worker.begin_to_run();
    while !worker.is_spent() {
        std::hint::spin_loop();
    }
    worker.local.enter(|| {
        drop(launch_as(&remotes[0], Kind::Pinned, async {}));
        worker.throttle_if_spent();
        worker.local.close();
    });
    assert_eq!(worker.shared.counts().throttles, 1);
    assert!(!remotes[0].is_watchdog());
}

/// A worker that is throttled for an hour, with something to do. It runs on a thread of its own.
fn throttled() -> (Arc<WorkerShared<Host>>, std::thread::JoinHandle<()>) {
    let remotes = Scheduler::<Host>::new(1, &Arc::default(), |_, _| 0);
    let idle = IdlePolicy::Park;
    let shared = WorkerShared::with(WorkerConfig { idle }, remotes[0].clone(), Arc::default());
    let shared = Arc::new(shared);
    let budget = RunBudget {
        run_ns: 1,
        period_ns: 3_600_000 * MS,
    };
    drop(launch_as(&remotes[0], Kind::Pinned, async {
        std::future::poll_fn(|cx| {
            cx.waker().wake_by_ref();
            std::task::Poll::<()>::Pending
        })
        .await;
    }));
    let theirs = Arc::clone(&shared);
    let thread = std::thread::spawn(move || Worker::limited(theirs, Some(budget)).run());
    // It is throttled before its first poll or behind it. If it has not come so far, the test shows less.
    std::thread::sleep(std::time::Duration::from_millis(50));
    (shared, thread)
}

fn ends_in_time(shared: &WorkerShared<Host>, thread: std::thread::JoinHandle<()>) {
    let start = std::time::Instant::now();
    shared.close();
    while !thread.is_finished() {
        assert!(start.elapsed().as_secs() < 60, "it sleeps on");
        std::thread::yield_now();
    }
    thread.join().unwrap();
}

#[test]
fn r14_a_worker_that_is_throttled_ends_when_it_is_told() {
    let (shared, thread) = throttled();
    ends_in_time(&shared, thread);
}

#[test]
fn r14_a_worker_that_is_throttled_serves_a_call_if_it_is_roused() {
    let (shared, thread) = throttled();
    let (tell, told) = std::sync::mpsc::channel();
    drop(launch_as(shared.remote(), Kind::Call, async move {
        tell.send(()).unwrap();
    }));
    shared.rouse();
    let minute = std::time::Duration::from_mins(1);
    told.recv_timeout(minute).expect("it looks at its mail");
    ends_in_time(&shared, thread);
}

proptest! {
    /// The contract of `RunBudget`, of a worker that always has more to do.
    #[test]
    fn a_busy_worker_keeps_to_its_share(
        polls in proptest::collection::vec(1..900_u64, 1..400),
        start in 0..u64::MAX / 2,
    ) {
        const BUDGET: RunBudget = RunBudget { run_ns: 900, period_ns: 1_000 };
        let mut account = BudgetAccount::new(BUDGET);
        account.begin(start);
        let (mut now, mut ran) = (start, 0);
        let longest = polls.iter().copied().max().unwrap_or(0);
        for poll in polls {
            if let Verdict::Spent { until_ns } = account.verdict(now) {
                prop_assert!(until_ns > now && until_ns - now <= BUDGET.period_ns);
                account.end(now);
                now = until_ns;
                account.begin(now);
                prop_assert_eq!(account.verdict(now), Verdict::Go, "it runs after one rest");
            }
            now += poll;
            ran += poll;
            // The periods that it ran in, the last of which it had in part.
            let periods = (now - start) / BUDGET.period_ns + 1;
            prop_assert!(ran <= periods * BUDGET.run_ns + longest, "{ran} in {periods}");
            // It is not kept from more than the rest of each period.
            prop_assert!(now - start - ran <= periods * 100 + longest);
        }
    }
}
