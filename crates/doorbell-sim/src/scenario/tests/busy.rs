//! Busy workers by script, and mutants that they must show.

use super::{one_scheduler, result_of};
use crate::fuzz::machine_for;
use crate::scenario::busy::Busy;
use crate::scenario::oracle;
use crate::scenario::program::yield_now;
use crate::scenario::scheduler::Workers;
use crate::scenario::timer::Sleep;
use doorbell_core::task::Kind;
use doorbell_core::worker::{IdlePolicy, WorkerCounts};
use doorbell_machine::sim::{self, CHOSEN, Config, SimCounter};
use doorbell_machine::{Bug, Counter, Machine, Sim};
use std::pin::Pin;
use std::sync::Arc;

const US: u64 = 1_000;
const MS: u64 = 1_000_000;

/// How a run failed, if it did.
fn fails<const BUG: u8>(seed: u64, busy: Busy) -> Option<String> {
    let config = Config {
        seed,
        machine: machine_for(busy.workers + 1, None),
        ..Config::default()
    };
    let outcome = busy.run::<BUG>(config, None).unwrap();
    outcome
        .failure
        .map(|it| format!("seed {seed}, {busy:?}: {it}"))
}

/// Without other ready tasks, and beside some.
fn settings(seeds: u64) -> impl Iterator<Item = (u64, Busy)> {
    let sizes = [(1, 0), (1, 1), (1, 4), (2, 4), (2, 16)];
    let polls_ns = [US, 20 * US, 100 * US, MS, 2 * MS];
    let floods_ns = [0, 5 * US, 20 * US];
    (0..seeds).flat_map(move |seed| {
        sizes.into_iter().flat_map(move |(workers, tasks)| {
            polls_ns.into_iter().flat_map(move |poll_ns| {
                floods_ns.map(|flood_ns| {
                    let busy = Busy {
                        idle: IdlePolicy::Park,
                        workers,
                        tasks,
                        poll_ns,
                        flood_ns,
                        sleep_ns: 3 * MS,
                    };
                    (seed, busy)
                })
            })
        })
    })
}

#[test]
fn what_comes_to_busy_workers_waits_for_one_poll_and_who_yields_gets_a_turn() {
    let late: Vec<String> = settings(2)
        .filter_map(|(seed, busy)| fails::<0>(seed, busy))
        .collect();
    assert!(late.is_empty(), "{late:#?}");
}

/// As the fuzz draws them.
fn drawn() -> impl Iterator<Item = (u64, Busy)> {
    (0..60).map(|seed| (seed, Busy::drawn(seed, 1 + seed as usize % 4)))
}

#[test]
fn busy_workers_of_any_kind_keep_time() {
    let late: Vec<String> = drawn()
        .filter_map(|(seed, busy)| fails::<0>(seed, busy))
        .collect();
    assert!(late.is_empty(), "{late:#?}");
}

fn is_noticed(bug: Bug) {
    sim::break_thread(bug);
    let late = drawn().find_map(|(seed, busy)| fails::<CHOSEN>(seed, busy));
    assert!(late.is_some(), "{bug:?}");
}

#[test]
fn a_busy_worker_that_looks_by_count_is_noticed() {
    is_noticed(Bug::BusyLooksByCount);
}

#[test]
fn a_task_that_yields_and_stays_in_line_is_noticed() {
    is_noticed(Bug::DeferredInLine);
}

#[test]
fn a_deferred_queue_that_starves_is_noticed() {
    is_noticed(Bug::DeferredStarves);
}

/// How often one task sleeps.
const SLEEPS: u64 = 20;

/// Sleeps of one task where workers idle by this policy: how late the latest is, and what its worker did.
fn spins_past(workers: usize, idle: IdlePolicy, for_ns: u64) -> (u64, WorkerCounts) {
    let config = Config {
        machine: machine_for(workers + 1, None),
        ..Config::default()
    };
    result_of(config, move || {
        Sim::<0>::bind_thread(&[workers]).unwrap();
        let mut config = one_scheduler(workers);
        config.idle = idle;
        let (workers, threads) = Workers::<0>::start(config, Arc::default()).unwrap();
        let (its, late_ns) = (Arc::clone(&workers), Arc::<SimCounter>::default());
        let theirs = Arc::clone(&late_ns);
        let sleeps: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(async move {
            for _ in 0..SLEEPS {
                let due_ns = sim::time_ns() + for_ns;
                Sleep::new(&its, 0, for_ns).await;
                let late_ns = sim::time_ns().saturating_sub(due_ns);
                theirs.set(theirs.get().max(late_ns));
            }
        });
        let slept = workers.wait_for(workers.launch(0, Kind::Task, sleeps), 0);
        assert!(slept.is_ok());
        let counts = workers.counts()[0];
        workers.close(threads);
        oracle::check_freed(workers);
        (late_ns.get(), counts)
    })
    .unwrap()
}

#[test]
fn a_worker_that_never_parks_wakes_for_its_timers_in_time() {
    for workers in [1, 2, 4] {
        for for_ns in [200 * US, MS, 5 * MS, 20 * MS] {
            let (late_ns, counts) = spins_past(workers, IdlePolicy::NeverPark, for_ns);
            assert!(
                late_ns <= 30 * US,
                "{workers} workers, {for_ns}: {late_ns} ns"
            );
            assert_eq!(counts.parks, 0);
        }
    }
}

/// It parks once in a sleep that is longer than its spin, until shortly before the timer.
#[test]
fn a_worker_that_spins_for_a_fixed_time_wakes_for_its_timers_in_time() {
    let idle = IdlePolicy::Spin { spin_ns: 5 * MS };
    for workers in [1, 2] {
        for (for_ns, parks_once) in [(200 * US, false), (MS, false), (20 * MS, true)] {
            let (late_ns, counts) = spins_past(workers, idle, for_ns);
            let parks = counts.parks;
            assert!(
                late_ns <= 30 * US,
                "{workers} workers, {for_ns}: {late_ns} ns"
            );
            let expected = if parks_once { SLEEPS } else { 0 };
            assert!(
                (expected..=expected + 1).contains(&parks),
                "{workers} workers, {for_ns}: {parks} parks"
            );
            if parks_once {
                // Before the park, and from shortly before the timer on.
                let spun_ns = counts.spun_vain_ns / SLEEPS;
                assert!(
                    (5 * MS + 50 * US..=5 * MS + 100 * US).contains(&spun_ns),
                    "{workers} workers: {spun_ns} ns"
                );
            }
        }
    }
}

/// How often a task that yields is polled, and how many new tasks run, where each of those launches the next and all polls
/// take 1 ms.
fn turns_beside_new_tasks_that_compute() -> (u64, u64) {
    fn next(workers: &Arc<Workers<0>>, ran: &Arc<SimCounter>, is_over: &Arc<SimCounter>) {
        let (its, polls, over) = (Arc::clone(workers), Arc::clone(ran), Arc::clone(is_over));
        drop(workers.launch(0, Kind::Task, async move {
            sim::work(MS);
            polls.set(polls.get() + 1);
            if over.get() == 0 {
                next(&its, &polls, &over);
            }
        }));
    }
    let config = Config {
        machine: machine_for(2, None),
        ..Config::default()
    };
    result_of(config, || {
        Sim::<0>::bind_thread(&[1]).unwrap();
        let (workers, threads) = Workers::<0>::start(one_scheduler(1), Arc::default()).unwrap();
        let [yields, ran, is_over] = [(); 3].map(|()| Arc::<SimCounter>::default());
        let (turns, over) = (Arc::clone(&yields), Arc::clone(&is_over));
        drop(workers.launch(0, Kind::Task, async move {
            while over.get() == 0 {
                sim::work(MS);
                turns.set(turns.get() + 1);
                yield_now().await;
            }
        }));
        next(&workers, &ran, &is_over);
        sim::sleep(500 * MS);
        is_over.set(1);
        sim::sleep(10 * MS);
        workers.close(threads);
        oracle::check_freed(workers);
        (yields.get(), ran.get())
    })
    .unwrap()
}

#[test]
fn new_tasks_that_compute_run_once_before_one_that_is_known_for_it() {
    let (yields, ran) = turns_beside_new_tasks_that_compute();
    assert!(
        (6 * yields..=9 * yields).contains(&ran),
        "{ran} beside {yields}"
    );
}

/// How long a task that is spawned on worker 0 waits at most. That worker computes and yields, in polls of 1 ms; on the other
/// one so many short tasks are always ready, and each launches the next.
fn waits_beside_a_long_queue(chains: usize) -> u64 {
    fn chain(workers: &Arc<Workers<0>>, is_over: &Arc<SimCounter>) {
        let (its, over) = (Arc::clone(workers), Arc::clone(is_over));
        drop(workers.launch(1, Kind::Task, async move {
            sim::work(50 * US);
            if over.get() == 0 {
                chain(&its, &over);
            }
        }));
    }
    let config = Config {
        machine: machine_for(3, None),
        ..Config::default()
    };
    result_of(config, move || {
        Sim::<0>::bind_thread(&[2]).unwrap();
        let (workers, threads) = Workers::<0>::start(one_scheduler(2), Arc::default()).unwrap();
        let (is_over, most_ns) = (Arc::<SimCounter>::default(), Arc::<SimCounter>::default());
        let over = Arc::clone(&is_over);
        drop(workers.launch(0, Kind::Pinned, async move {
            while over.get() == 0 {
                sim::work(MS);
                yield_now().await;
            }
        }));
        for _ in 0..chains {
            chain(&workers, &is_over);
        }
        sim::sleep(20 * MS);
        for round in 0..40 {
            let (since_ns, most) = (sim::time_ns(), Arc::clone(&most_ns));
            drop(workers.launch(0, Kind::Task, async move {
                most.set(most.get().max(sim::time_ns() - since_ns));
            }));
            sim::sleep(MS + round * 130 * US);
        }
        sim::sleep(100 * MS);
        is_over.set(1);
        sim::sleep(100 * MS);
        workers.close(threads);
        oracle::check_freed(workers);
        most_ns.get()
    })
    .unwrap()
}

/// Its worker runs it after the poll under way, or the other one does so sooner. Not behind a hundred tasks there.
#[test]
fn w47_what_is_posted_behind_a_poll_waits_for_no_long_queue_of_another_worker() {
    for chains in [1, 100] {
        let most_ns = waits_beside_a_long_queue(chains);
        assert!(most_ns <= MS + 175 * US, "{chains}: {most_ns} ns");
    }
}
