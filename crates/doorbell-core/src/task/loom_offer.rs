//! What a worker makes known to others, against one that idles, in every interleaving: it is seen, or the
//! worker that idles is woken. Each model takes one step of a worker that pushes, with the fence after it.

// What a model counts with std's atomics and locks is not part of it and orders nothing in it.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use super::{About, Kind};
use crate::queue::is_shareable;
use crate::scheduler::Member;
use crate::scheduler::idle::Left;
use crate::scheduler::{RemoteRef, Scheduler};
use crate::testing::model::check_large;
use crate::testing::{launch_about, spawn};
use crate::worker::Local;
use ::loom::thread;
use doorbell_machine::{Loom, Machine};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

type M = Loom;

/// Wakes itself for ever.
struct NeverReady;

impl Future for NeverReady {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Worker 0 does what `push` says, which leaves it two tasks, while worker 1 idles.
fn against_one_that_idles(
    prepare: fn(&RemoteRef<M>),
    push: fn(&Local<M>, &RemoteRef<M>),
    has_two: fn(&Member<M>) -> bool,
) {
    let remotes: Vec<RemoteRef<M>> = Scheduler::new(2, &Arc::default(), |_, _| 0);
    let local = Local::new(remotes[0].clone());
    local.enter(|| prepare(&remotes[0]));
    let (victim, own) = (remotes[0].clone(), remotes[1].clone());
    let idles = thread::spawn(move || {
        own.scheduler().idle().enter(1);
        own.scheduler().work().holds(0) && has_two(&victim)
    });
    local.enter(|| push(&local, &remotes[0]));
    let seen = idles.join().unwrap();
    let idle = remotes[0].scheduler().idle();
    let claimed = idle.leave(1) == Left::Claimed;
    if claimed {
        let _ = idle.end_search(1);
    }
    assert!(seen || claimed, "the task waits");
    local.enter(|| local.close());
}

fn spawn_never_ready(remote: &RemoteRef<M>) {
    drop(spawn(remote, NeverReady));
}

fn spawn_in_group(remote: &RemoteRef<M>) {
    remote.scheduler().groups().reserve(1);
    let about = About {
        group: Some(1),
        ..About::default()
    };
    drop(launch_about(remote, Kind::Task, about, NeverReady));
}

fn two_are_pushed() {
    let push = |_: &Local<M>, remote: &RemoteRef<M>| spawn_never_ready(remote);
    let has_two = |remote: &Member<M>| is_shareable(remote.queue().len());
    against_one_that_idles(spawn_never_ready, push, has_two);
}

fn one_is_pushed_again() {
    let prepare = |remote: &RemoteRef<M>| (0..2).for_each(|_| spawn_never_ready(remote));
    let push = |local: &Local<M>, _: &RemoteRef<M>| assert!(local.run_one());
    let has_two = |remote: &Member<M>| is_shareable(remote.queued_len());
    against_one_that_idles(prepare, push, has_two);
}

/// The ring is empty, and what lies behind it is in the worker's hands for a moment.
fn a_ring_is_refilled() {
    let prepare = |remote: &RemoteRef<M>| {
        (0..M::RING_CAPACITY + 3).for_each(|_| drop(spawn(remote, async {})));
        Local::<M>::with_current(|local| {
            let local = local.expect("inside `enter`");
            (0..M::RING_CAPACITY).for_each(|_| assert!(local.run_one()));
        });
        assert!(!is_shareable(remote.queue().len()), "it was told before");
    };
    let push = |local: &Local<M>, _: &RemoteRef<M>| assert!(local.run_one());
    let has_two = |remote: &Member<M>| is_shareable(remote.queue().len());
    against_one_that_idles(prepare, push, has_two);
}

fn two_of_a_group_are_pushed() {
    let prepare = |remote: &RemoteRef<M>| {
        // SAFETY: nobody else opens one, and there are no tasks.
        unsafe { remote.scheduler().groups().open(2, 1, 100) };
        spawn_in_group(remote);
    };
    let push = |_: &Local<M>, remote: &RemoteRef<M>| spawn_in_group(remote);
    let has_two = |remote: &Member<M>| remote.scheduler().groups().queued_len(0) > 1;
    against_one_that_idles(prepare, push, has_two);
}

#[test]
fn w17_a_second_task_is_seen_or_offered() {
    check_large(two_are_pushed);
}

#[test]
fn w17_a_task_that_is_queued_again_is_seen_or_offered() {
    check_large(one_is_pushed_again);
}

#[test]
fn what_fills_a_ring_anew_is_seen_or_offered() {
    check_large(a_ring_is_refilled);
}

#[test]
fn w17_a_second_task_of_a_group_is_seen_or_offered() {
    check_large(two_of_a_group_are_pushed);
}
