//! Tasks, wakers and join handles in every interleaving.
//!
//! The worker is the model's first thread; the task has been polled once when the others start,
//! unless a model says otherwise.

// What a model counts with std's atomics and locks is not part of it and orders nothing in it.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use super::{Join, JoinError, Phase};
use crate::scheduler::RemoteRef;
use crate::testing::model::{check, check_large, join_all, mutant};
use crate::testing::{Idler, remote, spawn};
use crate::wait::{Waiter, block_on};
use crate::worker::Local;
use ::loom::sync::atomic::AtomicU32;
use ::loom::thread;
use doorbell_machine::{Counter, Loom};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

/// What wakers publish by the wake alone: flags without any ordering of their own. A poll
/// that misses one which was up before the wake waits for ever.
pub(super) struct Gate {
    open: [AtomicU32; 2],
    /// The rest is not part of the model: std atomics and a lock that order nothing in it.
    polls: AtomicUsize,
    futures_dropped: AtomicUsize,
    outputs_dropped: AtomicUsize,
    pub(super) waker: Mutex<Option<Waker>>,
}

impl Gate {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Gate {
            open: [AtomicU32::new(0), AtomicU32::new(0)],
            polls: AtomicUsize::new(0),
            futures_dropped: AtomicUsize::new(0),
            outputs_dropped: AtomicUsize::new(0),
            waker: Mutex::new(None),
        })
    }

    pub(super) fn open(&self, door: usize) {
        self.open[door].store(1, Relaxed);
    }

    pub(super) fn waker(&self) -> Waker {
        let slot = self.waker.lock().unwrap();
        slot.clone().expect("the task was polled once")
    }

    /// The future was dropped once, and its output once if it had one.
    pub(super) fn assert_dropped(&self, outputs: usize) {
        assert_eq!(self.futures_dropped.load(Relaxed), 1);
        assert_eq!(self.outputs_dropped.load(Relaxed), outputs);
    }
}

/// Ready once `doors` of the gate are open.
pub(super) struct Task {
    pub(super) gate: Arc<Gate>,
    pub(super) doors: usize,
    /// How many polls wake the task themselves.
    pub(super) self_wakes: u32,
}

/// How many doors were open; counts its drop.
pub(super) struct Output(usize, Arc<Gate>);

impl Drop for Output {
    fn drop(&mut self) {
        self.1.outputs_dropped.fetch_add(1, Relaxed);
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.gate.futures_dropped.fetch_add(1, Relaxed);
    }
}

impl Future for Task {
    type Output = Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Output> {
        let gate = Arc::clone(&self.gate);
        gate.polls.fetch_add(1, Relaxed);
        let open = |door: &usize| gate.open[*door].load(Relaxed) == 1;
        if (0..self.doors).all(|door| open(&door)) && self.self_wakes == 0 {
            return Poll::Ready(Output(self.doors, Arc::clone(&gate)));
        }
        let mut slot = gate.waker.lock().unwrap();
        slot.get_or_insert_with(|| cx.waker().clone());
        drop(slot);
        if self.self_wakes > 0 {
            self.self_wakes -= 1;
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

/// A worker with one task that was polled once.
struct Stage {
    remote: RemoteRef<Loom>,
    local: Local<Loom>,
    gate: Arc<Gate>,
}

impl Stage {
    fn new(doors: usize, self_wakes: u32) -> (Self, Join<Output>) {
        let remote = remote::<Loom>();
        let local = Local::new(remote.clone());
        let gate = Gate::new();
        let task = Task {
            gate: Arc::clone(&gate),
            doors,
            self_wakes,
        };
        let join = local.enter(|| spawn(&remote, task));
        local.enter(|| assert!(local.run_one()));
        let stage = Stage {
            remote,
            local,
            gate,
        };
        (stage, join)
    }

    fn run_until(&self, done: impl Fn() -> bool) {
        let idler = Idler::new(&self.local, false);
        self.local.enter(|| idler.until(done));
        idler.assert_rings_are_paid_for();
    }

    /// Runs the worker until the task's future is gone.
    fn run(&self) {
        self.run_until(|| self.gate.futures_dropped.load(Relaxed) > 0);
    }

    fn assert_polls(&self, least: usize, most: usize) {
        let polls = self.gate.polls.load(Relaxed);
        assert!((least..=most).contains(&polls), "{polls} polls");
    }

    /// Ends the worker; nobody holds the task any more, so it has let go of the remote half.
    fn assert_freed(self, outputs: usize) {
        *self.gate.waker.lock().unwrap() = None;
        self.local.enter(|| self.local.close());
        assert_eq!(self.local.live(), 0);
        drop(self.local);
        self.gate.assert_dropped(outputs);
        assert_eq!(self.remote.shares(), 1, "a task was not freed");
    }
}

fn output(mut join: Join<Output>) -> Result<usize, JoinError> {
    let mut cx = Context::from_waker(Waker::noop());
    match pin!(&mut join).poll(&mut cx) {
        Poll::Ready(output) => output.map(|output| output.0),
        Poll::Pending => panic!("the task is not complete"),
    }
}

/// A wake from elsewhere, before, while or after the worker polls the task for its own wake.
fn wake_while_running() {
    let (stage, join) = Stage::new(1, 1);
    let gate = Arc::clone(&stage.gate);
    let waker = gate.waker();
    let thread = thread::spawn(move || {
        gate.open(0);
        waker.wake();
    });
    stage.run();
    thread.join().unwrap();
    stage.assert_polls(2, 3);
    assert_eq!(output(join).unwrap(), 1);
    stage.assert_freed(1);
}

/// Two wakes at once submit the task once, and both are seen.
fn two_wakes() {
    let (stage, join) = Stage::new(2, 0);
    let threads = [0, 1].map(|door| {
        let gate = Arc::clone(&stage.gate);
        let waker = gate.waker();
        thread::spawn(move || {
            gate.open(door);
            waker.wake_by_ref();
            drop(waker);
        })
    });
    stage.run();
    join_all(threads);
    stage.assert_polls(2, 3);
    assert_eq!(output(join).unwrap(), 2);
    stage.assert_freed(1);
}

/// The output is awaited on another thread, by one waker.
fn join_elsewhere() {
    let (stage, join) = Stage::new(0, 1);
    let thread = thread::spawn(move || {
        let output = block_on::<Loom, _>(join, 0);
        assert_eq!(output.unwrap().0, 0);
    });
    stage.run();
    thread.join().unwrap();
    stage.assert_polls(2, 2);
    stage.assert_freed(1);
}

/// The output is awaited by one waker and then by another: the last one is woken.
fn join_by_changing_wakers() {
    let (stage, mut join) = Stage::new(0, 1);
    let thread = thread::spawn(move || {
        let waiters = [(); 2].map(|()| Arc::new(Waiter::<Loom>::default()));
        let mut found = Poll::Pending;
        for waiter in &waiters {
            let waker = Waker::from(Arc::clone(waiter));
            if found.is_pending() {
                found = Pin::new(&mut join).poll(&mut Context::from_waker(&waker));
            }
        }
        if found.is_pending() {
            waiters[1].wait(0);
            found = Pin::new(&mut join).poll(&mut Context::from_waker(Waker::noop()));
        }
        match found {
            Poll::Ready(output) => assert_eq!(output.unwrap().0, 0),
            Poll::Pending => panic!("the last waker was woken too early"),
        }
    });
    stage.run();
    thread.join().unwrap();
    stage.assert_freed(1);
}

/// Worker, join handle and a waker let go of the task in any order.
fn last_reference() {
    let (stage, join) = Stage::new(0, 1);
    let waker = stage.gate.waker.lock().unwrap().take();
    let threads = [
        thread::spawn(move || drop(waker)),
        thread::spawn(move || drop(join)),
    ];
    stage.run();
    join_all(threads);
    stage.assert_polls(2, 2);
    stage.assert_freed(1);
}

/// A waker that gives its reference up by waking may be the last to hold the task.
fn last_reference_wakes() {
    let (stage, join) = Stage::new(0, 1);
    let waker = stage.gate.waker.lock().unwrap().take();
    let threads = [
        thread::spawn(move || waker.into_iter().for_each(Waker::wake)),
        thread::spawn(move || drop(join)),
    ];
    stage.run();
    join_all(threads);
    stage.assert_polls(2, 2);
    stage.assert_freed(1);
}

/// The handle takes the output, or lets go of it, while the worker completes the task.
fn drop_of_the_handle() {
    let (stage, mut join) = Stage::new(0, 1);
    let thread = thread::spawn(move || {
        let mut cx = Context::from_waker(Waker::noop());
        let _ = Pin::new(&mut join).poll(&mut cx);
        drop(join);
    });
    stage.run();
    thread.join().unwrap();
    stage.assert_freed(1);
}

/// A task that is waiting is cancelled from elsewhere while somebody wakes it.
fn cancel_and_wake() {
    let (stage, join) = Stage::new(1, 0);
    let gate = Arc::clone(&stage.gate);
    let waker = gate.waker();
    let threads = [
        thread::spawn(move || {
            gate.open(0);
            waker.wake();
        }),
        thread::spawn(move || {
            join.cancel();
            match block_on::<Loom, _>(join, 0) {
                Ok(output) => assert_eq!(output.0, 1),
                Err(error) => assert!(error.is_cancelled(), "{error}"),
            }
        }),
    ];
    stage.run();
    join_all(threads);
    stage.assert_polls(1, 2);
    let outputs = stage.gate.outputs_dropped.load(Relaxed);
    assert_eq!(outputs, stage.gate.polls.load(Relaxed) - 1);
    stage.assert_freed(outputs);
}

/// A task is cancelled while its worker polls it: the output, or the cancellation, not both.
fn cancel_while_running() {
    let (stage, join) = Stage::new(0, 1);
    let thread = thread::spawn(move || {
        join.cancel();
        block_on::<Loom, _>(join, 0).is_ok()
    });
    stage.run();
    let outputs = thread.join().unwrap().into();
    stage.assert_polls(1 + outputs, 1 + outputs);
    stage.assert_freed(outputs);
}

/// A wake, and a waker that outlives the worker, while the worker closes.
fn wake_against_close() {
    let (stage, join) = Stage::new(1, 0);
    let gate = Arc::clone(&stage.gate);
    let waker = gate.waker();
    let thread = thread::spawn(move || {
        gate.open(0);
        waker.wake_by_ref();
        waker.wake();
    });
    let local = &stage.local;
    local.enter(|| {
        // SAFETY: this thread is the worker.
        let _ = unsafe { stage.remote.serve(local) };
        local.run_one();
        local.close();
    });
    thread.join().unwrap();
    let outputs = match output(join) {
        Ok(doors) => doors,
        Err(error) => usize::from(!error.is_cancelled()),
    };
    stage.assert_polls(1 + outputs, 1 + outputs);
    stage.assert_freed(outputs);
}

/// The only waker, which is also the last to hold the task, wakes while the worker closes: the
/// task must not go away before its waker is done with it.
fn last_wake_against_close() {
    let (stage, join) = Stage::new(1, 0);
    drop(join);
    let waker = stage.gate.waker.lock().unwrap().take();
    let thread = thread::spawn(move || waker.into_iter().for_each(Waker::wake));
    stage.local.enter(|| stage.local.close());
    thread.join().unwrap();
    stage.assert_polls(1, 1);
    stage.assert_freed(0);
}

/// A task is cancelled from elsewhere while its worker closes.
fn cancel_against_close() {
    let (stage, join) = Stage::new(1, 0);
    let thread = thread::spawn(move || {
        join.cancel();
        let ended = block_on::<Loom, _>(join, 0);
        assert!(ended.is_err_and(|error| error.is_cancelled()));
    });
    let local = &stage.local;
    local.enter(|| {
        // SAFETY: this thread is the worker.
        let _ = unsafe { stage.remote.serve(local) };
        local.run_one();
        local.close();
    });
    thread.join().unwrap();
    stage.assert_polls(1, 1);
    stage.assert_freed(0);
}

/// A task spawned from elsewhere while the worker closes: it ends, one way or the other.
fn spawn_against_close() {
    let remote = remote::<Loom>();
    let gate = Gate::new();
    let task = Task {
        gate: Arc::clone(&gate),
        doors: 0,
        self_wakes: 0,
    };
    let (theirs, phases) = (remote.clone(), [Phase::Complete, Phase::Queued]);
    let thread = thread::spawn(move || {
        let join = spawn(&theirs, task);
        let _: bool = phases.contains(&join.phase());
        block_on::<Loom, _>(join, 0).is_ok()
    });
    let local = Local::new(remote.clone());
    local.enter(|| {
        // SAFETY: this thread is the worker.
        let _ = unsafe { remote.serve(&local) };
        local.run_one();
        local.close();
    });
    let outputs = thread.join().unwrap().into();
    drop(local);
    gate.assert_dropped(outputs);
    assert_eq!(remote.shares(), 1);
    assert_eq!(remote.counts().rings.get(), 0, "the worker never parked");
}

#[test]
fn w25_a_wake_while_running_is_not_lost() {
    check(wake_while_running);
}

#[test]
fn two_wakes_submit_once_and_are_both_seen() {
    check_large(two_wakes);
}

#[test]
fn the_output_is_seen_by_whoever_joins() {
    check(join_elsewhere);
}

#[test]
fn the_last_waker_of_a_joiner_is_woken() {
    check(join_by_changing_wakers);
}

#[test]
fn d21_the_last_reference_frees() {
    check(last_reference);
}

#[test]
fn d8_a_wake_gives_up_the_last_reference() {
    check(last_reference_wakes);
}

#[test]
fn a_handle_dropped_at_completion() {
    check(drop_of_the_handle);
}

#[test]
fn a_cancelled_task_ends_once() {
    check_large(cancel_while_running);
    check_large(cancel_and_wake);
}

#[test]
fn d12_a_wake_or_a_cancel_against_the_close() {
    check(wake_against_close);
    check(cancel_against_close);
}

#[test]
fn d7_the_last_wake_against_the_close() {
    check(last_wake_against_close);
}

#[test]
fn d3_a_spawn_against_close() {
    check(spawn_against_close);
}

#[test]
fn mutant_forget_wake() {
    mutant!(TaskForgetWake, wake_while_running);
}

#[test]
fn mutant_submit_while_running() {
    mutant!(TaskSubmitWhileRunning, wake_while_running);
}

#[test]
fn mutant_join_waker_blind() {
    mutant!(TaskJoinWakerBlind, join_by_changing_wakers);
}
