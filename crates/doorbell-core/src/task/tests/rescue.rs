//! Rescuable tasks, on one thread: of which lane above, and when, they are run.

use crate::crew::{Crew, CrewSpec, FrontRef};
use crate::task::{About, Hold, Join, Kind, Local};
use crate::testing::launch_about;
use doorbell_machine::Host;
use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

const RESCUABLE: About<'static> = About {
    rank: 0,
    name: None,
    group: None,
    rescuable: true,
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
    /// It leaves the rest to its own lanes.
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

/// A lane each of two crews, and a task of the lower one.
struct Stage {
    above: Local<Host>,
    front: FrontRef<Host>,
    below: Local<Host>,
    seen: Arc<Seen>,
    join: Option<Join<()>>,
}

impl Stage {
    fn new() -> Self {
        let one =
            |above| Crew::described(1, &Arc::default(), CrewSpec::below(above), |_, _| 0).remove(0);
        let above: FrontRef<Host> = one(Vec::new());
        let front: FrontRef<Host> = one(vec![above.clone()]);
        Stage {
            above: Local::new(above),
            below: Local::new(front.clone()),
            front,
            seen: Arc::default(),
            join: None,
        }
    }

    /// Spawned by the lane that the caller is, if it is one.
    fn launch(&self, about: About<'_>) -> Join<()> {
        let theirs = Arc::clone(&self.seen);
        let task = poll_fn(move |cx| theirs.poll(cx));
        launch_about(&self.front, Kind::Task, about, task)
    }

    /// One that has run once on its own lane, and waits.
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

    /// Runs what was lent; how each poll of the task went.
    fn run_above(&self) -> Vec<bool> {
        self.above.enter(|| while self.above.run_one() {});
        self.seen.polls()
    }

    fn rescues(&self) {
        self.above.rescue_for(u64::MAX);
    }

    fn end(mut self) {
        self.seen.next(Next::End);
        self.seen.wake();
        self.run_below();
        assert_eq!(self.seen.polls(), [false], "its own lane ends it");
        *self.seen.waker.lock().unwrap() = None;
        drop(self.join.take());
        self.above.enter(|| self.above.close());
        self.below.enter(|| self.below.close());
        assert_eq!(self.below.live(), 0);
        drop(self.below);
        assert_eq!(self.front.shares(), 1, "a task was not freed");
    }
}

#[test]
fn miri_a_task_that_a_rescuing_lane_wakes_runs_there_and_once() {
    let stage = Stage::waiting(RESCUABLE);
    stage.rescues();
    stage.above.enter(|| stage.seen.wake());
    assert_eq!(stage.run_above(), [true]);
    // Its own node was queued too: an empty run.
    stage.run_below();
    assert_eq!(stage.seen.polls(), []);
    stage.end();
}

#[test]
fn who_does_not_rescue_lends_nothing() {
    let stage = Stage::waiting(RESCUABLE);
    stage.above.enter(|| stage.seen.wake());
    assert_eq!(stage.run_above(), []);
    stage.run_below();
    assert_eq!(stage.seen.polls(), [false]);
    // Nor does a thread that is no lane, or the task's own lane.
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
    stage.above.enter(|| stage.seen.wake());
    assert_eq!(stage.run_above(), []);
    stage.run_below();
    assert_eq!(stage.seen.polls(), [false]);
    stage.end();
}

#[test]
fn a_task_that_lies_behind_a_poll_is_lent_by_the_next_wake() {
    let stage = Stage::waiting(RESCUABLE);
    stage.seen.wake();
    stage.rescues();
    stage.above.enter(|| stage.seen.wake());
    assert_eq!(stage.run_above(), [true]);
    // Its own node still lies there, and what wakes it now lends it only.
    stage.above.enter(|| stage.seen.wake());
    assert_eq!(stage.run_above(), [true]);
    stage.run_below();
    assert_eq!(stage.seen.polls(), []);
    stage.end();
}

#[test]
fn miri_a_new_task_of_a_rescuing_lane_runs_there() {
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
fn what_is_woken_in_its_lent_poll_is_lent_again_unless_it_declines() {
    let stage = Stage::waiting(RESCUABLE);
    stage.rescues();
    stage.seen.next(Next::Wake);
    stage.above.enter(|| stage.seen.wake());
    assert_eq!(stage.run_above(), [true, true]);
    stage.seen.next(Next::Decline);
    stage.above.enter(|| stage.seen.wake());
    assert_eq!(stage.run_above(), [true]);
    stage.run_below();
    assert_eq!(stage.seen.polls(), [false]);
    stage.end();
}

#[test]
fn miri_a_sweep_lends_what_is_rescuable_and_puts_all_back() {
    const OTHERS: usize = 5;
    let stage = Stage::waiting(RESCUABLE);
    let ran = Arc::new(Mutex::new(Vec::new()));
    let other = |at| {
        let ran = Arc::clone(&ran);
        let task = async move { ran.lock().unwrap().push(at) };
        drop(launch_about(
            &stage.front,
            Kind::Task,
            About::default(),
            task,
        ));
    };
    // On both sides of it, in the queue; one in the inbox.
    stage.below.enter(|| {
        (0..OTHERS - 1).for_each(other);
        stage.seen.wake();
    });
    other(OTHERS - 1);
    stage.rescues();
    let hold = Hold::default();
    let swept = stage.above.enter(|| stage.above.sweep(&stage.front, &hold));
    assert_eq!(swept, OTHERS + 1);
    assert_eq!(stage.below.queued(), 0);
    assert_eq!(stage.run_above(), [true], "it alone was lent");
    assert_eq!(*ran.lock().unwrap(), []);
    stage.run_below();
    assert_eq!(stage.seen.polls(), [], "it has run");
    assert_eq!(*ran.lock().unwrap(), [0, 1, 2, 3, 4]);
    let swept = stage.above.enter(|| stage.above.sweep(&stage.front, &hold));
    assert_eq!(swept, 0);
    stage.end();
}

#[test]
fn a_lane_that_has_spent_its_time_rescues_no_more() {
    let stage = Stage::waiting(RESCUABLE);
    stage.above.rescue_for(1);
    stage.above.enter(|| stage.seen.wake());
    assert_eq!(stage.run_above(), [true]);
    stage.above.spend(1);
    assert_eq!(stage.above.rescue_left_ns(), 0);
    stage.above.enter(|| stage.seen.wake());
    assert_eq!(stage.run_above(), []);
    stage.run_below();
    assert_eq!(stage.seen.polls(), [false]);
    stage.end();
}

#[test]
fn who_wakes_a_task_at_a_guarded_lane_has_it_rescued() {
    let stage = Stage::waiting(RESCUABLE);
    stage.rescues();
    stage.front.set_guarded(true);
    let take = || {
        stage.above.enter(|| {
            // SAFETY: on the lane's own thread, with its ready queue.
            let _ = unsafe { stage.above.front().serve(stage.above.ready()) };
        });
    };
    for on_its_lane in [true, false] {
        if on_its_lane {
            stage.below.enter(|| stage.seen.wake());
        } else {
            stage.seen.wake();
        }
        take();
        assert_eq!(stage.run_above(), [true], "{on_its_lane}");
        stage.run_below();
        assert_eq!(stage.seen.polls(), []);
    }
    // The lane above may have spent its time by then.
    stage.below.enter(|| stage.seen.wake());
    stage.above.rescue_for(0);
    take();
    assert_eq!(stage.run_above(), []);
    // A lane that sleeps is guarded no more.
    stage.front.note_sleep();
    stage.below.enter(|| stage.seen.wake());
    assert!(stage.above.front().mailbox_is_empty());
    stage.run_below();
    assert_eq!(stage.seen.polls(), [false]);
    stage.end();
}
