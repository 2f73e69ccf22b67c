//! Rank order across the workers of a scheduler: no worker begins a poll while a task of a higher rank has waited 50 us
//! elsewhere.

// What the test itself records is not part of the runtime.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use super::one_scheduler;
use crate::fuzz::machine_for;
use crate::scenario::program::{Ended, yield_now};
use crate::scenario::scheduler::{SchedulerConfig, Workers};
use crate::scenario::{oracle, spawn};
use doorbell_core::scheduler::Turns;
use doorbell_core::switches::RtPush;
use doorbell_core::task::Kind;
use doorbell_core::worker::RunBudget;
use doorbell_machine::sim::{self, Config};
use doorbell_machine::{Bug, Machine, Sim, ThreadHandle};
use std::sync::{Arc, Mutex};

const US: u64 = 1_000;
/// How long a task may wait while others begin polls of lower rank.
const WAIT_NS: u64 = 50 * US;
/// How long before or after a theft the tasks that a worker has in its hands may be missed by another one that begins a
/// poll. A worker takes an inject queue or a backlog whole.
const IN_HAND_NS: u64 = 10 * US;
/// By then all workers sleep.
const SETTLE_NS: u64 = 1_000 * US;

/// A task that was posted, and has not begun.
#[derive(Debug)]
struct Waiting {
    task: usize,
    rank: u8,
    since_ns: u64,
    /// When a poll of lower rank first began although this task had waited for too long.
    passed_ns: Option<u64>,
}

/// What a run has seen of rank order.
#[derive(Debug, Default)]
struct Seen {
    waiting: Vec<Waiting>,
    /// The ranks of the polls that began just now, and when.
    begun: Vec<(u8, u64)>,
    /// The longest wait of a task of the highest rank, 99.
    slowest_ns: u64,
    /// Tasks that had to wait for a poll of lower rank.
    passed: u64,
}

#[derive(Clone, Debug, Default)]
struct Order(Arc<Mutex<Seen>>);

impl Order {
    fn posted(&self, task: usize, rank: u8) {
        let since_ns = sim::time_ns();
        self.0.lock().unwrap().waiting.push(Waiting {
            task,
            rank,
            since_ns,
            passed_ns: None,
        });
    }

    /// A poll of this rank begins: that of a task that was posted, or another.
    fn begins(&self, task: Option<usize>, rank: u8) {
        let now_ns = sim::time_ns();
        let mut seen = self.0.lock().unwrap();
        let found = seen.waiting.iter().position(|it| Some(it.task) == task);
        if let Some(begun) = found.map(|at| seen.waiting.swap_remove(at)) {
            if begun.rank == 99 {
                seen.slowest_ns = seen.slowest_ns.max(now_ns - begun.since_ns);
            }
            let was_passed = begun
                .passed_ns
                .is_some_and(|at_ns| now_ns > at_ns + IN_HAND_NS);
            seen.passed += u64::from(was_passed);
        }
        for waiting in seen.waiting.iter_mut().filter(|it| it.rank <= rank) {
            // A thief had it in its hands when that other poll began, and now begins the first of what it took.
            let in_hand = |at_ns: &u64| now_ns <= at_ns + IN_HAND_NS;
            waiting.passed_ns = waiting.passed_ns.filter(|at_ns| !in_hand(at_ns));
        }
        seen.begun.retain(|(_, at_ns)| now_ns <= at_ns + IN_HAND_NS);
        let Seen { waiting, begun, .. } = &mut *seen;
        let in_hand = |it: &Waiting| begun.iter().any(|(rank, _)| *rank >= it.rank);
        let late = |it: &&mut Waiting| it.rank > rank && now_ns > it.since_ns + WAIT_NS;
        for waiting in waiting.iter_mut().filter(late).filter(|it| !in_hand(it)) {
            waiting.passed_ns.get_or_insert(now_ns);
        }
        begun.push((rank, now_ns));
    }
}

fn config(workers: usize, rt_push: RtPush) -> SchedulerConfig {
    let mut config = SchedulerConfig {
        turns: Turns::ByRank,
        ..one_scheduler(workers)
    };
    config.switches.rt_push = rt_push;
    config
}

/// Runs a program over that many workers. Returns what it has seen.
fn run<const BUG: u8>(
    workers: usize,
    (rt_push, seed): (RtPush, u64),
    program: impl FnOnce(&Arc<Workers<BUG>>, &Order) + Send + 'static,
) -> Seen {
    run_in(config(workers, rt_push), seed, program)
}

/// As [`run`], with these workers.
fn run_in<const BUG: u8>(
    config: SchedulerConfig,
    seed: u64,
    program: impl FnOnce(&Arc<Workers<BUG>>, &Order) + Send + 'static,
) -> Seen {
    let workers = config.workers;
    let machine = Config {
        seed,
        machine: machine_for(workers + 2, None),
        ..Config::default()
    };
    let order = Order::default();
    let theirs = order.clone();
    let outcome = sim::run_traced(machine, None, move || {
        Sim::<BUG>::bind_thread(&[workers]).unwrap();
        let (all, threads) = Workers::<BUG>::start(config, Arc::default()).unwrap();
        sim::sleep(SETTLE_NS);
        program(&all, &theirs);
        oracle::until_quiet(&all);
        all.close(threads);
        oracle::check_quiescence(&all);
        oracle::check_freed(all);
    });
    assert_eq!(outcome.unwrap().failure, None);
    let seen = std::mem::take(&mut *order.0.lock().unwrap());
    assert!(seen.waiting.is_empty(), "a task never began: {seen:?}");
    seen
}

/// Launches a task of that rank that works in one poll.
fn launch<const BUG: u8>(
    workers: &Arc<Workers<BUG>>,
    order: &Order,
    (task, rank): (usize, u8),
    prefer: usize,
    works: impl FnOnce() + Send + 'static,
) {
    let (ended, theirs) = (Ended::new(workers), order.clone());
    let poll = async move {
        let _ended = ended;
        theirs.begins(Some(task), rank);
        works();
    };
    order.posted(task, rank);
    drop(workers.launch_ranked(prefer, Kind::Task, rank, poll));
}

/// A pinned task that runs in polls of that rank until then.
fn keep_busy<const BUG: u8>(
    workers: &Arc<Workers<BUG>>,
    order: &Order,
    (worker, rank): (usize, u8),
    poll_ns: u64,
    until_ns: u64,
) {
    let (ended, theirs) = (Ended::new(workers), order.clone());
    let polls = async move {
        let _ended = ended;
        while sim::time_ns() < until_ns {
            theirs.begins(None, rank);
            sim::work(poll_ns);
            yield_now().await;
        }
    };
    drop(workers.launch_ranked(worker, Kind::Pinned, rank, polls));
}

/// Who posts the task of rank 99.
#[derive(Clone, Copy, Debug)]
enum By {
    Outside,
    /// The poll of rank 50 itself.
    Within,
}

/// Rank 99 is posted to a worker that is inside a poll of rank 50 for 600 us. The other workers idle, or run rank 1 in
/// polls of 5 us. Returns how long it waits.
fn wait_ns(by: By, others_run: bool, setting: (RtPush, u64)) -> u64 {
    const WORKERS: usize = 4;
    let seen = run::<0>(WORKERS, setting, move |workers, order| {
        let until_ns = sim::time_ns() + 3_000 * US;
        for worker in (1..WORKERS).filter(|_| others_run) {
            keep_busy(workers, order, (worker, 1), 5 * US, until_ns);
        }
        sim::sleep(200 * US + sim::random() % (10 * US));
        let (all, theirs) = (Arc::clone(workers), order.clone());
        let posts = move || launch(&all, &theirs, (1, 99), 0, || sim::work(10 * US));
        let (ended, within) = (Ended::new(workers), matches!(by, By::Within));
        let mine = within.then(|| posts.clone());
        let long = async move {
            let _ended = ended;
            sim::work(75 * US);
            if let Some(posts) = mine {
                posts();
            }
            sim::work(525 * US);
        };
        drop(workers.launch_ranked(0, Kind::Pinned, 50, long));
        sim::sleep(75 * US);
        if !within {
            posts();
        }
    });
    seen.slowest_ns
}

/// Many tasks of many ranks, from outside and from other tasks. Returns how many had to wait for a poll of lower rank.
fn passed<const BUG: u8>(setting: (RtPush, u64)) -> u64 {
    const WORKERS: usize = 6;
    const TASKS: usize = 60;
    let random = |below: u64| sim::random() % below;
    let one_of = move |count: usize| random(count as u64) as usize;
    let posts = move |workers: &Arc<Workers<BUG>>, order: &Order, first: usize| {
        for task in first..first + TASKS {
            let rank = [1, 20, 50, 80, 99][one_of(5)];
            let long_ns = [5, 20, 100, 600][one_of(4)] * US;
            let (all, theirs) = (Arc::clone(workers), order.clone());
            let (further, child) = (one_of(3) == 0, 2 * TASKS + task);
            let works = move || {
                sim::work(long_ns / 2);
                if further {
                    let rank = [1, 50, 99][one_of(3)];
                    launch(&all, &theirs, (child, rank), 0, || sim::work(30 * US));
                }
                sim::work(long_ns / 2);
            };
            launch(workers, order, (task, rank), one_of(WORKERS), works);
            sim::sleep(random(60 * US));
        }
    };
    let seen = run::<BUG>(WORKERS, setting, move |workers, order| {
        let (all, theirs) = (Arc::clone(workers), order.clone());
        let other = move || posts(&all, &theirs, TASKS);
        let other = spawn::<BUG>("poster", WORKERS + 1, other).unwrap();
        posts(workers, order, 0);
        other.join().unwrap();
    });
    seen.passed
}

const SEEDS: u64 = 20;

fn settings() -> impl Iterator<Item = (RtPush, u64)> {
    [RtPush::On, RtPush::Pull]
        .into_iter()
        .flat_map(|rt_push| (0..SEEDS).map(move |seed| (rt_push, seed)))
}

#[test]
fn rank_99_does_not_wait_for_a_poll_of_rank_50() {
    let ways = [By::Outside, By::Within].map(|by| [(by, false), (by, true)]);
    for setting in settings() {
        for (by, others_run) in ways.into_iter().flatten() {
            let wait_ns = wait_ns(by, others_run, setting);
            assert!(
                wait_ns <= WAIT_NS,
                "{by:?}, others run: {others_run}, {setting:?}: {wait_ns} ns"
            );
        }
    }
}

/// By that setting nobody takes it: until a watchdog looks, or the poll ends, rank 99 waits.
#[test]
fn rank_99_waits_where_the_worker_is_only_asked_to_push() {
    for seed in 0..SEEDS {
        let wait_ns = wait_ns(By::Within, true, (RtPush::Each, seed));
        assert!(
            (150 * US..=600 * US).contains(&wait_ns),
            "seed {seed}: {wait_ns} ns"
        );
    }
}

#[test]
fn no_poll_begins_while_a_task_of_higher_rank_waits() {
    for setting in settings() {
        assert_eq!(passed::<0>(setting), 0, "{setting:?}");
    }
}

#[test]
fn a_worker_that_does_not_look_lets_tasks_of_higher_rank_wait() {
    const BUG: u8 = Bug::PushNoLook as u8;
    assert!((0..SEEDS).any(|seed| passed::<BUG>((RtPush::On, seed)) > 0));
}

/// Polls of rank 30 spawn ranks 50, 99, 99 and 55, while others run rank 60 in polls of 1 us. Returns how many of the tasks of
/// rank 99 waited for polls of rank 60.
fn passed_while_sorting(setting: (RtPush, u64)) -> u64 {
    const WORKERS: usize = 4;
    const TIMES: usize = 40;
    let seen = run::<0>(WORKERS, setting, move |workers, order| {
        let until_ns = sim::time_ns() + 8_000 * US;
        for worker in 1..WORKERS {
            keep_busy(workers, order, (worker, 60), US, until_ns);
        }
        sim::sleep(200 * US);
        let (all, theirs) = (Arc::clone(workers), order.clone());
        let ended = Ended::new(workers);
        let long = async move {
            let _ended = ended;
            for times in 0..TIMES {
                let spawn =
                    |which, rank| launch(&all, &theirs, (4 * times + which, rank), 0, || {});
                spawn(0, 50);
                spawn(1, 99);
                spawn(2, 99);
                sim::work(sim::random() % US);
                spawn(3, 55);
                sim::work(150 * US);
                yield_now().await;
            }
        };
        drop(workers.launch_ranked(0, Kind::Pinned, 30, long));
    });
    seen.passed
}

#[test]
fn a_task_stays_known_while_its_worker_sorts_another_one_in() {
    let passed: Vec<_> = settings().map(passed_while_sorting).collect();
    assert_eq!(passed.iter().sum::<u64>(), 0, "{passed:?}");
}

/// Worker 0 has used up its budget, and idles. Then it gets a task of rank 99, and is throttled. The others run rank 1.
/// Returns how long the task waits.
fn wait_of_throttled_ns(setting: (RtPush, u64)) -> u64 {
    const WORKERS: usize = 3;
    let mut config = config(WORKERS, setting.0);
    config.budget = Some(RunBudget {
        run_ns: 2_000 * US,
        period_ns: 6_000 * US,
    });
    let seen = run_in::<0>(config, setting.1, |workers, order| {
        let uses = Ended::new(workers);
        let uses = async move {
            let _ended = uses;
            sim::work(2_100 * US);
        };
        drop(workers.launch_ranked(0, Kind::Pinned, 50, uses));
        sim::sleep(2_200 * US);
        let until_ns = sim::time_ns() + 1_500 * US;
        for worker in 1..WORKERS {
            keep_busy(workers, order, (worker, 1), 5 * US, until_ns);
        }
        sim::sleep(100 * US);
        launch(workers, order, (1, 99), 0, || sim::work(10 * US));
        sim::sleep(2_000 * US);
    });
    seen.slowest_ns
}

#[track_caller]
fn assert_brief(wait_ns: fn((RtPush, u64)) -> u64) {
    for setting in settings().step_by(5) {
        let wait_ns = wait_ns(setting);
        assert!(wait_ns <= WAIT_NS, "{setting:?}: {wait_ns} ns");
    }
}

#[test]
fn rank_99_does_not_wait_for_the_end_of_a_throttle() {
    assert_brief(wait_of_throttled_ns);
}

/// An idle worker gets a task of rank 99 and a call of 600 us at the same moment. The others run rank 1. Returns how long
/// the task waits.
fn wait_beside_call_ns(setting: (RtPush, u64)) -> u64 {
    const WORKERS: usize = 3;
    let seen = run::<0>(WORKERS, setting, |workers, order| {
        // Later than the first second, in which running workers look at the others at intervals.
        sim::sleep(1_500_000 * US);
        let until_ns = sim::time_ns() + 1_500 * US;
        for worker in 1..WORKERS {
            keep_busy(workers, order, (worker, 1), 5 * US, until_ns);
        }
        sim::sleep(100 * US);
        launch(workers, order, (1, 99), 0, || sim::work(10 * US));
        let called = workers.call(0, || sim::work(600 * US));
        assert!(called.is_some());
    });
    seen.slowest_ns
}

#[test]
fn rank_99_does_not_wait_for_the_end_of_a_call() {
    assert_brief(wait_beside_call_ns);
}
