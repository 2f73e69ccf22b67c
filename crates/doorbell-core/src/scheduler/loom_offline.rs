//! Cores taken off and put back in every interleaving: among themselves, and against those who post
//! to such a core, take work for it from the idle set, or steal from it.

use super::{PutBack, TakenOff};
use crate::link::{Delivered, Node};
use crate::mailbox::Posted;
use crate::scheduler::{Member, Placed};
use crate::scheduler::{RemoteRef, Scheduler};
use crate::testing::model::{check, check_large};
use crate::worker::Local;
use ::loom::thread;
use doorbell_machine::Loom;
use std::ptr::NonNull;
use std::sync::Arc;

type Sound = Loom;

/// A scheduler of so many workers, of which the last ones are off.
fn scheduler(workers: usize, off: usize) -> Vec<RemoteRef<Sound>> {
    let remotes = Scheduler::new(workers, &Arc::default(), |_, _| 0);
    for worker in workers - off..workers {
        assert_eq!(remotes[0].scheduler().take_off(worker), TakenOff::Now);
    }
    remotes
}

/// Somebody asks for the last worker to be taken off, while another one may come back: unless that
/// was in time, it stays on, and nobody sees it off.
fn the_last_one_asked_for() {
    let remotes = scheduler(2, 1);
    let theirs = remotes[0].clone();
    let asker = thread::spawn(move || theirs.scheduler().take_off(0));
    let before = remotes[0].is_off();
    assert!(!before, "the last one was seen off");
    assert_eq!(remotes[0].scheduler().put_back(1), PutBack::Now);
    let after = remotes[0].is_off();
    let asked = asker.join().unwrap();
    assert!(
        asked == TakenOff::Now || !after,
        "one that stays was seen off"
    );
    assert_eq!(remotes[0].is_off(), asked == TakenOff::Now);
}

/// Two ask for the same worker: one takes it off, and the other is not told that it is the last one; nor is a
/// third, that asks for another while enough are on.
fn the_same_one_asked_for(workers: usize) {
    let remotes = scheduler(workers, 0);
    let theirs = remotes[0].clone();
    let asker = thread::spawn(move || theirs.scheduler().take_off(1));
    let asked = remotes[0].scheduler().take_off(1);
    if workers == 3 {
        assert_eq!(remotes[0].scheduler().take_off(2), TakenOff::Now);
    }
    let both = [asked, asker.join().unwrap()];
    let others = both.iter().filter(|it| **it != TakenOff::Now);
    let others: Vec<_> = others.collect();
    assert!(
        matches!(*others, [TakenOff::Before | TakenOff::Asked]),
        "{both:?}"
    );
}

#[test]
fn of_two_that_ask_for_one_worker_none_is_refused() {
    check(|| the_same_one_asked_for(2));
    check(|| the_same_one_asked_for(3));
}

/// Two take off a worker each, and one of them puts it back: one worker is on at every moment, and the
/// count says how many are.
fn two_taken_off() {
    let remotes = scheduler(2, 0);
    let theirs = remotes[1].clone();
    let other = thread::spawn(move || {
        let taken = theirs.scheduler().take_off(1);
        let nearest = theirs.scheduler().nearest_on(1).worker();
        if taken == TakenOff::Now {
            assert_eq!(nearest, 0, "the last one was taken off");
            assert_eq!(theirs.scheduler().put_back(1), PutBack::Now);
        }
        taken
    });
    let scheduler = remotes[0].scheduler();
    let taken = scheduler.take_off(0);
    let others = other.join().unwrap();
    assert!(taken == TakenOff::Now || others == TakenOff::Now);
    if taken == TakenOff::LastOne {
        assert_eq!(scheduler.take_off(0), TakenOff::Now, "the count is too low");
    }
    assert_eq!(
        scheduler.take_off(1),
        TakenOff::LastOne,
        "the count is too high"
    );
}

/// Worker 1 is put back while somebody takes off worker 0: who was let do so sees that worker 1 is on.
fn one_for_the_other() {
    let remotes = scheduler(2, 1);
    let theirs = remotes[1].clone();
    let other = thread::spawn(move || assert_eq!(theirs.scheduler().put_back(1), PutBack::Now));
    if remotes[0].scheduler().take_off(0) == TakenOff::Now {
        let to = remotes[0].scheduler().nearest_on(0).worker();
        assert_eq!(to, 1, "the worker that is on is not seen");
    }
    other.join().unwrap();
}

unsafe fn nothing(_: NonNull<Node<Sound>>) -> Delivered {
    Delivered::Done
}

/// Three tasks, and who frees them.
struct Nodes([NonNull<Node<Sound>>; 3]);

impl Nodes {
    fn new() -> Self {
        Nodes([(); 3].map(|()| NonNull::from(Box::leak(Box::new(Node::new(nothing))))))
    }

    fn free(self) {
        for node in self.0 {
            // SAFETY: made above, and in no queue any more.
            drop(unsafe { Box::from_raw(node.as_ptr()) });
        }
    }
}

/// Only its address goes to another thread, which posts it.
struct Parcel(NonNull<Node<Sound>>);

// SAFETY: a node is handed from thread to thread by being posted.
unsafe impl Send for Parcel {}

/// Takes all tasks of a worker out; how many there were.
fn drain(remote: &Member<Sound>) -> usize {
    let mut count = 0;
    // SAFETY: nobody else is there any more.
    while unsafe { remote.queue().pop() }.is_some() {
        count += 1;
    }
    if let Some((chain, len)) = remote.take_injected() {
        chain.drain(drop);
        count += len as usize;
    }
    count
}

/// A worker goes off with one task in its queue and one in its inject queue, while a third one is placed from
/// outside: none is lost, and when the worker has looked once more it has none.
fn off_against_a_post() {
    let remotes = scheduler(2, 0);
    let (stays, goes) = (&remotes[0], &remotes[1]);
    let nodes = Nodes::new();
    let theirs = goes.clone();
    let late = Parcel(nodes.0[2]);
    let poster = thread::spawn(move || {
        let late = late;
        // SAFETY: the node lives until the end of the model.
        let placed = unsafe { theirs.scheduler().place_task(&theirs, false, late.0) };
        assert!(matches!(placed, Placed::Yes));
    });
    let local = Local::new(goes.clone());
    // SAFETY: as above; this thread is the worker.
    unsafe {
        goes.queue().push(nodes.0[0], crate::queue::Share::Always);
        assert_eq!(goes.post_task(nodes.0[1]), Posted::Yes);
    }
    assert_eq!(goes.scheduler().take_off(1), TakenOff::Now);
    local.follow();
    poster.join().unwrap();
    // What was placed by an older look is handed on when the worker takes its inject queue.
    let _ = local.gather();
    assert!(local.is_empty() && !goes.has_injected(), "it kept a task");
    assert_eq!(drain(stays), 3, "a task was lost");
    drop(local);
    drop(remotes);
    nodes.free();
}

/// A worker goes off with a claim upon it: whoever claimed it is owed the end of that search, and the
/// worker gives it.
fn off_against_a_claim() {
    let remotes = scheduler(2, 0);
    let (stays, goes) = (remotes[0].clone(), &remotes[1]);
    let idle = goes.scheduler().idle();
    idle.enter(1);
    let nodes = Nodes::new();
    let parcel = Parcel(nodes.0[0]);
    let placer = thread::spawn(move || {
        let parcel = parcel;
        // SAFETY: the node lives until the end of the model.
        let placed = unsafe { stays.scheduler().place_task(&stays, false, parcel.0) };
        assert!(matches!(placed, Placed::Yes));
    });
    let local = Local::new(goes.clone());
    assert_eq!(goes.scheduler().take_off(1), TakenOff::Now);
    local.follow();
    let left = idle.leave(1);
    placer.join().unwrap();
    if left == crate::scheduler::idle::Left::Claimed {
        let _ = idle.end_search(1);
    }
    let _ = local.gather();
    assert!(!idle.any() && !idle.anyone_searches(), "a count is left");
    assert!(local.is_empty() && !goes.has_injected(), "it kept a task");
    assert_eq!(drain(&remotes[0]), 1, "a task was lost");
    drop(local);
    drop(remotes);
    nodes.free();
}

#[test]
fn the_last_worker_is_never_seen_off() {
    check(the_last_one_asked_for);
}

#[test]
fn of_two_that_take_off_the_last_two_one_is_refused() {
    check(two_taken_off);
}

#[test]
fn who_takes_off_a_worker_sees_the_one_that_is_on() {
    check(one_for_the_other);
}

#[test]
fn b8_b23_a_post_to_a_worker_that_goes_off_runs_elsewhere() {
    check_large(off_against_a_post);
}

#[test]
fn b24_a_claim_of_a_worker_that_goes_off_is_consumed() {
    check_large(off_against_a_claim);
}
