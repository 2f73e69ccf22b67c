//! Tasks that are awaited from above, in every interleaving.
//!
//! Two schedulers of a worker each: the worker of the upper one awaits the task and polls it by its raised node.

// What a model counts with std's atomics and locks is not part of it and orders nothing in it.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use super::loom::{Gate, Output, Task};
use super::{Join, Kind};
use crate::scheduler::{RemoteRef, Scheduler, SchedulerSpec};
use crate::testing::model::{check, check_large, mutant};
use crate::testing::{Idler, launch_as};
use crate::worker::Local;
use ::loom::thread;
use doorbell_machine::Loom;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// Two schedulers of a worker each, and a task of the lower one.
pub(super) struct Stage {
    pub(super) above: RemoteRef<Loom>,
    below: RemoteRef<Loom>,
    pub(super) local: Local<Loom>,
    pub(super) gate: Arc<Gate>,
}

/// The handle, and what the upper worker found by it: whether there is an output.
pub(super) type Awaited = (Join<Output>, Poll<usize>);

fn poll(join: &mut Join<Output>) -> Poll<usize> {
    let polled = Pin::new(join).poll(&mut Context::from_waker(Waker::noop()));
    polled.map(|output| usize::from(output.is_ok()))
}

impl Stage {
    pub(super) fn new(doors: usize, self_wakes: u32) -> (Self, Join<Output>) {
        let one = |above| {
            Scheduler::described(1, &Arc::default(), SchedulerSpec::below(above), |_, _| 0)
                .remove(0)
        };
        let above: RemoteRef<Loom> = one(Vec::new());
        let below: RemoteRef<Loom> = one(vec![above.clone()]);
        let gate = Gate::new();
        let task = Task {
            gate: Arc::clone(&gate),
            doors,
            self_wakes,
        };
        let local = Local::new(below.clone());
        let join = local.enter(|| launch_as(&below, Kind::Task, task));
        let stage = Stage {
            above,
            below,
            local,
            gate,
        };
        (stage, join)
    }

    /// The upper worker awaits the task and runs what is raised to it, and ends.
    pub(super) fn awaits(above: RemoteRef<Loom>, mut join: Join<Output>) -> Awaited {
        let local = Local::new(above);
        let found = local.enter(|| {
            let found = poll(&mut join);
            while local.run_one() {}
            local.close();
            found
        });
        (join, found)
    }

    /// Both workers have ended: so has the task, and nothing of it is left.
    pub(super) fn assert_freed(self, (mut join, found): Awaited) {
        let found = if found.is_ready() {
            found
        } else {
            poll(&mut join)
        };
        let Poll::Ready(outputs) = found else {
            panic!("the task did not end")
        };
        drop(join);
        *self.gate.waker.lock().unwrap() = None;
        drop(self.local);
        self.gate.assert_dropped(outputs);
        assert_eq!(self.below.shares(), 1, "a task was not freed");
    }
}

/// Both workers poll it: one by each node.
pub(super) fn polled_by_both(before: usize, self_wakes: u32) {
    let (stage, join) = Stage::new(0, self_wakes);
    let run = |local: &Local<Loom>, times| (0..times).for_each(|_| assert!(local.run_one()));
    stage.local.enter(|| run(&stage.local, before));
    let above = stage.above.clone();
    let below = thread::spawn(move || {
        stage.local.enter(|| while stage.local.run_one() {});
        stage
    });
    let awaited = Stage::awaits(above, join);
    let stage = below.join().unwrap();
    stage.local.enter(|| {
        let _ = stage.local.gather();
        while stage.local.run_one() {}
        stage.local.close();
    });
    stage.assert_freed(awaited);
}

fn new_and_polled_by_both() {
    polled_by_both(0, 1);
}

fn goes_round_in_both() {
    polled_by_both(1, 2);
}

/// The worker of its own scheduler ends while the one above polls it.
fn raised_while_below_ends(before: usize, self_wakes: u32) {
    let (stage, join) = Stage::new(0, self_wakes);
    let local = &stage.local;
    local.enter(|| (0..before).for_each(|_| assert!(local.run_one())));
    let above = stage.above.clone();
    let other = thread::spawn(move || Stage::awaits(above, join));
    local.enter(|| local.close());
    let awaited = other.join().unwrap();
    stage.assert_freed(awaited);
}

fn new_and_raised_while_below_ends() {
    raised_while_below_ends(0, 1);
}

fn raised_while_its_home_ends() {
    raised_while_below_ends(1, 2);
}

/// Its own worker is in a long poll. The task is woken from elsewhere while the worker above begins to
/// await it, and that one polls it.
fn woken_while_below_is_stuck() {
    let (stage, mut join) = Stage::new(1, 0);
    stage.local.enter(|| assert!(stage.local.run_one()));
    let gate = Arc::clone(&stage.gate);
    let waker = gate.waker();
    let other = thread::spawn(move || {
        gate.open(0);
        waker.wake();
    });
    let above = Local::new(stage.above.clone());
    let idler = Idler::new(&above, false);
    above.enter(|| {
        assert!(poll(&mut join).is_pending());
        idler.until(|| join.phase() == super::Phase::Complete);
        above.close();
    });
    other.join().unwrap();
    stage.local.enter(|| stage.local.close());
    drop(above);
    stage.assert_freed((join, Poll::Pending));
}

#[test]
fn a_task_that_never_ran_is_polled_by_a_worker_above() {
    check(new_and_polled_by_both);
}

#[test]
fn a_task_is_polled_by_both_its_nodes() {
    check_large(goes_round_in_both);
}

#[test]
fn a_worker_ends_while_one_above_polls_its_task() {
    check(new_and_raised_while_below_ends);
    check_large(raised_while_its_home_ends);
}

#[test]
fn a_wake_of_an_awaited_task_reaches_the_worker_above() {
    check_large(woken_while_below_is_stuck);
}

#[test]
fn mutant_raise_forgotten() {
    mutant!(TaskRaiseForgotten, woken_while_below_is_stuck);
}

#[test]
fn mutant_pause_blind() {
    mutant!(TaskPauseBlind, new_and_raised_while_below_ends);
}

#[test]
fn mutant_raised_twice() {
    mutant!(TaskRaisedTwice, woken_while_below_is_stuck);
}
