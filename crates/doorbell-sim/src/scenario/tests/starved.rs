//! One worker gets no CPU, as if another program had it. The tasks behind a long poll of another worker
//! must be begun by the remaining ones.

use super::{one_scheduler, with_workers};
use crate::scenario::scheduler::Workers;
use doorbell_core::task::Kind;
use doorbell_machine::sim::{self, SimCounter, SimThread};
use doorbell_machine::{Counter, Machine, Policy, Sim, ThreadHandle, ThreadSpec};
use std::sync::Arc;

const MS: u64 = 1_000_000;
const WORKERS: usize = 4;
const TASKS: usize = 4;
/// How long the poll is behind which the tasks wait, and how long the other worker gets no CPU.
const LONG_NS: u64 = 5 * MS;
const STARVED_NS: u64 = 20 * MS;
/// By when each task has begun.
const BEGUN_NS: u64 = MS;

/// Keeps a CPU until the run ends.
fn take_cpu(cpu: usize) -> SimThread {
    let spec = ThreadSpec {
        name: "another program".to_owned(),
        cpu: Some(cpu),
        stack_size: None,
    };
    let has_it = || {
        sim::set_policy(Policy::Fifo { priority: 99 });
        sim::work(STARVED_NS);
    };
    Sim::<0>::spawn(spec, Box::new(has_it)).unwrap()
}

fn program(workers: &Arc<Workers<0>>) {
    // By then all workers have parked.
    sim::sleep(MS);
    let program = take_cpu(1);
    sim::sleep(MS / 10);
    let begun: Vec<Arc<SimCounter>> = (0..TASKS).map(|_| Arc::default()).collect();
    let (mine, theirs) = (Arc::clone(workers), begun.clone());
    let spawned = Arc::new(SimCounter::default());
    let when = Arc::clone(&spawned);
    let spawns = workers.launch(0, Kind::Pinned, async move {
        when.set(sim::time_ns());
        for begun in theirs {
            let begins = async move {
                begun.set(sim::time_ns());
                sim::work(LONG_NS / 2);
            };
            drop(mine.launch(0, Kind::Task, begins));
        }
        sim::work(LONG_NS);
    });
    sim::sleep(2 * MS);
    let taken = begun.iter().filter(|it| it.get() != 0).count();
    // Workers 2 and 3 are free, and each begins one.
    if taken != 2 {
        sim::fail(format!(
            "{taken} tasks were begun while their worker was inside a poll"
        ));
    }
    let late = begun
        .iter()
        .map(|it| it.get().saturating_sub(spawned.get()));
    let late_ns = late.max().unwrap_or(0);
    if late_ns > BEGUN_NS {
        sim::fail(format!("begun after {late_ns} ns"));
    }
    if workers.remote(0).scheduler().idle().holds(1) {
        sim::fail("the worker without a CPU was not claimed");
    }
    drop(workers.wait_for(spawns, 0));
    program.join().unwrap();
}

#[test]
fn tasks_behind_a_long_poll_are_begun_within_a_millisecond_while_one_worker_gets_no_cpu() {
    with_workers(one_scheduler(WORKERS), |workers, close| {
        program(workers);
        sim::sleep(STARVED_NS);
        close();
    });
}
