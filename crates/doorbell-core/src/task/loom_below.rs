//! Wakes of urgent tasks by threads of a lower class, in every interleaving.

// What a model counts with std's atomics and locks is not part of it and orders nothing in it.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use super::loom::{Gate, Output, Task};
use super::state_delegate::Delegated;
use super::{Join, Phase, TaskRef};
use crate::class::Class;
use crate::scheduler::{RemoteRef, Scheduler, SchedulerSpec};
use crate::testing::model::{check, check_large, mutant};
use crate::testing::{Idler, spawn};
use crate::worker::Local;
use ::loom::thread;
use doorbell_machine::Loom;
use std::sync::Arc;
use std::task::Waker;

/// A worker of a scheduler of class Rt.
fn urgent() -> RemoteRef<Loom> {
    let spec = SchedulerSpec {
        class: Class::Rt,
        ..SchedulerSpec::default()
    };
    Scheduler::described(1, &Arc::default(), spec, |_, _| 0).remove(0)
}

/// An urgent worker with a task that was polled once. The other threads are workers only where it is said.
struct Stage {
    remote: RemoteRef<Loom>,
    local: Local<Loom>,
    gate: Arc<Gate>,
    join: Join<Output>,
}

impl Stage {
    fn new(doors: usize) -> Self {
        let remote = urgent();
        let local = Local::new(remote.clone());
        let gate = Gate::new();
        let task = Task {
            gate: Arc::clone(&gate),
            doors,
            self_wakes: 0,
        };
        let join = local.enter(|| spawn(&remote, task));
        local.enter(|| assert!(local.run_one()));
        Stage {
            remote,
            local,
            gate,
            join,
        }
    }

    /// Runs the worker until the task is complete.
    fn run(&self) {
        let idler = Idler::new(&self.local, false);
        let is_complete = || self.join.phase() == Phase::Complete;
        self.local.enter(|| idler.until(is_complete));
        idler.assert_rings_are_paid_for();
    }

    /// The worker ends. Nothing of the task is left.
    fn assert_freed(self, outputs: usize) {
        *self.gate.waker.lock().unwrap() = None;
        self.local.enter(|| self.local.close());
        drop(self.join);
        drop(self.local);
        self.gate.assert_dropped(outputs);
        assert_eq!(self.remote.shares(), 1, "a task was not freed");
    }
}

/// # Safety
/// The waker is that of a task of this machine.
unsafe fn task_of(waker: &Waker) -> TaskRef<Loom> {
    // SAFETY: the caller's promise; the waker holds a reference.
    unsafe { TaskRef::from_raw(waker.data()) }
}

/// One of a lower class is suspended in the midst of a wake, and goes on when all is over. Another
/// wake, by an urgent worker, does not wait for it.
fn suspended_below() {
    let stage = Stage::new(1);
    let (theirs, waker) = (stage.gate.waker(), stage.gate.waker());
    // SAFETY: of this model's task.
    let suspended = thread::spawn(move || unsafe { task_of(&theirs) }.delegate_and_stall());
    let (gate, other) = (Arc::clone(&stage.gate), waker.clone());
    let level = thread::spawn(move || {
        Local::new(urgent()).enter(|| {
            gate.open(0);
            other.wake();
        });
    });
    stage.run();
    level.join().unwrap();
    let then = suspended.join().unwrap();
    if then == Delegated::Send {
        // SAFETY: as above; the reference of the parcel was counted.
        unsafe { task_of(&waker) }.send_wake(stage.remote.scheduler());
    }
    drop(waker);
    stage.assert_freed(1);
}

/// One of a lower class wakes it.
fn one_below() {
    let stage = Stage::new(1);
    let (gate, waker) = (Arc::clone(&stage.gate), stage.gate.waker());
    let below = thread::spawn(move || {
        gate.open(0);
        waker.wake();
    });
    stage.run();
    below.join().unwrap();
    stage.assert_freed(1);
}

/// A parcel is on its way when another one wakes it.
fn another_below() {
    let stage = Stage::new(2);
    stage.gate.open(0);
    stage.gate.waker().wake();
    let (gate, waker) = (Arc::clone(&stage.gate), stage.gate.waker());
    let below = thread::spawn(move || {
        gate.open(1);
        waker.wake();
    });
    stage.run();
    below.join().unwrap();
    stage.assert_freed(1);
}

/// A parcel finds the worker gone, or is delivered by it in its end, or before.
fn woken_while_it_ends() {
    let stage = Stage::new(1);
    let waker = stage.gate.waker();
    let below = thread::spawn(move || waker.wake());
    stage.local.enter(|| stage.local.close());
    below.join().unwrap();
    stage.assert_freed(0);
}

#[test]
fn nobody_waits_for_a_wake_of_one_below() {
    check_large(suspended_below);
}

#[test]
fn a_wake_from_below_is_not_lost() {
    check(one_below);
}

#[test]
fn another_wake_from_below_is_seen_too() {
    check_large(another_below);
}

#[test]
fn d12_a_wake_from_below_against_the_close() {
    check(woken_while_it_ends);
}

#[test]
fn mutant_noted_from_below() {
    mutant!(TaskNotedFromBelow, suspended_below);
}
