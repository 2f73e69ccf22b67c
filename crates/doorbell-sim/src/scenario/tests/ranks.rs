//! An Rt worker runs tasks of higher rank first, at poll boundaries, whichever thread woke them.

use super::crossing::CORES;
use crate::scenario::class::{Classes, FAIR, RT, Urgent};
use crate::scenario::scheduler::{SchedulerConfig, Threads, Workers};
use crate::scenario::{Shape, oracle};
use doorbell_core::scheduler::Turns;
use doorbell_core::switches::Switches;
use doorbell_core::task::Kind;
use doorbell_core::worker::IdlePolicy;
use doorbell_machine::sim::{self, Config};
use doorbell_machine::{Machine, Sim};
use futures_channel::mpsc::unbounded;
use futures_channel::oneshot;
use std::sync::Arc;

const TASKS: u64 = 12;
/// How long the worker is busy while the tasks are woken.
const BUSY_NS: u64 = 1_000_000;

fn start(cpu: usize) -> (Arc<Workers<0>>, Threads) {
    Sim::<0>::bind_thread(&[cpu]).unwrap();
    let config = SchedulerConfig {
        workers: CORES,
        classes: Classes::Each(Urgent::Fifo),
        groups: false,
        idle: IdlePolicy::Park,
        switches: Switches::default(),
        paused: false,
        turns: Turns::ByRank,
        budget: None,
    };
    let started = Workers::<0>::start(config, Arc::default()).unwrap();
    sim::sleep(100_000);
    started
}

/// The ranks of tasks in the order in which an Rt worker polls them. A Fair worker, the other Rt worker and
/// a foreign thread woke them while that worker was busy.
fn order(seed: u64) -> Vec<u8> {
    let shape = Shape::new("ranks", CORES, 0);
    let config = Config {
        seed,
        machine: shape.machine.clone(),
        ..Config::default()
    };
    let (polled, mut all) = unbounded();
    let program = move || {
        let (workers, threads) = start(shape.main_cpu());
        let urgent = RT * CORES;
        let mut joins = Vec::new();
        let mut says = Vec::new();
        for _ in 0..TASKS {
            let rank = (sim::random() % 99) as u8;
            let (say, said) = oneshot::channel::<()>();
            let polled = polled.clone();
            let waits = async move {
                let _ = said.await;
                let _ = polled.unbounded_send(rank);
            };
            joins.push(workers.launch_ranked(urgent, Kind::Pinned, rank, waits));
            says.push(say);
        }
        sim::sleep(200_000);
        let works = async { sim::work(BUSY_NS) };
        joins.push(workers.launch_ranked(urgent, Kind::Pinned, 99, works));
        sim::sleep(50_000);
        for say in says {
            let tells = move || {
                let _ = say.send(());
            };
            match sim::random() % 3 {
                0 => joins.push(workers.launch(FAIR * CORES + 1, Kind::Pinned, async { tells() })),
                1 => joins.push(workers.launch(urgent + 1, Kind::Pinned, async { tells() })),
                _ => tells(),
            }
        }
        for join in joins {
            drop(workers.wait_for(join, 0));
        }
        workers.close(threads);
        oracle::check_freed(workers);
    };
    let outcome = sim::run_traced(config, None, program).unwrap();
    assert_eq!(outcome.failure, None);
    std::iter::from_fn(|| all.try_recv().ok()).collect()
}

#[test]
fn higher_numbers_of_an_urgent_worker_run_first() {
    for seed in 0..50 {
        let ranks = order(seed);
        assert_eq!(ranks.len() as u64, TASKS);
        assert!(ranks.is_sorted_by(|a, b| a >= b), "{seed}: {ranks:?}");
        assert_ne!(ranks.first(), ranks.last(), "{seed}: {ranks:?}");
    }
}
