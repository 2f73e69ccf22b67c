//! The raised node of a task between two workers of the scheduler above, in every interleaving: one worker takes it
//! out of its queue, and the other one raises the task anew. That one queues the node without a
//! read-modify-write, so it must see that the node has left the other queue.

// What a model counts with std's atomics and locks is not part of it and orders nothing in it.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use super::{Join, TaskRef};
use crate::scheduler::{RemoteRef, Scheduler, SchedulerSpec};
use crate::testing::model::{check_large, check_largest, join_all};
use crate::testing::spawn;
use crate::worker::Local;
use ::loom::thread::{self, JoinHandle};
use doorbell_machine::Loom;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

type M = Loom;

/// Wakes itself so many times. The slot is not part of the model.
struct Wakes(u32, Arc<Mutex<Option<Waker>>>);

impl Future for Wakes {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // A clone is a step of the model, and the slot's lock is none.
        let is_known = self.1.lock().unwrap().is_some();
        if !is_known {
            let waker = cx.waker().clone();
            *self.1.lock().unwrap() = Some(waker);
        }
        if self.0 > 0 {
            self.0 -= 1;
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

/// A task that was polled once, waits in the queue of its own worker, and was raised to the first of two workers
/// above.
struct Stage {
    below: Local<M>,
    upper: Option<Local<M>>,
    other: RemoteRef<M>,
    waker: Arc<Mutex<Option<Waker>>>,
    join: Join<()>,
}

impl Stage {
    fn new(wakes: u32) -> Self {
        let above: Vec<RemoteRef<M>> = Scheduler::new(2, &Arc::default(), |_, _| 0);
        let spec = SchedulerSpec::below(vec![above[0].clone()]);
        let below = Scheduler::described(1, &Arc::default(), spec, |_, _| 0).remove(0);
        let (below, upper) = (Local::new(below), Local::new(above[0].clone()));
        let waker = Arc::default();
        let task = Wakes(wakes, Arc::clone(&waker));
        let mut join = below.enter(|| spawn(below.remote(), task));
        upper.enter(|| {
            let mut cx = Context::from_waker(Waker::noop());
            assert!(Pin::new(&mut join).poll(&mut cx).is_pending());
        });
        below.enter(|| assert!(below.run_one()));
        Stage {
            below,
            upper: Some(upper),
            other: above[1].clone(),
            waker,
            join,
        }
    }

    /// The second worker above raises the task, if nobody has, and runs what it has got.
    fn raise_elsewhere(&self) -> JoinHandle<()> {
        let remote = self.other.clone();
        let waker = self.waker.lock().unwrap().take().expect("polled once");
        thread::spawn(move || {
            let local = Local::new(remote);
            local.enter(|| {
                // SAFETY: that of a task of this machine, of which it holds a reference.
                let task = unsafe { TaskRef::<M>::from_raw(waker.data()) };
                task.raise();
                drop(waker);
                while local.run_one() {}
                local.close();
            });
        })
    }

    fn end(self) {
        self.below.enter(|| self.below.close());
        drop(self.join);
        assert_eq!(self.below.live(), 0);
    }
}

/// The worker that it was raised to takes it while its own worker polls it.
fn taken_late() {
    let mut stage = Stage::new(2);
    let upper = stage.upper.take().expect("nobody took it");
    let taking = thread::spawn(move || {
        upper.enter(|| {
            let _ = upper.run_one();
            upper.close();
        });
    });
    let raising = stage.raise_elsewhere();
    stage.below.enter(|| {
        let _ = stage.below.run_one();
    });
    join_all([taking, raising]);
    stage.end();
}

/// The worker that it was raised to ends.
fn taken_back() {
    let mut stage = Stage::new(1);
    let upper = stage.upper.take().expect("nobody took it");
    let raising = stage.raise_elsewhere();
    upper.enter(|| upper.close());
    join_all([raising]);
    stage.end();
}

/// The worker that it was raised to polls it, and is about to raise it to itself.
fn raised_to_itself() {
    let mut stage = Stage::new(2);
    let upper = stage.upper.take().expect("nobody took it");
    let raising = stage.raise_elsewhere();
    upper.enter(|| {
        let _ = upper.run_one();
        upper.close();
    });
    join_all([raising]);
    stage.end();
}

#[test]
fn a_raise_that_was_taken_late_is_raised_anew() {
    check_largest(taken_late);
}

#[test]
fn a_raise_that_was_taken_back_is_raised_anew() {
    check_large(taken_back);
}

#[test]
fn a_raise_that_was_polled_is_raised_anew() {
    check_large(raised_to_itself);
}
