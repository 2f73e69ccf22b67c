//! Thieves that are robbed, in every interleaving: what a thief has put into its own queue is taken
//! from there by another one.

// What a model counts with std's atomics is not part of it and orders nothing in it.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use super::tests::{Taken, Thing};
use super::{Greed, Queue, Share};
use crate::testing::model::{check, check_large, join_all};
use ::loom::thread;
use doorbell_machine::Loom;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// How large the rings are: a thief takes two of four, and puts one of them into its own ring.
const CAPACITY: usize = 4;

type Shared = Arc<Queue<Loom>>;

fn queue() -> Shared {
    Arc::new(Queue::new(CAPACITY))
}

/// The caller is the owner.
fn push(queue: &Queue<Loom>, entries: std::ops::Range<u64>) {
    for entry in entries {
        // SAFETY: the caller is the owner; a thing lives until it is taken.
        unsafe { queue.push(Thing::boxed(entry), Share::Surplus) };
    }
}

/// Takes for `own`, whose owner the caller is. How many, where known.
fn rob(victim: &Queue<Loom>, own: &Queue<Loom>, greed: Greed, taken: &Taken) -> u64 {
    // SAFETY: `own` is the caller's, and `victim` is not.
    let loot = unsafe { victim.steal_into(own, greed) };
    loot.map_or(0, |loot| {
        taken.take(loot.first);
        loot.count
    })
}

/// A thief robs the first queue, the one who robs the thief the thief's, and the owner of the first one
/// pops meanwhile. `before` fills the first queue. How many the second thief got is added up in `got`.
fn chain_of_thieves(
    before: impl FnOnce(&Queue<Loom>, &Taken),
    count: u64,
    owner_pops: u64,
    got: &'static AtomicUsize,
) {
    let (first, second) = (queue(), queue());
    let taken = Taken::default();
    before(&first, &taken);
    let thief = {
        let (victim, own, taken) = (Arc::clone(&first), Arc::clone(&second), taken.clone());
        thread::spawn(move || {
            rob(&victim, &own, Greed::Half, &taken);
            taken.drain(&own);
        })
    };
    let robber = {
        let (victim, taken) = (Arc::clone(&second), taken.clone());
        thread::spawn(move || {
            let own = Queue::new(CAPACITY);
            let count = rob(&victim, &own, Greed::One, &taken);
            got.fetch_add(count as usize, Relaxed);
            taken.drain(&own);
        })
    };
    for _ in 0..owner_pops {
        // SAFETY: this thread is the owner.
        if let Some(node) = unsafe { first.pop() } {
            taken.take(node);
        }
    }
    join_all([thief, robber]);
    taken.drain(&first);
    taken.assert_all::<Loom>(count);
}

/// How many nodes were taken from thieves, in all executions of a model.
static OF_A_RING: AtomicUsize = AtomicUsize::new(0);
static OF_A_BACKLOG: AtomicUsize = AtomicUsize::new(0);

/// Of a full ring.
fn ring() {
    chain_of_thieves(|first, _| push(first, 0..4), 4, 1, &OF_A_RING);
}

/// Of a backlog behind an empty ring, which the thief takes as a whole.
fn backlog() {
    let before = |first: &Queue<Loom>, taken: &Taken| {
        push(first, 0..7);
        for _ in 0..4 {
            // SAFETY: this thread is the owner.
            taken.take(unsafe { first.pop() }.expect("seven were pushed"));
        }
    };
    chain_of_thieves(before, 7, 1, &OF_A_BACKLOG);
}

#[test]
fn q1_a_thief_is_robbed_of_what_it_took() {
    check(ring);
    assert!(OF_A_RING.load(Relaxed) > 0, "no thief was robbed");
}

#[test]
fn q1_a_thief_is_robbed_of_a_backlog() {
    check_large(backlog);
    assert!(OF_A_BACKLOG.load(Relaxed) > 0, "no thief was robbed");
}

/// A thief that has as many as its own ring holds robs another one, and is robbed meanwhile.
fn full_thief() {
    let (first, second) = (queue(), queue());
    let taken = Taken::default();
    push(&first, 0..4);
    push(&second, 4..8);
    let robber = {
        let (victim, taken) = (Arc::clone(&second), taken.clone());
        thread::spawn(move || {
            let own = Queue::new(CAPACITY);
            rob(&victim, &own, Greed::Half, &taken);
            taken.drain(&own);
        })
    };
    rob(&first, &second, Greed::Half, &taken);
    taken.drain(&second);
    robber.join().unwrap();
    taken.drain(&first);
    taken.assert_all::<Loom>(8);
}

#[test]
fn q1_a_thief_with_nodes_of_its_own_loses_none() {
    check(full_thief);
}
