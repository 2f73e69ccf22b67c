//! The scenarios, judged by their oracles.

mod behind_a_poll;
mod budget;
mod busy;
mod claims;
mod crossing;
mod first_descriptor;
mod floods;
mod groups;
mod left_to_itself;
mod park_cost;
mod parking;
mod placed;
mod pull;
mod pull_looks;
mod push;
mod ranks;
mod slack;
mod stalls;
mod starved;
mod suspended;
mod tick;
mod trees;
mod waiting;

use super::program::yield_now;
use super::scheduler::{SchedulerConfig, Workers, one_scheduler};
use super::{Classes, Shape, Urgent, run};
use doorbell_core::scheduler::Turns;
use doorbell_machine::sim::{self, CHOSEN, Config, MachineSpec};
use doorbell_machine::{Bug, Machine, Sim};
use futures_channel::mpsc::unbounded;
use std::sync::Arc;

/// How long the first of two long polls of one task takes.
const FIRST_LONG_NS: u64 = 1_200_000;

/// A long poll of a task that has made one before, so that others look after its worker.
async fn work_long_again(for_ns: u64) {
    sim::work(FIRST_LONG_NS);
    yield_now().await;
    sim::work(for_ns);
}

/// Runs each seed twice and reports which seeds failed, and how.
fn check(shape: &Shape, seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let first = run::<0>(seed, shape).unwrap().outcome;
        if let Some(failure) = &first.failure {
            panic!("{} under seed {seed}: {failure}\n{first:#?}", shape.name);
        }
        let again = run::<0>(seed, shape).unwrap().outcome;
        assert_eq!(
            first.hash, again.hash,
            "{} under seed {seed} is not one run",
            shape.name
        );
    }
}

/// Runs a program: what it returns, or how the run failed.
fn result_of<T: 'static>(
    config: Config,
    program: impl FnOnce() -> T + 'static,
) -> Result<T, String> {
    let (report, mut reports) = unbounded();
    let outcome = sim::run_traced(config, None, move || {
        // The receiver outlives the run.
        let _ = report.unbounded_send(program());
    });
    match outcome.unwrap().failure {
        Some(failure) => Err(failure.to_string()),
        None => Ok(reports.try_recv().expect("the program came to its end")),
    }
}

/// Runs a program that uses the workers of one scheduler. The program runs on a thread with its own CPU,
/// and that thread closes the workers. One more CPU is free.
fn with_workers(
    scheduler: SchedulerConfig,
    program: impl FnOnce(&Arc<Workers<0>>, Box<dyn FnOnce()>) + Send + 'static,
) {
    let config = Config {
        machine: MachineSpec {
            cores_per_llc: scheduler.workers + 2,
            ..MachineSpec::default()
        },
        ..Config::default()
    };
    let outcome = sim::run_traced(config, None, move || {
        Sim::<0>::bind_thread(&[scheduler.workers]).unwrap();
        let (workers, threads) = Workers::<0>::start(scheduler, Arc::default()).unwrap();
        let theirs = Arc::clone(&workers);
        program(&workers, Box::new(move || theirs.close(threads)));
    });
    assert_eq!(outcome.unwrap().failure, None);
}

#[test]
fn two_workers() {
    check(&Shape::two_workers(), 0..200);
}

#[test]
fn conserving() {
    check(&Shape::conserving(), 0..200);
}

#[test]
fn storm() {
    check(&Shape::storm(), 0..200);
}

#[test]
fn storm_tso() {
    check(&Shape::storm_tso(), 0..200);
}

#[test]
fn leaps() {
    check(&Shape::leaps(), 0..200);
}

#[test]
fn paused() {
    check(&Shape::paused(), 0..200);
}

#[test]
fn ends() {
    check(&Shape::ends(), 0..200);
}

#[test]
fn ranked() {
    check(&Shape::ranked(), 0..200);
    let conserving = Shape {
        turns: Turns::ByRank,
        ..Shape::conserving()
    };
    check(&conserving, 0..200);
}

#[test]
fn ranked_in_order() {
    check(&Shape::ranked_in_order(), 0..200);
}

#[test]
fn a_poll_that_begins_while_a_task_of_higher_rank_waits_is_noticed() {
    sim::break_thread(Bug::PushNoLook);
    let is_noticed = |seed: u64| {
        let report = run::<CHOSEN>(seed, &Shape::ranked_in_order()).unwrap();
        let failure = report.outcome.failure.map(|it| it.to_string());
        failure.is_some_and(|it| it.contains("rank order"))
    };
    assert!((0..10).any(is_noticed));
}

#[test]
fn classes() {
    check(&Shape::classes(), 0..200);
    let unprivileged = Shape {
        classes: Classes::Each(Urgent::Sooner),
        ..Shape::classes()
    };
    check(&unprivileged, 0..100);
}

#[test]
fn classes_in_order() {
    check(&Shape::classes_in_order(), 0..200);
}

#[test]
fn starved() {
    check(&Shape::starved(), 0..40);
    check(&Shape::starved_ranked(), 0..20);
}

/// A fault: the OS lets urgent workers share their CPU with lower ones. The oracle must notice.
#[test]
fn urgent_workers_without_their_policy_are_noticed() {
    let shared = Shape {
        classes: Classes::Each(Urgent::Nothing),
        ..Shape::classes_in_order()
    };
    let notices = |seed: &u64| {
        let failure = run::<0>(*seed, &shared).unwrap().outcome.failure;
        failure.is_some_and(|why| why.to_string().starts_with("class order"))
    };
    assert!((0..100).any(|seed| notices(&seed)));
}

#[test]
fn grouped() {
    for shape in [
        Shape::conserving(),
        Shape::storm(),
        Shape::leaps(),
        Shape::paused(),
        Shape::ends(),
    ] {
        let grouped = Shape {
            groups: true,
            ..shape
        };
        check(&grouped, 0..100);
    }
}

/// The clock jumps between two looks of a worker that parks: the worker announces its park, is rung, and
/// then finds a timer due. It must count either a park or an avoided one.
#[test]
fn a_park_that_a_due_timer_prevents_is_counted() {
    for seed in [585, 2_569] {
        check(&Shape::leaps(), seed..seed + 1);
    }
}

/// The number of events per worker, for a scheduler whose workers start, find nothing and end.
fn events_per_worker(workers: usize) -> u64 {
    let shape = Shape {
        steps: 0,
        faults: super::Wrong::Nothing,
        may: super::Repertoire {
            posts: false,
            tasks: false,
            timers: false,
            offline: false,
            long_polls: false,
            busy: false,
            descriptors: false,
        },
        ..Shape::new("idle", workers, 0)
    };
    let outcome = run::<0>(1, &shape).unwrap().outcome;
    assert_eq!(outcome.failure, None);
    assert!(outcome.parks >= workers as u64, "they sleep");
    outcome.events / workers as u64
}

/// The last look of a worker before it sleeps must not touch every other worker.
#[test]
fn s10_a_worker_that_sleeps_costs_as_much_in_a_large_scheduler() {
    let (few, many) = (events_per_worker(16), events_per_worker(256));
    assert!(many <= 2 * few, "{few} events a worker, then {many}");
    assert!(few > 0);
}
