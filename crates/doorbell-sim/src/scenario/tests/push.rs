//! Rank order across the workers of a scheduler: no worker begins a poll while a task of a higher rank has waited 50 us
//! elsewhere.

use super::one_scheduler;
use crate::fuzz::machine_for;
use crate::scenario::class::{Classes, RT, Urgent};
use crate::scenario::program::{Ended, yield_now};
use crate::scenario::rank_order::{RankOrder, WAIT_NS};
use crate::scenario::scheduler::{SchedulerConfig, Workers};
use crate::scenario::{oracle, spawn};
use doorbell_core::scheduler::Turns;
use doorbell_core::switches::RtPush;
use doorbell_core::task::Kind;
use doorbell_core::worker::RunBudget;
use doorbell_machine::sim::{self, CHOSEN, Config, SimCounter};
use doorbell_machine::{Bug, Counter, Machine, Sim, ThreadHandle};
use futures_channel::oneshot::channel;
use std::sync::Arc;

const US: u64 = 1_000;
/// By then all workers sleep.
const SETTLE_NS: u64 = 1_000 * US;

/// What a run has seen of rank order.
#[derive(Clone, Debug, Default)]
struct Order {
    ranks: Arc<RankOrder>,
    /// The longest wait of a task of the highest rank, 99.
    slowest_ns: Arc<SimCounter>,
    /// Tasks that had to wait for a poll of lower rank.
    passed: Arc<SimCounter>,
}

impl Order {
    /// A task of that rank is posted.
    fn posted(&self, rank: u8) -> u64 {
        let task = self.ranks.add(rank);
        self.ranks.waits(task, 0);
        task
    }

    /// A poll of this rank begins: that of a task that was posted, or another.
    fn begins(&self, task: Option<u64>, rank: u8) {
        if let Some(it) = self.ranks.begins(task, rank) {
            self.passed.add_shared(u64::from(it.was_passed));
            if it.rank == 99 {
                self.slowest_ns.set(self.slowest_ns.get().max(it.for_ns));
            }
        }
        if let Some(task) = task {
            self.ranks.forget(task);
        }
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
) -> Order {
    run_in(config(workers, rt_push), seed, program)
}

/// As [`run`], with these workers.
fn run_in<const BUG: u8>(
    config: SchedulerConfig,
    seed: u64,
    program: impl FnOnce(&Arc<Workers<BUG>>, &Order) + Send + 'static,
) -> Order {
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
    assert!(!order.ranks.anyone_waits(), "a task never began: {order:?}");
    order
}

/// Launches a task of that rank that works in one poll.
fn launch<const BUG: u8>(
    workers: &Arc<Workers<BUG>>,
    order: &Order,
    rank: u8,
    prefer: usize,
    works: impl FnOnce() + Send + 'static,
) {
    let (ended, theirs) = (Ended::new(workers), order.clone());
    let task = order.posted(rank);
    let poll = async move {
        let _ended = ended;
        theirs.begins(Some(task), rank);
        works();
    };
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
        let posts = move || launch(&all, &theirs, 99, 0, || sim::work(10 * US));
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
    seen.slowest_ns.get()
}

/// Many tasks of many ranks, from outside and from other tasks. Returns how many had to wait for a poll of lower rank.
fn passed<const BUG: u8>(setting: (RtPush, u64)) -> u64 {
    const WORKERS: usize = 6;
    const TASKS: usize = 60;
    let random = |below: u64| sim::random() % below;
    let one_of = move |count: usize| random(count as u64) as usize;
    let posts = move |workers: &Arc<Workers<BUG>>, order: &Order| {
        for _ in 0..TASKS {
            let rank = [1, 20, 50, 80, 99][one_of(5)];
            let long_ns = [5, 20, 100, 600][one_of(4)] * US;
            let (all, theirs) = (Arc::clone(workers), order.clone());
            let further = one_of(3) == 0;
            let works = move || {
                sim::work(long_ns / 2);
                if further {
                    let rank = [1, 50, 99][one_of(3)];
                    launch(&all, &theirs, rank, 0, || sim::work(30 * US));
                }
                sim::work(long_ns / 2);
            };
            launch(workers, order, rank, one_of(WORKERS), works);
            sim::sleep(random(60 * US));
        }
    };
    let seen = run::<BUG>(WORKERS, setting, move |workers, order| {
        let (all, theirs) = (Arc::clone(workers), order.clone());
        let other = move || posts(&all, &theirs);
        let other = spawn::<BUG>("poster", WORKERS + 1, other).unwrap();
        posts(workers, order);
        other.join().unwrap();
    });
    seen.passed.get()
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

#[test]
fn no_poll_begins_while_a_task_of_higher_rank_waits() {
    for setting in settings() {
        assert_eq!(passed::<0>(setting), 0, "{setting:?}");
    }
}

#[test]
fn a_worker_that_does_not_look_lets_tasks_of_higher_rank_wait() {
    sim::break_thread(Bug::PushNoLook);
    assert!((0..SEEDS).any(|seed| passed::<CHOSEN>((RtPush::On, seed)) > 0));
}

/// Polls of rank 30 spawn ranks 50, 99, 99 and 55, while others run rank 60 in polls of 1 us. Returns how many of the
/// tasks of rank 99 waited for polls of rank 60.
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
            for _ in 0..TIMES {
                let spawn = |rank| launch(&all, &theirs, rank, 0, || {});
                spawn(50);
                spawn(99);
                spawn(99);
                sim::work(sim::random() % US);
                spawn(55);
                sim::work(150 * US);
                yield_now().await;
            }
        };
        drop(workers.launch_ranked(0, Kind::Pinned, 30, long));
    });
    seen.passed.get()
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
        launch(workers, order, 99, 0, || sim::work(10 * US));
        sim::sleep(2_000 * US);
    });
    seen.slowest_ns.get()
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

/// An idle worker gets a task of rank 99 and a call of 600 us at the same moment. The others run rank 1. Returns how
/// long the task waits.
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
        launch(workers, order, 99, 0, || sim::work(10 * US));
        let called = workers.call(0, || sim::work(600 * US));
        assert!(called.is_some());
    });
    seen.slowest_ns.get()
}

#[test]
fn rank_99_does_not_wait_for_the_end_of_a_call() {
    assert_brief(wait_beside_call_ns);
}

/// What a thread that is no worker does.
#[derive(Clone, Copy, Debug)]
enum Does {
    Spawns,
    Wakes,
}

/// A task of that rank that waits for a wake, and first runs on that worker. Returns what wakes it.
fn launch_waiter<const BUG: u8>(
    workers: &Arc<Workers<BUG>>,
    order: &Order,
    (worker, rank): (usize, u8),
) -> impl FnOnce() + Send + use<BUG> {
    let (ended, theirs, task) = (Ended::new(workers), order.clone(), order.ranks.add(rank));
    let (say, said) = channel();
    let waits = async move {
        let _ended = ended;
        let _ = said.await;
        theirs.begins(Some(task), rank);
        sim::work(10 * US);
    };
    drop(workers.launch_ranked(worker, Kind::Task, rank, waits));
    let ranks = Arc::clone(&order.ranks);
    move || {
        ranks.waits(task, 0);
        let _ = say.send(());
    }
}

/// Threads that are no workers wake or spawn tasks of three ranks, while each urgent worker runs rank 1 in polls of
/// 600 us. Returns how many of the tasks waited for a further poll of lower rank.
fn passed_from_below<const BUG: u8>(does: Does, setting: (RtPush, u64)) -> u64 {
    const WORKERS: usize = 4;
    const TASKS: usize = 30;
    let mut config = config(WORKERS, setting.0);
    config.classes = Classes::Each(Urgent::Fifo);
    let seen = run_in::<BUG>(config, setting.1, move |workers, order| {
        let urgent = RT * WORKERS;
        let post = |task: usize| -> Box<dyn FnOnce() + Send> {
            let rank = [20, 50, 99][(sim::random() % 3) as usize];
            if matches!(does, Does::Wakes) {
                let worker = urgent + task % WORKERS;
                return Box::new(launch_waiter(workers, order, (worker, rank)));
            }
            let (all, theirs) = (Arc::clone(workers), order.clone());
            Box::new(move || launch(&all, &theirs, rank, urgent, || sim::work(10 * US)))
        };
        let mut posts: Vec<_> = (0..2 * TASKS).map(post).collect();
        sim::sleep(SETTLE_NS);
        let until_ns = sim::time_ns() + 4_000 * US;
        for worker in urgent..urgent + WORKERS {
            keep_busy(workers, order, (worker, 1), 600 * US, until_ns);
            sim::sleep(sim::random() % (300 * US));
        }
        let one_by_one = |post: Box<dyn FnOnce() + Send>| {
            sim::sleep(sim::random() % (200 * US));
            post();
        };
        let others = posts.split_off(TASKS);
        let other = move || others.into_iter().for_each(one_by_one);
        let other = spawn::<BUG>("poster", WORKERS + 1, other).unwrap();
        posts.into_iter().for_each(one_by_one);
        other.join().unwrap();
    });
    seen.passed.get()
}

#[test]
fn what_a_thread_spawns_or_wakes_waits_for_no_further_poll_of_lower_rank() {
    for setting in settings() {
        for does in [Does::Spawns, Does::Wakes] {
            let passed = passed_from_below::<0>(does, setting);
            assert_eq!(passed, 0, "{does:?}, {setting:?}");
        }
    }
}

#[test]
fn a_worker_that_takes_parcels_only_in_its_passes_lets_tasks_of_higher_rank_wait() {
    sim::break_thread(Bug::PushPassTakesParcels);
    let passed = |seed| passed_from_below::<CHOSEN>(Does::Wakes, (RtPush::On, seed));
    assert!((0..SEEDS).any(|seed| passed(seed) > 0));
}
