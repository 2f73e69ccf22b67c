//! Which worker runs a rescuable task, and when; on one thread.

use crate::scheduler::{RemoteRef, Scheduler, SchedulerSpec, Turns};
use crate::task::{About, Join, Kind};
use crate::testing::launch_about;
use crate::worker::{Local, Sweep};
use doorbell_machine::Host;
use std::future::poll_fn;
use std::panic::Location;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

const RESCUABLE: About<'static> = About {
    rank: 0,
    name: None,
    group: None,
    rescuable: true,
    stays: false,
    spawned_at: Location::caller(),
};

/// What a test sees of a task: how each poll went, and its waker.
#[derive(Debug, Default)]
struct Seen {
    /// Whether it was a rescue.
    polls: Mutex<Vec<bool>>,
    waker: Mutex<Option<Waker>>,
    /// What the next poll does.
    next: Mutex<Next>,
}

/// What a poll does.
#[derive(Clone, Copy, Debug, Default)]
enum Next {
    #[default]
    Wait,
    /// It wakes itself.
    Wake,
    /// It leaves the rest to its own workers.
    Decline,
    End,
}

impl Seen {
    fn polls(&self) -> Vec<bool> {
        std::mem::take(&mut *self.polls.lock().unwrap())
    }

    fn next(&self, next: Next) {
        *self.next.lock().unwrap() = next;
    }

    fn wake(&self) {
        let waker = self.waker.lock().unwrap().clone();
        waker.expect("it was polled").wake();
    }

    fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        let is_rescue = Local::<Host>::with_current(|local| local.unwrap().is_rescue());
        self.polls.lock().unwrap().push(is_rescue);
        *self.waker.lock().unwrap() = Some(cx.waker().clone());
        match std::mem::take(&mut *self.next.lock().unwrap()) {
            Next::Wait => return Poll::Pending,
            Next::Wake => {}
            Next::Decline => Local::<Host>::with_current(|local| local.unwrap().decline_rescue()),
            Next::End => return Poll::Ready(()),
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// A worker each of two schedulers, and a task of the lower one.
struct Stage {
    above: Local<Host>,
    remote: RemoteRef<Host>,
    below: Local<Host>,
    seen: Arc<Seen>,
    join: Option<Join<()>>,
}

impl Stage {
    fn new() -> Self {
        let one = |turns, above| {
            let spec = SchedulerSpec {
                turns,
                ..SchedulerSpec::below(above)
            };
            Scheduler::described(1, &Arc::default(), spec, |_, _| 0).remove(0)
        };
        let above: RemoteRef<Host> = one(Turns::ByRank, Vec::new());
        let remote: RemoteRef<Host> = one(Turns::ByArrival, vec![above.clone()]);
        Stage {
            above: Local::new(above),
            below: Local::new(remote.clone()),
            remote,
            seen: Arc::default(),
            join: None,
        }
    }

    /// Spawned by the worker that the caller is, if it is one.
    fn launch(&self, about: About<'_>) -> Join<()> {
        let theirs = Arc::clone(&self.seen);
        let task = poll_fn(move |cx| theirs.poll(cx));
        launch_about(&self.remote, Kind::Task, about, task)
    }

    /// One that has run once on its own worker, and waits.
    fn waiting(about: About<'_>) -> Self {
        let mut stage = Stage::new();
        stage.join = Some(stage.launch(about));
        stage.run_below();
        assert_eq!(stage.seen.polls(), [false]);
        stage
    }

    fn run_below(&self) {
        self.below.enter(|| {
            let _ = self.below.gather();
            while self.below.run_one() {}
        });
    }

    /// Runs what was raised; how each poll of the task went.
    fn run_above(&self) -> Vec<bool> {
        self.above.enter(|| while self.above.run_one() {});
        self.seen.polls()
    }

    /// The worker above wakes the task, and runs what was raised; how each poll of it went.
    fn wake_above(&self) -> Vec<bool> {
        self.above.enter(|| self.seen.wake());
        self.run_above()
    }

    fn rescues(&self) {
        self.above.set_rescues(true);
    }

    fn end(mut self) {
        self.seen.next(Next::End);
        self.seen.wake();
        self.run_below();
        assert_eq!(self.seen.polls(), [false], "its own worker ends it");
        *self.seen.waker.lock().unwrap() = None;
        drop(self.join.take());
        self.above.enter(|| self.above.close());
        self.below.enter(|| self.below.close());
        assert_eq!(self.below.live(), 0);
        drop(self.below);
        assert_eq!(self.remote.shares(), 1, "a task was not freed");
    }
}

#[test]
fn miri_a_task_that_a_rescuing_worker_wakes_runs_there_and_once() {
    let stage = Stage::waiting(RESCUABLE);
    stage.rescues();
    assert_eq!(stage.wake_above(), [true]);
    // Its own node was queued too: an empty run.
    stage.run_below();
    assert_eq!(stage.seen.polls(), []);
    stage.end();
}

#[test]
fn who_does_not_rescue_raises_nothing() {
    let stage = Stage::waiting(RESCUABLE);
    assert_eq!(stage.wake_above(), []);
    stage.run_below();
    assert_eq!(stage.seen.polls(), [false]);
    // Nor does a thread that is no worker, or the task's own worker.
    stage.rescues();
    stage.seen.wake();
    stage.below.enter(|| stage.seen.wake());
    assert_eq!(stage.run_above(), []);
    stage.run_below();
    assert_eq!(stage.seen.polls(), [false]);
    stage.end();
}

#[test]
fn a_task_without_the_mark_stays_with_its_own() {
    let stage = Stage::waiting(About::default());
    stage.rescues();
    assert_eq!(stage.wake_above(), []);
    stage.run_below();
    assert_eq!(stage.seen.polls(), [false]);
    stage.end();
}

#[test]
fn a_task_that_lies_behind_a_poll_is_raised_by_the_next_wake() {
    let stage = Stage::waiting(RESCUABLE);
    stage.seen.wake();
    stage.rescues();
    assert_eq!(stage.wake_above(), [true]);
    // Its own node still lies there, and what wakes it now raises it only.
    assert_eq!(stage.wake_above(), [true]);
    stage.run_below();
    assert_eq!(stage.seen.polls(), []);
    stage.end();
}

#[test]
fn miri_a_new_task_of_a_rescuing_worker_runs_there() {
    let mut stage = Stage::new();
    stage.rescues();
    let join = stage.above.enter(|| stage.launch(RESCUABLE));
    stage.join = Some(join);
    assert_eq!(stage.run_above(), [true]);
    stage.run_below();
    assert_eq!(stage.seen.polls(), []);
    stage.end();
}

#[test]
fn what_is_woken_in_its_raised_poll_is_raised_again_unless_it_declines() {
    let stage = Stage::waiting(RESCUABLE);
    stage.rescues();
    stage.seen.next(Next::Wake);
    assert_eq!(stage.wake_above(), [true, true]);
    stage.seen.next(Next::Decline);
    assert_eq!(stage.wake_above(), [true]);
    stage.run_below();
    assert_eq!(stage.seen.polls(), [false]);
    stage.end();
}

/// A task that is not rescuable, which notes that it ran.
fn other(stage: &Stage, ran: &Arc<Mutex<Vec<usize>>>, at: usize) -> Join<()> {
    let ran = Arc::clone(ran);
    let task = async move { ran.lock().unwrap().push(at) };
    launch_about(&stage.remote, Kind::Task, About::default(), task)
}

#[test]
fn miri_a_sweep_raises_what_is_rescuable_and_puts_all_back() {
    const OTHERS: usize = 5;
    let stage = Stage::waiting(RESCUABLE);
    let ran = Arc::default();
    // On both sides of it, in the queue; one in the inject queue.
    stage.below.enter(|| {
        for at in 0..OTHERS - 1 {
            drop(other(&stage, &ran, at));
        }
        stage.seen.wake();
    });
    drop(other(&stage, &ran, OTHERS - 1));
    stage.rescues();
    let mut sweep = Sweep::new(stage.remote.clone());
    stage.above.enter(|| sweep.run());
    assert_eq!(stage.below.queued(), 0, "all lie in the inject queue");
    assert_eq!(stage.run_above(), [true], "it alone was raised");
    assert_eq!(*ran.lock().unwrap(), []);
    stage.run_below();
    assert_eq!(stage.seen.polls(), [], "it has run");
    assert_eq!(*ran.lock().unwrap(), [0, 1, 2, 3, 4]);
    stage.above.enter(|| drop(sweep));
    stage.end();
}

#[test]
fn a_sweep_leaves_a_scheduler_that_has_groups_alone() {
    let mut stage = Stage::new();
    // SAFETY: the only one, of a scheduler of one worker that has no tasks.
    unsafe { stage.remote.scheduler().groups().open(1, 1, 100) };
    let join = stage.below.enter(|| stage.launch(RESCUABLE));
    stage.join = Some(join);
    stage.rescues();
    let mut sweep = Sweep::new(stage.remote.clone());
    stage.above.enter(|| sweep.run());
    assert_eq!(stage.below.queued(), 1, "it was taken");
    assert_eq!(stage.run_above(), [], "it was raised");
    stage.run_below();
    assert_eq!(stage.seen.polls(), [false]);
    drop(sweep);
    stage.end();
}

#[test]
fn a_sweep_of_many_tasks_loses_none_and_holds_none() {
    const OTHERS: usize = 1_000;
    let stage = Stage::waiting(RESCUABLE);
    let ran = Arc::default();
    let queue = || {
        for at in 0..OTHERS {
            drop(other(&stage, &ran, at));
        }
    };
    let mut sweep = Sweep::new(stage.remote.clone());
    for is_injected in [false, true] {
        // A ring and a backlog, or an inject queue.
        if is_injected {
            queue();
        } else {
            stage.below.enter(queue);
        }
        stage.above.enter(|| sweep.run());
        assert_eq!(stage.below.queued(), 0, "all lie in the inject queue");
        stage.run_below();
        let mut ran = std::mem::take(&mut *ran.lock().unwrap());
        ran.sort_unstable();
        assert!(ran.into_iter().eq(0..OTHERS));
    }
    drop(sweep);
    stage.end();
}

#[test]
fn a_sweep_raises_no_more_than_is_brief_and_the_next_one_the_rest() {
    const MANY: usize = 100;
    let stage = Stage::waiting(RESCUABLE);
    let ran = Arc::<Mutex<Vec<usize>>>::default();
    for at in 0..MANY {
        let ran = Arc::clone(&ran);
        let task = async move { ran.lock().unwrap().push(at) };
        drop(launch_about(&stage.remote, Kind::Task, RESCUABLE, task));
    }
    stage.rescues();
    let mut sweep = Sweep::new(stage.remote.clone());
    for total in [64, MANY] {
        stage.above.enter(|| sweep.run());
        stage.run_above();
        assert_eq!(ran.lock().unwrap().len(), total);
    }
    stage.run_below();
    assert_eq!(ran.lock().unwrap().len(), MANY);
    drop(sweep);
    stage.end();
}

#[test]
fn who_is_awaited_from_above_is_not_rescued_and_has_no_reason_to_decline() {
    let mut stage = Stage::waiting(RESCUABLE);
    stage.rescues();
    stage.above.enter(|| {
        stage.seen.next(Next::Decline);
        stage.seen.wake();
    });
    assert_eq!(
        stage.run_above(),
        [true],
        "declined, it waits for its own worker"
    );
    let join = stage.join.as_mut().unwrap();
    stage.above.enter(|| {
        let polled = Pin::new(join).poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending());
    });
    assert_eq!(stage.run_above(), [false], "polled for who awaits it");
    stage.run_below();
    stage.end();
}

#[test]
fn miri_a_task_whose_worker_ends_in_a_sweep_ends_also_if_it_never_ran() {
    let stage = Stage::waiting(RESCUABLE);
    let ran = Arc::default();
    let mut never = other(&stage, &ran, 0);
    // In the inject queue, as that one.
    stage.seen.wake();
    let mut sweep = Sweep::new(stage.remote.clone());
    stage.above.enter(|| sweep.take());
    stage.below.enter(|| stage.below.close());
    stage.rescues();
    stage.above.enter(|| sweep.put_all_back());
    let ended = Pin::new(&mut never).poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(ended, Poll::Ready(Err(_))), "it waits for ever");
    assert_eq!(Arc::strong_count(&ran), 1, "its future was not dropped");
    assert_eq!(stage.run_above(), []);
    *stage.seen.waker.lock().unwrap() = None;
    stage.above.enter(|| {
        drop(sweep);
        stage.above.close();
    });
    drop((never, stage.join, stage.below));
    assert_eq!(stage.remote.shares(), 1, "a task was not freed");
}

#[test]
fn what_is_rescued_runs_behind_what_is_more_urgent_unless_that_awaits_it() {
    let mut stage = Stage::waiting(RESCUABLE);
    stage.rescues();
    for is_awaited in [false, true] {
        let seen = Arc::clone(&stage.seen);
        let (says, said) = std::sync::mpsc::channel();
        let urgent = About {
            rank: 60,
            ..About::default()
        };
        let remote = stage.above.remote().clone();
        let join = stage.join.as_mut().unwrap();
        stage.above.enter(|| {
            if is_awaited {
                let polled = Pin::new(join).poll(&mut Context::from_waker(Waker::noop()));
                assert!(polled.is_pending());
                assert!(stage.above.run_one(), "so that what it awaits learns of it");
                seen.polls();
            }
            seen.wake();
            let theirs = Arc::clone(&seen);
            let task = async move { says.send(theirs.polls().len()).unwrap() };
            drop(launch_about(&remote, Kind::Task, urgent, task));
            while stage.above.run_one() {}
        });
        assert_eq!(said.recv(), Ok(usize::from(is_awaited)));
        seen.polls();
    }
    stage.run_below();
    assert_eq!(stage.seen.polls(), []);
    stage.seen.next(Next::End);
    assert_eq!(stage.wake_above(), [false], "it is awaited");
    stage.run_below();
    *stage.seen.waker.lock().unwrap() = None;
    drop(stage.join.take());
    stage.above.enter(|| stage.above.close());
    stage.below.enter(|| stage.below.close());
}
