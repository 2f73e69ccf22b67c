//! A thread reports long polls to a hook, and only long ones.

#![allow(clippy::disallowed_types, reason = "the hook plays the outside world")]

use super::one_scheduler;
use crate::scenario::scheduler::Workers;
use doorbell_core::scheduler::telemetry::{
    Hooks, PollStall, STALLS_PER_SECOND, StallEvent, StallPlan, StallReporter, TelemetryPlan,
};
use doorbell_core::task::{About, Kind};
use doorbell_machine::sim::{self, CHOSEN, Config, MachineSpec, Outcome, SimThread};
use doorbell_machine::{Bug, Machine, Sim, ThreadHandle, ThreadSpec};
use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::Poll;

const MS: u64 = 1_000_000;
const WORKERS: usize = 2;
/// A poll counts as long from this time on.
const AFTER_NS: u64 = 2 * MS;
/// By when a long poll is reported: 1.5 times that, plus the time of the looks.
const TOLD_NS: u64 = 3 * MS + MS / 10;

/// Stalls, each with the time at which it was reported.
type Told = Vec<(PollStall, u64)>;

/// A task of `count` polls, each of `for_ns`.
async fn polls(count: usize, for_ns: u64) {
    let mut left = count;
    poll_fn(|cx| {
        sim::work(for_ns);
        left -= 1;
        if left == 0 {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

fn spawn<const BUG: u8>(
    workers: &Workers<BUG>,
    reporter: Arc<StallReporter<Sim<BUG>>>,
) -> SimThread {
    let schedulers = [workers.remote(0).clone()];
    let spec = ThreadSpec {
        name: "stalls".to_owned(),
        cpu: Some(WORKERS + 1),
        stack_size: None,
    };
    Sim::<BUG>::spawn(spec, Box::new(move || reporter.run(&schedulers, &|| None))).unwrap()
}

/// The reports of a program with two workers and a hook.
fn told<const BUG: u8>(program: impl FnOnce(&Arc<Workers<BUG>>) + Send + 'static) -> Told {
    run(0, program).0
}

/// The same with a slow hook; also returns the outcome of the run.
fn run<const BUG: u8>(
    hook_ns: u64,
    program: impl FnOnce(&Arc<Workers<BUG>>) + Send + 'static,
) -> (Told, Outcome) {
    let told = Arc::<Mutex<Told>>::default();
    let tells = Arc::clone(&told);
    let hook = move |stall: &StallEvent| {
        let StallEvent::Poll(stall) = *stall else {
            panic!("there is no queue")
        };
        tells.lock().unwrap().push((stall, sim::time_ns()));
        sim::sleep(hook_ns);
    };
    let hooks = Hooks {
        stall: vec![StallPlan {
            after_ns: AFTER_NS,
            hook: Arc::new(hook),
        }],
        ..Hooks::default()
    };
    let plan = TelemetryPlan {
        hooks,
        ..TelemetryPlan::default()
    };
    let config = Config {
        machine: MachineSpec {
            cores_per_llc: WORKERS + 2,
            ..MachineSpec::default()
        },
        ..Config::default()
    };
    let outcome = sim::run_traced(config, None, move || {
        Sim::<BUG>::bind_thread(&[WORKERS]).unwrap();
        let reporter = Arc::new(StallReporter::new(&plan.hooks).expect("there is a hook"));
        let scheduler = one_scheduler(WORKERS);
        let started =
            Workers::<BUG>::start_recorded(scheduler, Arc::default(), &plan, Some(&reporter));
        let (workers, threads) = started.unwrap();
        let thread = spawn(&workers, Arc::clone(&reporter));
        program(&workers);
        reporter.end();
        thread.join().unwrap();
        workers.close(threads);
    });
    let outcome = outcome.unwrap();
    assert_eq!(outcome.failure, None);
    let told = std::mem::take(&mut *told.lock().unwrap());
    (told, outcome)
}

#[test]
fn a_long_poll_is_told_once_with_its_task_place_worker_and_length() {
    let expected = Arc::<Mutex<Option<(u64, About<'static>, u64)>>>::default();
    let theirs = Arc::clone(&expected);
    let told = told::<0>(move |workers| {
        for worker in [0, 1] {
            let about = About {
                rank: 7,
                ..About::default()
            };
            let began_ns = sim::time_ns();
            let task = workers.launch_about(worker, Kind::Pinned, about, polls(1, 7 * MS / 2));
            *theirs.lock().unwrap() = Some((task.id(), about, began_ns));
            workers.wait_for(task, 0).unwrap();
        }
    });
    let workers: Vec<usize> = told.iter().map(|(stall, _)| stall.worker).collect();
    assert_eq!(workers, [0, 1]);
    let (stall, at_ns) = told[1];
    let (id, about, began_ns) = expected.lock().unwrap().expect("it ran");
    assert_eq!((stall.task, stall.rank, stall.left_out), (id, 7, 0));
    assert_eq!(stall.spawned_at, about.spawned_at);
    assert!(stall.spawned_at.file().ends_with("stalls.rs"));
    assert!((AFTER_NS..=at_ns - began_ns).contains(&stall.lasted_ns));
    assert!(
        at_ns - began_ns < TOLD_NS,
        "told after {}",
        at_ns - began_ns
    );
}

#[test]
fn polls_that_go_on_are_told_again_and_again_though_every_worker_is_inside_one() {
    let told = told::<0>(|workers| {
        let tasks = [0, 1].map(|worker| workers.launch(worker, Kind::Pinned, polls(1, 60 * MS)));
        for task in tasks {
            workers.wait_for(task, 0).unwrap();
        }
    });
    for worker in [0, 1] {
        let of_worker = told.iter().filter(|(stall, _)| stall.worker == worker);
        let lasted: Vec<u64> = of_worker.map(|(stall, _)| stall.lasted_ns).collect();
        assert_eq!(lasted.len(), 5, "{lasted:?}");
        for (turn, lasted_ns) in lasted.into_iter().enumerate() {
            // Each report is at most one look late.
            let least_ns = AFTER_NS << turn;
            assert!((least_ns..2 * least_ns).contains(&lasted_ns), "{lasted_ns}");
        }
    }
}

/// Whether a series of polls slightly shorter than a long one is reported.
fn tells_short_polls<const BUG: u8>() -> bool {
    let told = told::<BUG>(|workers| {
        let task = workers.launch(0, Kind::Task, polls(100, AFTER_NS - MS / 10));
        workers.wait_for(task, 0).unwrap();
    });
    !told.is_empty()
}

#[test]
fn short_polls_are_not_told() {
    assert!(!tells_short_polls::<0>());
}

#[test]
fn while_a_hook_takes_long_no_short_poll_gets_long() {
    let (told, _) = run::<0>(25 * MS, |workers| {
        let long = workers.launch(0, Kind::Pinned, polls(1, 7 * MS / 2));
        // They are under way when the hook returns.
        let short = workers.launch(1, Kind::Pinned, polls(20, AFTER_NS - MS / 10));
        for task in [long, short] {
            workers.wait_for(task, 0).unwrap();
        }
    });
    let workers: Vec<usize> = told.iter().map(|(stall, _)| stall.worker).collect();
    assert_eq!(workers, [0]);
}

#[test]
fn mutant_stall_of_any_poll() {
    sim::break_thread(Bug::WorkerStallOfAnyPoll);
    assert!(tells_short_polls::<CHOSEN>());
}

#[test]
fn so_many_stalls_are_told_in_a_second_and_the_next_says_how_many_were_left_out() {
    const MORE: usize = 7;
    let limit = STALLS_PER_SECOND as usize;
    let told = told::<0>(move |workers| {
        for (count, rest_ns) in [(limit + MORE, 1_000 * MS), (1, 0)] {
            let task = workers.launch(0, Kind::Pinned, polls(count, 7 * MS / 2));
            workers.wait_for(task, 0).unwrap();
            sim::sleep(rest_ns);
        }
    });
    let left_out: Vec<u64> = told.iter().map(|(stall, _)| stall.left_out).collect();
    let mut expected = vec![0; limit];
    expected.push(MORE as u64);
    assert_eq!(left_out, expected);
}

#[test]
fn the_thread_sleeps_while_the_runtime_is_idle_and_the_next_stall_is_told() {
    const SECOND_NS: u64 = 1_000 * MS;
    let events = [SECOND_NS, 20 * SECOND_NS].map(|idle_ns| {
        let (told, outcome) = run::<0>(0, move |workers| {
            sim::sleep(idle_ns);
            let task = workers.launch(0, Kind::Pinned, polls(1, 7 * MS / 2));
            workers.wait_for(task, 0).unwrap();
        });
        assert_eq!(told.len(), 1);
        outcome.events
    });
    assert_eq!(events[0], events[1], "nothing happens in an idle second");
}

#[test]
fn without_a_hook_nobody_looks() {
    assert!(StallReporter::<Sim>::new(&Hooks::default()).is_none());
}
