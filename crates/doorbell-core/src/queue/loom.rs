//! The run queue in every interleaving: its ring holds two here.

// What a model counts with std's locks is not part of it and orders nothing in it.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use super::tests::{Taken, Thing, content};
use super::{Greed, Queue, Share};
use crate::link::Node;
use crate::testing::model::{check, check_large, mutant};
use ::loom::thread;
use doorbell_machine::{Loom, Machine};
use std::ptr::NonNull;
use std::sync::Arc;

/// The owner pushes so many and pops what is left, while another worker steals once. Every node is
/// taken once, and whoever takes it sees its content.
fn owner_and_thief(count: u64, greed: Greed) {
    theft(count, greed, || {
        Queue::<Loom>::new(<Loom as Machine>::RING_CAPACITY)
    });
}

/// The same, of queues that are made in that way.
fn theft(count: u64, greed: Greed, make: fn() -> Queue<Loom>) {
    let queue = Arc::new(make());
    let taken = Taken::default();
    let (victim, theirs) = (Arc::clone(&queue), taken.clone());
    let thief = thread::spawn(move || {
        let own = make();
        // SAFETY: `own` is this thread's, and `victim` is not.
        if let Some(loot) = unsafe { victim.steal_into(&own, greed) } {
            theirs.take(loot.first);
        }
        theirs.drain(&own);
    });
    for entry in 0..count {
        // SAFETY: this thread is the owner; a thing lives until it is taken.
        unsafe { queue.push(Thing::boxed(entry), Share::Surplus) };
    }
    taken.drain(&queue);
    thief.join().unwrap();
    // A chain that the owner had put back is still there.
    taken.drain(&queue);
    taken.assert_all::<Loom>(count);
}

fn one() {
    owner_and_thief(1, Greed::One);
}

fn two() {
    owner_and_thief(2, Greed::Half);
}

fn with_a_backlog() {
    owner_and_thief(4, Greed::Half);
}

/// Two thieves and no owner that pops.
fn two_thieves() {
    let queue = Arc::new(Queue::<Loom>::new(<Loom as Machine>::RING_CAPACITY));
    let taken = Taken::default();
    for entry in 0..3 {
        // SAFETY: this thread is the owner; a thing lives until it is taken.
        unsafe { queue.push(Thing::boxed(entry), Share::Surplus) };
    }
    let thieves = [(); 2].map(|()| {
        let (victim, theirs) = (Arc::clone(&queue), taken.clone());
        thread::spawn(move || {
            let own = Queue::<Loom>::new(<Loom as Machine>::RING_CAPACITY);
            // SAFETY: `own` is this thread's, and `victim` is not.
            if let Some(loot) = unsafe { victim.steal_into(&own, Greed::One) } {
                theirs.take(loot.first);
            }
            theirs.drain(&own);
        })
    });
    for thief in thieves {
        thief.join().unwrap();
    }
    taken.drain(&queue);
    taken.assert_all::<Loom>(3);
}

/// A thief that meets the owner at the first of two nodes takes the second.
fn thief_meets_the_owner() {
    let queue = Arc::new(Queue::<Loom>::new(2));
    let taken = Taken::default();
    for entry in 0..2 {
        // SAFETY: this thread is the owner; a thing lives until it is taken.
        unsafe { queue.push(Thing::boxed(entry), Share::Surplus) };
    }
    let (victim, theirs) = (Arc::clone(&queue), taken.clone());
    let thief = thread::spawn(move || {
        let own = Queue::new(2);
        // SAFETY: `own` is this thread's, and `victim` is not.
        let loot = unsafe { victim.steal_into(&own, Greed::One) };
        theirs.take(loot.expect("the owner left one").first);
    });
    // SAFETY: this thread is the owner.
    taken.take(unsafe { queue.pop() }.expect("the thief takes one"));
    thief.join().unwrap();
    taken.assert_all::<Loom>(2);
}

#[test]
fn q1_a_thief_that_meets_the_owner_takes_what_that_leaves() {
    check(thief_meets_the_owner);
}

#[test]
fn q1_a_last_node_goes_to_owner_or_thief() {
    check(one);
}

#[test]
fn q1_half_goes_to_the_thief_and_the_rest_stays() {
    check(two);
}

#[test]
fn q1_a_ring_that_overflows_loses_nothing() {
    check(with_a_backlog);
}

#[test]
fn q1_two_thieves_take_different_nodes() {
    check(two_thieves);
}

#[test]
fn mutant_push_relaxed() {
    mutant!(QueuePushRelaxed, one);
}

#[test]
fn mutant_claim_blind() {
    mutant!(QueueClaimBlind, one);
}

/// Each thing is more urgent than those before.
unsafe fn rising<M: Machine>(node: NonNull<Node<M>>) -> u8 {
    // SAFETY: passed on.
    unsafe { content(node) as u8 }
}

/// As [`owner_and_thief`], of an ordered queue, in which each node is more urgent than those before:
/// the owner takes all out and puts it back, while a thief takes one.
fn sorted(count: u64, greed: Greed) {
    theft(count, greed, || {
        Queue::<Loom>::ordered(<Loom as Machine>::RING_CAPACITY, rising)
    });
}

fn sorted_two() {
    sorted(2, Greed::One);
}

fn sorted_over_a_backlog() {
    sorted(4, Greed::Half);
}

#[test]
fn q3_what_the_owner_sorts_is_lost_to_nobody() {
    check(sorted_two);
}

#[test]
fn q3_a_full_ring_is_sorted_beside_a_thief() {
    check_large(sorted_over_a_backlog);
}

#[test]
fn mutant_sort_blind() {
    mutant!(QueueSortBlind, sorted_two);
}
