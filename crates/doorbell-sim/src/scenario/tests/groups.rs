//! Groups that share the workers, in simulated time.

use super::{one_scheduler, with_workers};
use crate::scenario::scheduler::Workers;
use crate::scenario::timer::Sleep;
use doorbell_core::task::{About, Kind};
use doorbell_machine::sim;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

const MS: u64 = 1_000_000;

/// The measured span of a run, after the time in which it settles.
const PACE_NS: u64 = 20 * MS;
const SPAN_NS: u64 = 100 * MS;

/// Tasks of one group: their weight, the worker on which they begin (`None`: each in turn), their number,
/// and the length of their polls.
#[derive(Clone, Copy)]
struct Tasks {
    weight: u32,
    worker: Option<usize>,
    count: usize,
    poll_ns: u64,
}

/// Runs tasks that are always runnable. Checks what each kind got of the span, in thousandths.
fn parts(workers: usize, all: Vec<Tasks>, check: impl FnOnce(&[u64]) -> bool + Send + 'static) {
    with_workers(one_scheduler(workers), move |workers, close| {
        let parts = run(workers, &all);
        if !check(&parts) {
            sim::fail(format!("{parts:?}"));
        }
        close();
    });
}

/// If the weight of the first kind is 0, it is in no group.
fn run(workers: &Arc<Workers<0>>, all: &[Tasks]) -> Vec<u64> {
    let groups = workers.remote(0).scheduler().groups();
    let begin_ns = sim::time_ns() + PACE_NS;
    let mut number = 0;
    let mut joins = Vec::new();
    let mut spawners = Vec::new();
    for (kind, tasks) in all.iter().enumerate() {
        if tasks.weight > 0 {
            number += 1;
            // SAFETY: no other thread opens a group, and the group has no tasks yet.
            unsafe { groups.open(workers.len(), number, tasks.weight) };
        }
        let group = if tasks.weight > 0 { number } else { 0 };
        let (theirs, poll_ns) = (Arc::clone(workers), tasks.poll_ns);
        let spawn = move |worker| {
            theirs.remote(0).scheduler().groups().reserve(group);
            let about = About {
                group: Some(group),
                ..About::default()
            };
            let work = work_within(begin_ns, begin_ns + SPAN_NS, poll_ns);
            theirs.launch_about(worker, Kind::Task, about, work)
        };
        let Some(worker) = tasks.worker else {
            joins.extend((0..tasks.count).map(|at| (kind, spawn(at % workers.len()))));
            continue;
        };
        // Spawned by that worker itself, so they begin there. The other kinds get their share meanwhile.
        let count = tasks.count;
        let spawner = async move {
            sim::work(MS);
            (0..count).map(|_| spawn(worker)).collect::<Vec<_>>()
        };
        spawners.push((kind, workers.launch(worker, Kind::Pinned, spawner)));
    }
    for (kind, spawner) in spawners {
        let tasks = workers.wait_for(spawner, 0).unwrap_or_default();
        joins.extend(tasks.into_iter().map(|task| (kind, task)));
    }
    let mut worked_ns = vec![0; all.len()];
    for (kind, join) in joins {
        worked_ns[kind] += workers.wait_for(join, 0).unwrap_or(0);
    }
    let span_ns = SPAN_NS * workers.len() as u64;
    worked_ns.iter().map(|ns| ns * 1_000 / span_ns).collect()
}

/// Works in polls of `poll_ns`. Returns how long it worked within the span.
async fn work_within(begin_ns: u64, end_ns: u64, poll_ns: u64) -> u64 {
    let mut worked_ns = 0;
    poll_fn(|cx| {
        let from_ns = sim::time_ns().max(begin_ns);
        sim::work(poll_ns);
        worked_ns += sim::time_ns().min(end_ns).saturating_sub(from_ns);
        if sim::time_ns() >= end_ns {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
    worked_ns
}

/// Tasks of a group compute, and tasks of the default group do. Returns how often one that sleeps for 1 ms each time ran
/// beside them, and those of the default group that compute.
fn beside_a_group(workers: &Arc<Workers<0>>, weight: u32, poll_ns: u64) -> [u64; 2] {
    const COMPUTING: usize = 2;
    let groups = workers.remote(0).scheduler().groups();
    // SAFETY: no other thread opens a group, and the group has no tasks yet.
    unsafe { groups.open(workers.len(), 1, weight) };
    let until_ns = sim::time_ns() + 10 * SPAN_NS;
    let compute = |group| {
        groups.reserve(group);
        let about = About {
            group: Some(group),
            ..About::default()
        };
        workers.launch_about(0, Kind::Task, about, work_within(0, until_ns, poll_ns))
    };
    let grouped = [1; COMPUTING].map(compute);
    let plain = [0; COMPUTING].map(compute);
    let its = Arc::clone(workers);
    let sleeper = workers.launch(0, Kind::Task, async move {
        let mut ran = 0;
        while sim::time_ns() < until_ns {
            Sleep::new(&its, 0, MS).await;
            ran += 1;
        }
        ran
    });
    let [_, computed_ns] = [grouped, plain].map(|joins| {
        let worked = joins.map(|join| workers.wait_for(join, 0).expect("it ends"));
        worked.into_iter().sum::<u64>()
    });
    let slept = workers.wait_for(sleeper, 0).expect("it ends");
    [slept, computed_ns / poll_ns]
}

fn tasks(weight: u32, worker: Option<usize>, count: usize, poll_ns: u64) -> Tasks {
    Tasks {
        weight,
        worker,
        count,
        poll_ns,
    }
}

/// Whether each part is within 5 percentage points of the expected one. The workers themselves use a
/// little.
fn are_about(parts: &[u64], expected: &[u64]) -> bool {
    let mut both = parts.iter().zip(expected);
    both.all(|(part, expected)| part.abs_diff(*expected) <= 50)
}

#[test]
fn weights_of_one_to_two_to_seven_share_two_workers() {
    let all = vec![
        tasks(100, None, 4, 50_000),
        tasks(200, None, 4, 50_000),
        tasks(700, None, 4, 50_000),
    ];
    parts(2, all, |parts| are_about(parts, &[100, 200, 700]));
}

#[test]
fn parts_do_not_depend_on_how_many_and_how_long() {
    let all = vec![
        tasks(0, None, 12, 400_000),
        tasks(100, None, 6, 20_000),
        tasks(300, None, 5, 110_000),
    ];
    parts(4, all, |parts| are_about(parts, &[200, 200, 600]));
}

#[test]
fn tasks_move_for_a_group_that_lacks_them_where_others_run() {
    // A group with a worker to itself would get half.
    let all = vec![
        tasks(100, Some(0), 3, 100_000),
        tasks(300, Some(1), 3, 100_000),
    ];
    parts(2, all, |parts| are_about(parts, &[250, 750]));
}

#[test]
fn a_group_alone_has_all_workers() {
    let all = vec![tasks(1, Some(0), 5, 50_000)];
    parts(4, all, |parts| parts[0] > 900);
}

#[test]
fn what_waits_behind_a_long_poll_is_taken() {
    // One worker is inside a poll during the whole span; its tasks run elsewhere.
    let all = vec![
        tasks(1, Some(0), 4, 50_000),
        tasks(10_000, Some(0), 1, PACE_NS + SPAN_NS),
    ];
    parts(2, all, |parts| parts[0] > 450);
}

#[test]
fn w48_what_is_short_has_its_turns_beside_a_group_that_computes() {
    for (weight, poll_ns) in [(100, 5 * MS), (300, 4 * MS), (1_000, MS), (10_000, MS)] {
        with_workers(one_scheduler(1), move |workers, close| {
            let [short, long] = beside_a_group(workers, weight, poll_ns);
            // It sleeps through one turn of the default group in two.
            if long == 0 || short < long / 4 {
                sim::fail(format!(
                    "weight {weight}, polls of {poll_ns}: {short} and {long}"
                ));
            }
            close();
        });
    }
}
