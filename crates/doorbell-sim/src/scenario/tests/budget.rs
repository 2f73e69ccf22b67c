//! Workers with a budget of CPU time, in simulated time.

use super::{one_scheduler, with_workers};
use crate::scenario::scheduler::{SchedulerConfig, Workers};
use doorbell_core::scheduler::Turns;
use doorbell_core::task::Kind;
use doorbell_core::worker::{RunBudget, WorkerCounts};
use doorbell_machine::sim;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

const MS: u64 = 1_000_000;

/// Runs a program with workers that have a budget, and returns what they counted.
fn run(
    workers: usize,
    budget: RunBudget,
    program: impl FnOnce(&Arc<Workers<0>>) + Send + 'static,
    check: impl FnOnce(&[WorkerCounts]) -> Result<(), String> + Send + 'static,
) {
    let scheduler = SchedulerConfig {
        turns: Turns::ByRank,
        budget: Some(budget),
        ..one_scheduler(workers)
    };
    with_workers(scheduler, move |workers, close| {
        program(workers);
        close();
        if let Err(why) = check(&workers.counts()) {
            sim::fail(why);
        }
    });
}

/// Works in polls of `poll_ns` until `end_ns`. Returns how long it worked.
async fn work_until(end_ns: u64, poll_ns: u64) -> u64 {
    let mut worked_ns = 0;
    poll_fn(|cx| {
        sim::work(poll_ns);
        worked_ns += poll_ns;
        if sim::time_ns() >= end_ns {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
    worked_ns
}

#[test]
fn a_worker_that_is_always_busy_leaves_a_part_of_each_period() {
    let budget = RunBudget {
        run_ns: 95 * MS / 10,
        period_ns: 10 * MS,
    };
    let program = |workers: &Arc<Workers<0>>| {
        let start_ns = sim::time_ns();
        let busy = work_until(start_ns + 200 * MS, 50_000);
        let worked_ns = workers.wait_for(workers.launch(0, Kind::Pinned, busy), 0);
        let (worked_ns, took_ns) = (worked_ns.unwrap_or(0), sim::time_ns() - start_ns);
        if !(took_ns * 90 / 100..=took_ns * 955 / 1_000).contains(&worked_ns) {
            sim::fail(format!("it worked {worked_ns} of {took_ns} ns"));
        }
    };
    run(1, budget, program, |counts| {
        let WorkerCounts {
            throttles,
            throttled_ns,
            ..
        } = counts[0];
        let fits = (18..=21).contains(&throttles) && (8 * MS..=11 * MS).contains(&throttled_ns);
        fits.then_some(())
            .ok_or(format!("{throttles}: {throttled_ns} ns"))
    });
}

#[test]
fn a_worker_that_sleeps_in_between_is_never_throttled() {
    let budget = RunBudget {
        run_ns: MS / 2,
        period_ns: MS,
    };
    let program = |workers: &Arc<Workers<0>>| {
        for _ in 0..100 {
            let busy = work_until(0, 300_000);
            let _ = workers.wait_for(workers.launch(0, Kind::Pinned, busy), 0);
            sim::sleep(MS);
        }
    };
    run(1, budget, program, |counts| {
        let throttles = counts[0].throttles;
        (throttles == 0)
            .then_some(())
            .ok_or(format!("{throttles} throttles"))
    });
}

#[test]
fn others_run_the_tasks_of_a_worker_that_is_throttled() {
    let budget = RunBudget {
        run_ns: 10 * MS,
        period_ns: 20 * MS,
    };
    let program = |workers: &Arc<Workers<0>>| {
        let theirs = Arc::clone(workers);
        let spends = workers.launch(0, Kind::Pinned, async move {
            sim::work(11 * MS);
            let spawned_ns = sim::time_ns();
            let moves = async move {
                let late_ns = sim::time_ns() - spawned_ns;
                if late_ns > 2 * MS || sim::cpu() != Some(1) {
                    sim::fail(format!("on {:?} after {late_ns} ns", sim::cpu()));
                }
            };
            // The thread outside waits for it.
            (theirs.launch(0, Kind::Task, moves),)
        });
        match workers.wait_for(spends, 0) {
            Ok((task,)) => drop(workers.wait_for(task, 0)),
            Err(_) => sim::fail("it was cancelled"),
        }
        // Pinned to the throttled worker: the task waits, but not for longer than the period.
        let posted_ns = sim::time_ns();
        let pinned = workers.launch(0, Kind::Pinned, async move { sim::time_ns() - posted_ns });
        let waited_ns = workers.wait_for(pinned, 0).unwrap_or(0);
        if !(5 * MS..=10 * MS).contains(&waited_ns) {
            sim::fail(format!("a pinned task waited {waited_ns} ns"));
        }
    };
    run(2, budget, program, |counts| {
        let (throttles, thefts) = (counts[0].throttles, counts[1].thefts);
        let fits = (throttles, counts[1].throttles, thefts) == (1, 0, 1);
        fits.then_some(())
            .ok_or(format!("{throttles} throttles, {thefts} thefts"))
    });
}
