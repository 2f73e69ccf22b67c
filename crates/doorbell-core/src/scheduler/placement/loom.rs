//! Placement in every interleaving: callers that choose at the same moment get different workers.

// What a model counts with std's atomics is not part of it and orders nothing in it.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use super::Placed;
use crate::bell::Announced;
use crate::link::Node;
use crate::mailbox::{Mailbox, Pushed};
use crate::scheduler::idle::loom::nodes;
use crate::scheduler::idle::tests::set_of;
use crate::scheduler::idle::{Left, Searching, Wish};
use crate::scheduler::{Member, RemoteRef, Scheduler};
use crate::testing::model::{check, check_large, join_all, mutant};
use ::loom::cell::UnsafeCell;
use ::loom::thread;
use doorbell_machine::Loom;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A node on its way to another thread of the model.
struct Sent(NonNull<Node<Loom>>);

// SAFETY: one thread has it at a time.
unsafe impl Send for Sent {}

impl Sent {
    fn node(self) -> NonNull<Node<Loom>> {
        self.0
    }
}

/// Two take one worker for a task each: one of them gets it.
fn two_take_one() {
    let set = Arc::new(set_of::<Loom>(2));
    set.enter(1);
    let won = Arc::new(AtomicUsize::new(0));
    let takers = [(); 2].map(|()| {
        let (set, won) = (Arc::clone(&set), Arc::clone(&won));
        thread::spawn(move || {
            if set.take(1) {
                assert_eq!(won.fetch_add(1, Relaxed), 0, "two took one worker");
            }
        })
    });
    join_all(takers);
    assert_eq!(won.load(Relaxed), 1);
    assert!(!set.holds(1) && !set.anyone_searches());
}

/// A worker leaves while it is taken: it learns which came first.
fn take_against_leave() {
    let set = Arc::new(set_of::<Loom>(1));
    set.enter(0);
    let theirs = Arc::clone(&set);
    let taker = thread::spawn(move || theirs.take(0));
    let left = set.leave(0);
    let taken = taker.join().unwrap();
    assert_eq!(left, if taken { Left::Settled } else { Left::ByItself });
    assert!(!set.holds(0));
}

/// One claims a worker for a search while another takes it for a task.
fn take_against_claim() {
    let set = Arc::new(set_of::<Loom>(1));
    set.enter(0);
    let theirs = Arc::clone(&set);
    let claimer = thread::spawn(move || theirs.claim_as_first(Wish::of(0), |_| true).is_some());
    let taken = set.take(0);
    let claimed = claimer.join().unwrap();
    assert!(taken != claimed, "taken {taken}, claimed {claimed}");
    match set.leave(0) {
        Left::Claimed => assert_eq!(set.end_search(0), Searching::None),
        left => assert_eq!(left, Left::Settled),
    }
    assert!(!set.anyone_searches(), "a count is left");
}

/// A push that only an empty mailbox accepts, against another push, a take and the last take: a node is in the mailbox
/// or the pusher's still, and never both.
#[allow(
    clippy::arc_with_non_send_sync,
    reason = "the model checks who uses the cell"
)]
fn push_first_against_close() {
    let mailbox = Arc::new(Mailbox::<Loom>::default());
    let [first, second] = [(); 2].map(|()| nodes::boxed());
    let (theirs, sent) = (Arc::clone(&mailbox), Sent(first));
    // The other thread does this before its push. Whoever takes its node sees it.
    let did = Arc::new(UnsafeCell::new(false));
    let does = Arc::clone(&did);
    let other = thread::spawn(move || {
        // SAFETY: the model checks that nobody reads it meanwhile.
        does.with_mut(|did| unsafe { *did = true });
        // SAFETY: the node lives until the end of the model.
        unsafe { theirs.push_first(sent.node()) }
    });
    // SAFETY: as above.
    let pushed = unsafe { mailbox.push_first(second) };
    let closed = mailbox.close_chain();
    let mut taken = 0;
    if let Some((chain, _)) = closed {
        chain.drain(|node| {
            if node == first {
                // SAFETY: as above.
                assert!(did.with(|did| unsafe { *did }));
            }
            taken += 1;
        });
    }
    let other = other.join().unwrap();
    let accepted = [pushed, other]
        .iter()
        .filter(|it| **it == Pushed::First)
        .count();
    assert_eq!(taken, accepted, "a node was lost");
    for node in [first, second] {
        // SAFETY: alive.
        assert!(unsafe { node.as_ref() }.enter(), "it is in no queue");
        nodes::free(node);
    }
}

/// A worker sleeps, as far as the others see.
fn falls_asleep(remote: &Member<Loom>) {
    assert_eq!(remote.bell().announce_spin(), Announced::Yes);
    assert_eq!(remote.bell().announce_park(), Announced::Yes);
    remote.scheduler().idle().enter(remote.worker());
}

/// Two tasks that both prefer the first of two idle workers are placed at the same moment: each worker gets one.
fn two_tasks(first_sleeps: bool) {
    let remotes: Vec<RemoteRef<Loom>> = Scheduler::new(2, &Arc::default(), |_, _| 0);
    if first_sleeps {
        falls_asleep(&remotes[0]);
    } else {
        assert_eq!(remotes[0].bell().announce_spin(), Announced::Yes);
    }
    falls_asleep(&remotes[1]);
    let [mine, theirs] = [(); 2].map(|()| nodes::boxed());
    let (prefer, sent) = (remotes[0].clone(), Sent(theirs));
    let other = thread::spawn(move || {
        // SAFETY: the node lives until the end of the model.
        let placed = unsafe { prefer.scheduler().place_task(&prefer, false, sent.node()) };
        assert!(matches!(placed, Placed::Yes));
    });
    // SAFETY: as above.
    let placed = unsafe { remotes[0].scheduler().place_task(&remotes[0], false, mine) };
    assert!(matches!(placed, Placed::Yes));
    other.join().unwrap();
    for remote in &remotes {
        let (chain, count) = remote.take_injected().expect("two tasks at one worker");
        assert_eq!(count, 1, "two tasks at one worker");
        chain.drain(drop);
    }
    let told = remotes[1].bell().signalled() && (!first_sleeps || remotes[0].bell().signalled());
    assert!(told, "a worker sleeps with a task");
    [mine, theirs].into_iter().for_each(nodes::free);
}

fn two_tasks_and_sleepers() {
    two_tasks(true);
}

fn two_tasks_and_a_spinner() {
    two_tasks(false);
}

#[test]
fn of_two_that_take_a_worker_one_gets_it() {
    check(two_take_one);
}

#[test]
fn a_worker_that_leaves_learns_whether_it_was_taken() {
    check(take_against_leave);
}

#[test]
fn a_worker_is_taken_or_claimed() {
    check(take_against_claim);
}

#[test]
fn a_node_that_only_an_empty_mailbox_accepts_is_there_or_the_callers() {
    check(push_first_against_close);
}

#[test]
fn two_tasks_placed_at_once_go_to_two_sleeping_workers() {
    check_large(two_tasks_and_sleepers);
}

#[test]
fn two_tasks_placed_at_once_go_to_a_spinning_worker_and_another() {
    check_large(two_tasks_and_a_spinner);
}

#[test]
fn mutant_take_blind() {
    mutant!(IdleTakeBlind, two_take_one);
}

#[test]
fn mutant_pushes_behind() {
    mutant!(PlacePushesBehind, two_tasks_and_a_spinner);
}
