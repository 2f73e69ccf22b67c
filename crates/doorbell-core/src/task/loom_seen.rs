//! What a wake, a cancel and a completion bring with them, in every interleaving.

// What a model counts with std's atomics and locks is not part of it and orders nothing in it.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use super::state_delegate::{Delegated, For};
use super::{Join, Phase, TaskRef};
use crate::class::Class;
use crate::scheduler::{RemoteRef, Scheduler, SchedulerSpec};
use crate::testing::model::check_large;
use crate::testing::{remote, spawn};
use crate::worker::Local;
use ::loom::cell::UnsafeCell;
use ::loom::sync::atomic::AtomicU32;
use ::loom::thread;
use doorbell_machine::Loom;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

type M = Loom;

/// What is told by a wake or a cancel alone, and what a task writes.
struct Words {
    told: AtomicU32,
    written: UnsafeCell<u32>,
    /// The rest is not part of the model. How many drops of the future there were, and how many of them
    /// saw that it was told.
    drops: AtomicUsize,
    told_drops: AtomicUsize,
    waker: Mutex<Option<Waker>>,
}

// SAFETY: the cell is written by the task and read when it is complete; the model checks that.
unsafe impl Sync for Words {}
// SAFETY: as above.
unsafe impl Send for Words {}

impl Words {
    fn new() -> Arc<Self> {
        Arc::new(Words {
            told: AtomicU32::new(0),
            written: UnsafeCell::new(0),
            drops: AtomicUsize::new(0),
            told_drops: AtomicUsize::new(0),
            waker: Mutex::new(None),
        })
    }

    /// A panic in a drop is caught, so this is asked afterwards.
    fn assert_dropped_after_it_was_told(&self) {
        assert_eq!(self.drops.load(Relaxed), 1);
        let told = self.told_drops.load(Relaxed);
        assert_eq!(told, 1, "the drop does not see what came before the cancel");
    }

    fn task(&self) -> TaskRef<M> {
        let waker = self.waker.lock().unwrap();
        let waker = waker.as_ref().expect("the task was polled once");
        // SAFETY: that of a task of this machine, of which it holds a reference.
        unsafe { TaskRef::from_raw(waker.data()) }
    }
}

/// Wakes itself in its first poll, and is ready in the poll of that number.
struct Told {
    words: Arc<Words>,
    polls: u32,
    ready_at: u32,
}

impl Future for Told {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.polls += 1;
        // SAFETY: the task is polled by one worker at a time.
        self.words.written.with_mut(|cell| unsafe { *cell += 1 });
        if self.polls == self.ready_at {
            return Poll::Ready(());
        }
        if self.polls == 1 {
            *self.words.waker.lock().unwrap() = Some(cx.waker().clone());
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        self.words.drops.fetch_add(1, Relaxed);
        let told = self.words.told.load(Relaxed);
        self.words.told_drops.fetch_add(told as usize, Relaxed);
    }
}

/// Polled once on that worker, and in its queue again.
fn polled_once(local: &Local<M>, words: &Arc<Words>, ready_at: u32) -> Join<()> {
    let told = Told {
        words: Arc::clone(words),
        polls: 0,
        ready_at,
    };
    let join = local.enter(|| spawn(local.remote(), told));
    local.enter(|| assert!(local.run_one()));
    join
}

fn close(local: &Local<M>) {
    local.enter(|| {
        let _ = local.gather();
        while local.run_one() {}
        local.close();
    });
}

/// Worker 0 polls the task for its own wake, and it idles. Worker 1 queues it anew by `wake`: the node has left
/// the other queue.
fn queued_elsewhere(class: Class, wake: fn(&Words)) {
    let spec = SchedulerSpec {
        class,
        ..SchedulerSpec::default()
    };
    let remotes = Scheduler::described(2, &Arc::default(), spec, |_, _| 0);
    let words = Words::new();
    let local = Local::new(remotes[0].clone());
    let join = polled_once(&local, &words, 4);
    let (there, theirs) = (remotes[1].clone(), Arc::clone(&words));
    let other = thread::spawn(move || {
        let local = Local::new(there);
        local.enter(|| wake(&theirs));
        close(&local);
    });
    local.enter(|| while local.run_one() {});
    other.join().unwrap();
    close(&local);
    *words.waker.lock().unwrap() = None;
    drop((join, local));
    assert_eq!(words.drops.load(Relaxed), 1);
    assert_eq!(remotes[0].shares(), 2, "a task was not freed");
}

fn woken_elsewhere() {
    queued_elsewhere(Class::Fair, |words| words.task().wake());
}

fn cancelled_elsewhere() {
    queued_elsewhere(Class::Fair, |words| words.task().cancel());
}

/// As one below does: it delegates the wake, and the worker takes the parcel at once.
fn delegated_elsewhere() {
    queued_elsewhere(Class::Rt, |words| {
        let task = words.task();
        if task.delegate_and_stall() == Delegated::Send {
            task.follow(task.header().state.wake_delegated(), || task.submit());
            task.release();
        }
    });
}

/// The drop of the future sees what came before the cancel.
fn cancelled_after_it_was_told(cancel: fn(&Words)) {
    let words = Words::new();
    let local = Local::new(remote::<M>());
    let join = polled_once(&local, &words, 9);
    let theirs = Arc::clone(&words);
    let other = thread::spawn(move || {
        theirs.told.store(1, Relaxed);
        cancel(&theirs);
    });
    local.enter(|| while local.run_one() {});
    other.join().unwrap();
    close(&local);
    words.assert_dropped_after_it_was_told();
    *words.waker.lock().unwrap() = None;
    drop(join);
}

/// As one below does; the worker takes the parcel at once.
fn delegate_cancel(words: &Words) {
    let task = words.task();
    if task.header().state.delegate(For::Cancel) == Delegated::Send {
        task.follow(task.header().state.wake_delegated(), || task.submit());
        task.release();
    }
}

/// The same where a worker above polls the task meanwhile, and drops it.
fn cancelled_while_it_is_raised() {
    let one = |above| {
        Scheduler::described(1, &Arc::default(), SchedulerSpec::below(above), |_, _| 0).remove(0)
    };
    let above: RemoteRef<M> = one(Vec::new());
    let below: RemoteRef<M> = one(vec![above.clone()]);
    let words = Words::new();
    let local = Local::new(below);
    let mut join = polled_once(&local, &words, 4);
    let upper = thread::spawn(move || {
        let local = Local::new(above);
        local.enter(|| {
            let mut cx = Context::from_waker(Waker::noop());
            let _ = Pin::new(&mut join).poll(&mut cx);
        });
        close(&local);
        join
    });
    words.told.store(1, Relaxed);
    local.enter(|| words.task().cancel());
    close(&local);
    drop(upper.join().unwrap());
    *words.waker.lock().unwrap() = None;
    words.assert_dropped_after_it_was_told();
}

/// Who sees by its phase that a task is complete sees what it did.
fn seen_by_its_phase() {
    let words = Words::new();
    let remote = remote::<M>();
    let local = Local::new(remote);
    let join = polled_once(&local, &words, 2);
    let theirs = Arc::clone(&words);
    let other = thread::spawn(move || {
        if join.phase() == Phase::Complete {
            // SAFETY: the task is complete, and writes no more.
            assert_eq!(theirs.written.with(|cell| unsafe { *cell }), 2);
        }
        join
    });
    close(&local);
    drop(other.join().unwrap());
    *words.waker.lock().unwrap() = None;
}

#[test]
fn a_task_that_idled_on_one_worker_is_woken_on_another() {
    check_large(woken_elsewhere);
}

#[test]
fn a_task_that_idled_on_one_worker_is_cancelled_on_another() {
    check_large(cancelled_elsewhere);
}

#[test]
fn a_task_that_idled_on_one_worker_is_woken_by_parcel_on_another() {
    check_large(delegated_elsewhere);
}

#[test]
fn a_cancel_brings_what_came_before_it() {
    check_large(|| cancelled_after_it_was_told(|words| words.task().cancel()));
}

#[test]
fn a_cancel_from_below_brings_what_came_before_it() {
    check_large(|| cancelled_after_it_was_told(delegate_cancel));
}

#[test]
fn a_cancel_of_a_task_that_is_raised_brings_what_came_before_it() {
    check_large(cancelled_while_it_is_raised);
}

#[test]
fn who_sees_a_task_complete_sees_what_it_did() {
    check_large(seen_by_its_phase);
}
