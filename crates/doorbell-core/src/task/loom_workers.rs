//! Tasks that move between workers, in every interleaving, while the workers end.
//!
//! Worker 0 is the model's first thread and has polled the task once, so it is the task's home;
//! worker 1 is the other thread.

// What a model counts with std's atomics and locks is not part of it and orders nothing in it.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use super::Join;
use super::loom::{Gate, Output, Task};
use crate::queue::Greed;
use crate::scheduler::{RemoteRef, Scheduler};
use crate::testing::model::{check, check_large, mutant};
use crate::testing::spawn;
use crate::worker::Local;
use ::loom::thread;
use doorbell_machine::Loom;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

struct Home {
    remotes: Vec<RemoteRef<Loom>>,
    local: Local<Loom>,
    gate: Arc<Gate>,
    join: Join<Output>,
}

impl Home {
    fn new(doors: usize, self_wakes: u32) -> Self {
        let remotes = Scheduler::new(2, &Arc::default(), |_, _| 0);
        let local = Local::new(remotes[0].clone());
        let gate = Gate::new();
        let task = Task {
            gate: Arc::clone(&gate),
            doors,
            self_wakes,
        };
        let join = local.enter(|| spawn(&remotes[0], task));
        local.enter(|| assert!(local.run_one()));
        Home {
            remotes,
            local,
            gate,
            join,
        }
    }

    /// Both workers have ended: so has the task, and nothing of it is left.
    fn assert_freed(mut self) {
        let outputs =
            match std::pin::pin!(&mut self.join).poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(output) => usize::from(output.is_ok()),
                Poll::Pending => panic!("the task did not end"),
            };
        drop(self.join);
        *self.gate.waker.lock().unwrap() = None;
        drop(self.local);
        self.gate.assert_dropped(outputs);
        assert_eq!(self.remotes[0].shares(), 2, "a task was not freed");
    }
}

/// Worker 1 steals the task and runs it while it can, and the two workers end.
fn stolen_while_home_ends(doors: usize, self_wakes: u32) {
    let home = Home::new(doors, self_wakes);
    let [here, there] = [0, 1].map(|worker| home.remotes[worker].clone());
    let thief = thread::spawn(move || {
        let local = Local::new(there);
        local.enter(|| {
            let _ = local.steal(&here, Greed::One, true);
            while local.run_one() {}
            local.close();
        });
    });
    home.local.enter(|| home.local.close());
    thief.join().unwrap();
    home.assert_freed();
}

/// The same, and nobody else has the task: the last of the two workers frees it.
fn freed_by_the_last_worker(self_wakes: u32) {
    let home = Home::new(0, self_wakes);
    let Home {
        remotes,
        local,
        gate,
        join,
    } = home;
    drop(join);
    *gate.waker.lock().unwrap() = None;
    let [here, there] = [0, 1].map(|worker| remotes[worker].clone());
    let thief = thread::spawn(move || {
        let local = Local::new(there);
        local.enter(|| {
            let _ = local.steal(&here, Greed::One, true);
            while local.run_one() {}
            local.close();
        });
    });
    local.enter(|| local.close());
    thief.join().unwrap();
    drop(local);
    *gate.waker.lock().unwrap() = None;
    assert_eq!(remotes[0].shares(), 2, "a task was not freed");
}

fn completes_elsewhere() {
    stolen_while_home_ends(0, 1);
}

fn goes_round_elsewhere() {
    stolen_while_home_ends(0, 2);
}

fn idles_elsewhere() {
    stolen_while_home_ends(1, 1);
}

/// Worker 1 wakes the task, for which worker 0 is the better place, and the two workers end.
fn woken_while_home_ends() {
    let home = Home::new(1, 0);
    let there = home.remotes[1].clone();
    let gate = Arc::clone(&home.gate);
    let waker = gate.waker();
    let other = thread::spawn(move || {
        let local = Local::new(there);
        local.enter(|| {
            gate.open(0);
            waker.wake();
            while local.run_one() {}
            local.close();
        });
    });
    home.local.enter(|| {
        let _ = home.local.gather();
        while home.local.run_one() {}
        home.local.close();
    });
    other.join().unwrap();
    home.assert_freed();
}

#[test]
fn d4_a_task_that_completes_elsewhere_while_its_home_ends() {
    check(completes_elsewhere);
}

#[test]
fn d4_a_task_that_is_queued_elsewhere_while_its_home_ends() {
    check_large(goes_round_elsewhere);
}

#[test]
fn d4_a_task_that_idles_elsewhere_while_its_home_ends() {
    check(idles_elsewhere);
}

#[test]
fn w14_a_task_woken_from_another_worker_while_its_home_ends() {
    check(woken_while_home_ends);
}

#[test]
fn d4_a_task_that_nobody_awaits_is_freed_by_the_last_of_two_workers() {
    check_large(|| freed_by_the_last_worker(1));
}

#[test]
fn mutant_seize_running() {
    mutant!(TaskSeizeRunning, goes_round_elsewhere);
}

#[test]
fn mutant_leave_forgotten() {
    mutant!(TaskLeaveForgotten, completes_elsewhere);
}
