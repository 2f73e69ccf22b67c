//! An urgent worker sweeps what waits at a worker of the scheduler below it, each in its real loop.
//!
//! Where a poll *waits* for tasks that lie behind it, these run on another worker, or the model deadlocks: a
//! rescuable one on the urgent worker, any other on a second worker of the scheduler. What is taken and not put back is
//! a deadlock too, as nobody asks the workers to close then.

use crate::class::Class;
use crate::scheduler::{RemoteRef, Scheduler, SchedulerSpec, Turns};
use crate::task::{About, Kind};
use crate::testing::launch_about;
use crate::testing::model::{
    Shows, check_large, check_largest, join_all, must_be_noticed_by, mutant,
};
use crate::wheel::Clock;
use crate::worker::{IdlePolicy, Worker, WorkerConfig, WorkerShared};
use crate::worker::{Local, Sweep};
use ::loom::sync::Notify;
use ::loom::thread::{self, JoinHandle};
use doorbell_machine::{Bug, Loom};
use std::array;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

type Shared = Arc<WorkerShared<Loom>>;

const TASKS: usize = 4;

/// The workers, and what became of the tasks of those below. None of the counts is part of the model.
struct Stage {
    above: Shared,
    below: Vec<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    polls: [AtomicUsize; TASKS],
    /// Polls by the urgent worker.
    rescues: AtomicUsize,
    /// Tasks that have not ended.
    left: AtomicUsize,
    ran: [Notify; TASKS],
}

/// What a task does in its only poll.
type Body = fn(&Arc<Stage>);

fn ends_at_once(_: &Arc<Stage>) {}

impl Stage {
    fn new(below: usize, tasks: usize) -> Arc<Self> {
        let clock = Arc::new(Clock::default());
        let config = WorkerConfig {
            idle: IdlePolicy::Spin { spin_ns: 0 },
        };
        let scheduler =
            |workers, spec| Scheduler::described(workers, &Arc::default(), spec, |_, _| 0);
        let shared = |remote: RemoteRef<Loom>| {
            Arc::new(WorkerShared::with(config, remote, Arc::clone(&clock)))
        };
        let spec = SchedulerSpec {
            class: Class::Rt,
            turns: Turns::ByRank,
            ..SchedulerSpec::default()
        };
        let above = scheduler(1, spec).remove(0);
        let remotes = scheduler(below, SchedulerSpec::below(vec![above.clone()]));
        Arc::new(Stage {
            above: shared(above),
            below: remotes.into_iter().map(shared).collect(),
            threads: Mutex::default(),
            polls: array::from_fn(|_| AtomicUsize::new(0)),
            rescues: AtomicUsize::new(0),
            left: AtomicUsize::new(tasks),
            ran: array::from_fn(|_| Notify::new()),
        })
    }

    /// Spawns the task with that number for the first worker below, which is the caller's, or from outside.
    fn spawn(self: &Arc<Self>, task: usize, rescuable: bool, body: Body) {
        let stage = Arc::clone(self);
        let future = async move {
            let before = stage.polls[task].fetch_add(1, Relaxed);
            assert_eq!(before, 0, "a task ran twice");
            let is_rescue = Local::<Loom>::with_current(|local| local.unwrap().is_rescue());
            assert!(
                rescuable || !is_rescue,
                "a task was raised that is not rescuable"
            );
            stage.rescues.fetch_add(usize::from(is_rescue), Relaxed);
            body(&stage);
            stage.ran[task].notify();
            if stage.left.fetch_sub(1, Relaxed) == 1 {
                stage.above.close();
                stage.below.iter().for_each(|worker| worker.close());
            }
        };
        let about = About {
            rescuable,
            ..About::default()
        };
        drop(launch_about(
            self.below[0].remote(),
            Kind::Task,
            about,
            future,
        ));
    }

    /// The urgent worker has a guard that sweeps once, and does that before.
    fn guard(self: &Arc<Self>, before: Body) {
        let stage = Arc::clone(self);
        let guard = async move {
            Local::<Loom>::with_current(|local| local.unwrap().set_rescues(true));
            before(&stage);
            Sweep::new(stage.below[0].remote().clone()).run();
        };
        drop(launch_about(
            self.above.remote(),
            Kind::Pinned,
            About::default(),
            guard,
        ));
    }

    /// The caller's poll goes on until that task has run.
    fn wait_for(&self, task: usize) {
        // A wait may end for no reason.
        while self.polls[task].load(Relaxed) == 0 {
            self.ran[task].wait();
        }
    }

    fn start(&self, worker: &Shared) {
        let worker = Arc::clone(worker);
        let thread = thread::spawn(move || Worker::new(worker).run());
        self.threads.lock().unwrap().push(thread);
    }

    /// The first worker below has the caller's thread.
    fn run(&self) {
        Worker::new(Arc::clone(&self.below[0])).run();
        self.join();
        self.assert_ended();
    }

    fn join(&self) {
        join_all(std::mem::take(&mut *self.threads.lock().unwrap()));
    }

    /// All tasks have run, once, and are freed.
    fn assert_ended(&self) {
        assert_eq!(self.left.load(Relaxed), 0, "a task was lost");
        self.assert_freed();
    }

    /// All workers have ended: nothing is left.
    fn assert_freed(&self) {
        let remote = self.below[0].remote();
        assert_eq!(
            remote.shares(),
            self.below.len() as u64,
            "a task was not freed"
        );
        assert!(
            !remote.scheduler().idle().anyone_searches(),
            "a search is counted for ever"
        );
    }
}

/// A poll that goes on until a rescuable task has run which lies behind it; the urgent worker begins meanwhile. Others
/// wait for the end of the poll, on both sides of that one: one in the ring, one in the backlog.
fn stuck() {
    let stage = Stage::new(1, 4);
    stage.guard(ends_at_once);
    stage.spawn(0, false, |stage| {
        stage.start(&stage.above);
        stage.wait_for(2);
    });
    stage.spawn(1, false, ends_at_once);
    stage.spawn(2, true, ends_at_once);
    stage.spawn(3, false, ends_at_once);
    stage.run();
    assert_eq!(stage.rescues.load(Relaxed), 1);
}

/// The same of a task that the guard has spawned, which lies in the inject queue and is raised before the sweep comes
/// to it.
fn stuck_with_new() {
    let stage = Stage::new(1, 2);
    stage.guard(|stage| stage.spawn(1, true, ends_at_once));
    stage.spawn(0, false, |stage| {
        stage.start(&stage.above);
        stage.wait_for(1);
    });
    stage.run();
    assert_eq!(stage.rescues.load(Relaxed), 1);
}

/// How many tasks were raised in all executions of [`running`].
static RUNNING_RESCUES: AtomicUsize = AtomicUsize::new(0);

/// The sweep comes at any moment, to a worker that runs, falls asleep, or ends.
fn running() {
    let stage = Stage::new(1, 2);
    stage.guard(ends_at_once);
    stage.spawn(0, false, |stage| stage.spawn(1, true, ends_at_once));
    stage.start(&stage.above);
    stage.run();
    RUNNING_RESCUES.fetch_add(stage.rescues.load(Relaxed), Relaxed);
}

/// The same, and the worker is to end: each task runs once at most, and is gone.
fn ending() {
    let stage = Stage::new(1, 2);
    stage.guard(ends_at_once);
    stage.spawn(0, false, ends_at_once);
    stage.spawn(1, true, ends_at_once);
    stage.below[0].close();
    stage.start(&stage.above);
    Worker::new(Arc::clone(&stage.below[0])).run();
    stage.above.close();
    stage.join();
    stage.assert_freed();
}

/// A poll that goes on until the task behind it has run: it can only do so on the second worker of the scheduler. The
/// first worker has no loop here, as it is inside that poll all along.
fn stuck_beside_another() {
    let stage = Stage::new(2, 1);
    stage.guard(ends_at_once);
    let stuck = Local::new(stage.below[0].remote().clone());
    stuck.enter(|| {
        stage.spawn(0, false, ends_at_once);
        stage.start(&stage.below[1]);
        stage.start(&stage.above);
        stage.wait_for(0);
        stuck.close();
    });
    stage.join();
    drop(stuck);
    stage.assert_ended();
}

#[test]
fn what_lies_behind_a_poll_is_raised_and_the_rest_is_put_back() {
    check_large(stuck);
}

#[test]
fn a_new_task_of_the_worker_that_sweeps_is_raised_once() {
    check_large(stuck_with_new);
}

#[test]
fn a_sweep_of_a_worker_that_runs_and_sleeps_loses_nothing() {
    check_large(running);
    assert!(
        RUNNING_RESCUES.load(Relaxed) > 0,
        "no execution raised a task"
    );
}

#[test]
fn a_sweep_of_a_worker_that_ends_loses_nothing() {
    check_large(ending);
}

#[test]
fn what_is_swept_is_kept_from_no_idle_worker() {
    check_largest(stuck_beside_another);
}

#[test]
fn mutant_keeps_rest() {
    mutant!(SweepKeepsRest, stuck);
}

#[test]
fn mutant_raises_none() {
    mutant!(SweepRaisesNone, stuck);
}

#[test]
fn mutant_raised_twice() {
    mutant!(TaskRaisedTwice, stuck_with_new);
}

#[test]
fn mutant_forgets_refused() {
    mutant!(SweepForgetsRefused, ending);
}

#[test]
fn mutant_post_unoffered() {
    mutant!(SchedulerPostUnoffered, stuck_beside_another);
}

also_noticed!(mutant_swept_unseen, QueuePushRelaxed, running);
