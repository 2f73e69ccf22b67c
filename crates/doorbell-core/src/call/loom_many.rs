//! Calls to many cores, in every interleaving: the last one to end against a waiter that is gone
//! right after.

// What a model counts with std's atomics is not part of it and orders nothing in it.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use super::many_tests::many;
use super::{Many, Outcome};
use crate::mailbox::Posted;
use crate::testing::model::{check, check_large, join_all, mutant};
use crate::testing::{Idler, Log, post, remote};
use crate::wait::block_on;
use crate::worker::Local;
use ::loom::thread;
use doorbell_machine::Loom;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};

/// How the caller waits.
#[derive(Clone, Copy)]
enum By {
    Blocking,
    Awaiting,
}

fn wait<R>(many: Many<R>, by: By) -> Vec<Outcome<R>> {
    match by {
        By::Blocking => many.wait(),
        By::Awaiting => block_on::<Loom, _>(many, 0),
    }
}

/// A caller that calls the one worker there is and waits, against that worker. Its post may be
/// `behind` another one, and then it rings nobody.
fn caller_and_worker(behind: bool, by: By) {
    let remote = remote::<Loom>();
    let (ran, owned) = (Arc::new(AtomicUsize::new(0)), Arc::new(()));
    let log = Log::default();
    if behind {
        assert_eq!(post(&*remote, 1, &log), Posted::Yes);
    }
    let theirs = (remote.clone(), Arc::clone(&ran), Arc::clone(&owned));
    let caller = thread::spawn(move || {
        let (remote, ran, owned) = theirs;
        let calls = many(std::slice::from_ref(&remote), move |core| {
            ran.fetch_add(1, Relaxed);
            (core + 7, Arc::clone(&owned))
        });
        let outcomes = wait(calls, by);
        assert!(
            matches!(outcomes[..], [Outcome::Done((7, _))]),
            "returned before its call had ended"
        );
    });
    let local = Local::new(remote);
    let idler = Idler::new(&local, false);
    local.enter(|| idler.until(|| ran.load(Relaxed) == 1));
    caller.join().unwrap();
    assert_eq!(log.len(), usize::from(behind));
    idler.assert_rings_are_paid_for();
    assert_eq!(Arc::strong_count(&owned), 1, "leaked, or not dropped");
}

fn one_blocking() {
    caller_and_worker(false, By::Blocking);
}

fn one_awaiting() {
    caller_and_worker(false, By::Awaiting);
}

fn behind_another() {
    caller_and_worker(true, By::Blocking);
}

/// Two workers that end meanwhile: each has run its call or is gone, and the waiter waits for both.
fn two_workers(by: By) {
    let remotes = [remote::<Loom>(), remote::<Loom>()];
    let (ran, owned) = (Arc::new(AtomicUsize::new(0)), Arc::new(()));
    let workers = remotes.clone().map(|remote| {
        thread::spawn(move || {
            let local = Local::new(remote);
            local.enter(|| local.close());
        })
    });
    let (count, theirs) = (Arc::clone(&ran), Arc::clone(&owned));
    let calls = many(&remotes, move |core| {
        count.fetch_add(1, Relaxed);
        (core, Arc::clone(&theirs))
    });
    let mut done = 0;
    for (core, outcome) in wait(calls, by).into_iter().enumerate() {
        match outcome {
            Outcome::Done((result, _)) => {
                assert_eq!(result, core);
                done += 1;
            }
            Outcome::Gone => {}
            Outcome::Panicked(payload) => panic!("{payload}"),
        }
    }
    assert_eq!(ran.load(Relaxed), done, "it ran, and the worker was gone");
    join_all(workers);
    assert_eq!(Arc::strong_count(&owned), 1, "leaked, or not dropped");
}

fn two_workers_blocking() {
    two_workers(By::Blocking);
}

fn two_workers_awaiting() {
    two_workers(By::Awaiting);
}

/// The future is polled once and dropped while the worker takes its call.
fn withdrawn() {
    let remote = remote::<Loom>();
    let (ran, owned) = (Arc::new(AtomicUsize::new(0)), Arc::new(()));
    let (count, theirs) = (Arc::clone(&ran), Arc::clone(&owned));
    let mut calls = many(std::slice::from_ref(&remote), move |_| {
        count.fetch_add(1, Relaxed);
        Arc::clone(&theirs)
    });
    let worker = thread::spawn(move || {
        let local = Local::new(remote);
        local.enter(|| local.close());
    });
    let polled = Pin::new(&mut calls).poll(&mut Context::from_waker(Waker::noop()));
    drop(calls);
    if let Poll::Ready(outcomes) = polled {
        assert!(matches!(outcomes[..], [Outcome::Done(_)]));
        assert_eq!(ran.load(Relaxed), 1);
    }
    worker.join().unwrap();
    assert!(ran.load(Relaxed) <= 1);
    assert_eq!(Arc::strong_count(&owned), 1, "leaked, or not dropped");
}

#[test]
fn d9_the_last_call_ends_and_the_block_is_gone_right_after() {
    check(one_blocking);
    check(one_awaiting);
}

#[test]
fn b5_a_waiter_whose_post_rang_nobody_waits_all_the_same() {
    check(behind_another);
}

#[test]
fn d10_the_waiter_waits_for_every_worker() {
    check_large(two_workers_blocking);
    check_large(two_workers_awaiting);
}

#[test]
fn d12_a_call_that_is_withdrawn_while_queued_is_dropped_once() {
    check(withdrawn);
}

#[test]
fn mutant_touch_after_end() {
    mutant!(ManyTouchAfterEnd, one_blocking);
}
