//! The run queue on this computer, beside an oracle.

// Tests of a protocol compare it with locks that the checkers do not see.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

mod order;

use super::{Greed, Queue, Share};
use crate::link::{Delivered, Node};
use doorbell_machine::{Cell, Host, Machine};
use proptest::prelude::*;
use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

/// Something to queue, whose content a checker spins.
#[repr(C)]
pub(super) struct Thing<M: Machine> {
    node: Node<M>,
    content: M::Cell<u64>,
}

unsafe fn nothing<M: Machine>(_: NonNull<Node<M>>) -> Delivered {
    Delivered::Done
}

impl<M: Machine> Thing<M> {
    pub(super) fn boxed(entry: u64) -> NonNull<Node<M>> {
        let thing = Box::new(Thing::<M> {
            node: Node::new(nothing),
            content: M::Cell::new(0),
        });
        // SAFETY: nobody else has it yet.
        thing
            .content
            .with_mut(|content| unsafe { *content = entry });
        NonNull::from(Box::leak(thing)).cast()
    }

    pub(super) fn unboxed(node: NonNull<Node<M>>) -> u64 {
        // SAFETY: `boxed` leaked it, and it was taken out of its queue.
        let thing = unsafe { Box::from_raw(node.cast::<Thing<M>>().as_ptr()) };
        assert!(
            thing.node.enter_owned(),
            "a node that was taken is in no queue"
        );
        // SAFETY: the thing is this thread's now.
        thing.content.with(|content| unsafe { *content })
    }
}

/// # Safety
/// The node is that of a thing which is the caller's.
pub(super) unsafe fn content<M: Machine>(node: NonNull<Node<M>>) -> u64 {
    // SAFETY: passed on.
    let thing = unsafe { node.cast::<Thing<M>>().as_ref() };
    // SAFETY: as above.
    thing.content.with(|content| unsafe { *content })
}

/// What was taken: freed only at the end, so that a node that is taken twice is still there. A
/// lock that no checker sees: it orders nothing in a model.
#[derive(Clone, Default)]
pub(super) struct Taken(Arc<Mutex<Vec<(usize, u64)>>>);

impl Taken {
    pub(super) fn take<M: Machine>(&self, node: NonNull<Node<M>>) {
        let mut taken = self.0.lock().unwrap();
        let address = node.as_ptr().expose_provenance();
        let twice = taken.iter().any(|(it, _)| *it == address);
        assert!(!twice, "a node was taken twice");
        // SAFETY: the thing is the taker's, and not freed before all are taken.
        let entry = unsafe { content(node) };
        taken.push((address, entry));
    }

    /// Takes what its owner finds in the queue.
    pub(super) fn drain<M: Machine>(&self, queue: &Queue<M>) {
        // SAFETY: only owners call this.
        while let Some(node) = unsafe { queue.pop() } {
            self.take(node);
        }
    }

    /// All threads have ended: just these were taken.
    #[track_caller]
    pub(super) fn assert_all<M: Machine>(&self, count: u64) {
        let taken = std::mem::take(&mut *self.0.lock().unwrap());
        let mut entries: Vec<u64> = taken.iter().map(|(_, entry)| *entry).collect();
        entries.sort_unstable();
        let expected: Vec<u64> = (0..count).collect();
        assert_eq!(entries, expected, "a node was lost");
        for (address, _) in taken {
            let node = std::ptr::with_exposed_provenance_mut::<Node<M>>(address);
            Thing::unboxed(NonNull::new(node).unwrap());
        }
    }
}

fn pop(queue: &Queue<Host>) -> Option<u64> {
    // SAFETY: the test's thread is the owner.
    unsafe { queue.pop() }.map(Thing::unboxed)
}

fn push(queue: &Queue<Host>, entry: u64) -> u64 {
    // SAFETY: the test's thread is the owner; a thing lives until it is taken.
    unsafe { queue.push(Thing::boxed(entry), Share::Surplus) }
}

#[test]
fn miri_a_queue_is_first_in_first_out_beyond_its_ring() {
    let queue = Queue::new(4);
    for round in 0..3 {
        for entry in 0..19 {
            push(&queue, entry);
        }
        assert!(!queue.is_empty());
        let popped: Vec<u64> = std::iter::from_fn(|| pop(&queue)).collect();
        assert_eq!(popped, (0..19).collect::<Vec<_>>(), "round {round}");
        assert!(queue.is_empty());
    }
}

#[test]
fn a_push_says_when_there_is_work_for_others() {
    let queue = Queue::new(2);
    let lens: Vec<u64> = (0..4).map(|entry| push(&queue, entry)).collect();
    assert_eq!(lens, [1, 2, 2, 2]);
    assert!(!super::is_shareable(1) && super::is_shareable(2));
    while pop(&queue).is_some() {}
}

#[test]
fn a_node_queued_twice_is_caught() {
    let queue = Queue::<Host>::new(2);
    let node = Thing::boxed(7);
    // SAFETY: the test's thread is the owner, and the thing lives until it is taken.
    unsafe { queue.push(node, Share::Surplus) };
    let again = std::panic::AssertUnwindSafe(|| {
        // SAFETY: this must be refused.
        unsafe { queue.push(node, Share::Surplus) };
    });
    let payload = std::panic::catch_unwind(again).unwrap_err();
    assert_eq!(payload.downcast_ref(), Some(&"a task was queued twice"));
    assert_eq!((pop(&queue), pop(&queue)), (Some(7), None));
}

/// What a thief got, in order, and what was left to the owner.
fn steal(count: u64, greed: Greed) -> (Vec<u64>, Vec<u64>) {
    let (queue, own) = (Queue::new(4), Queue::new(4));
    for entry in 0..count {
        push(&queue, entry);
    }
    // SAFETY: both are this thread's.
    let loot = unsafe { queue.steal_into(&own, greed) };
    let first = loot.map(|loot| Thing::unboxed(loot.first));
    let stolen = first.into_iter().chain(std::iter::from_fn(|| pop(&own)));
    let stolen = stolen.collect();
    (stolen, std::iter::from_fn(|| pop(&queue)).collect())
}

#[test]
fn miri_a_thief_takes_the_oldest_half_and_leaves_the_last() {
    let list = |range: std::ops::Range<u64>| range.collect::<Vec<_>>();
    for (count, stolen) in [(0, 0), (1, 0), (2, 1), (3, 1), (4, 2)] {
        let expected = (list(0..stolen), list(stolen..count));
        assert_eq!(steal(count, Greed::Half), expected, "{count}");
    }
    for (count, stolen) in [(0, 0), (1, 1), (2, 1), (3, 2)] {
        let expected = (list(0..stolen), list(stolen..count));
        assert_eq!(steal(count, Greed::One), expected, "{count}");
    }
}

#[test]
fn miri_a_thief_that_finds_the_ring_empty_takes_the_backlog() {
    let (queue, own) = (Queue::new(2), Queue::new(2));
    for entry in 0..7 {
        push(&queue, entry);
    }
    // The owner is inside a poll, and other thieves have emptied the ring.
    let mut seen = Vec::new();
    // SAFETY: both are this thread's.
    while let Some(loot) = unsafe { queue.steal_into(&own, Greed::One) } {
        seen.push(Thing::unboxed(loot.first));
        seen.extend(std::iter::from_fn(|| pop(&own)));
    }
    assert_eq!(seen, (0..7).collect::<Vec<_>>());
}

#[test]
fn miri_a_thief_with_nodes_of_its_own_takes_one_at_most() {
    for own_count in 1..6 {
        let (queue, own) = (Queue::new(4), Queue::new(4));
        (0..7).for_each(|entry| {
            push(&queue, entry);
        });
        (100..100 + own_count).for_each(|entry| {
            push(&own, entry);
        });
        for greed in [Greed::Half, Greed::One] {
            // SAFETY: both are this thread's.
            let loot = unsafe { queue.steal_into(&own, greed) };
            assert!(loot.is_none(), "{greed:?} of {own_count}");
        }
        // SAFETY: as above.
        let loot = unsafe { queue.steal_into(&own, Greed::Single) }.unwrap();
        assert_eq!((Thing::unboxed(loot.first), loot.count), (0, 1));
        let left: Vec<u64> = std::iter::from_fn(|| pop(&queue)).collect();
        assert_eq!(left, (1..7).collect::<Vec<_>>());
        let kept: Vec<u64> = std::iter::from_fn(|| pop(&own)).collect();
        assert_eq!(kept, (100..100 + own_count).collect::<Vec<_>>());
    }
}

#[test]
fn miri_a_theft_fits_behind_what_is_in_the_ring() {
    for own_count in 0..=4 {
        let (queue, own) = (Queue::new(4), Queue::new(4));
        (0..4).for_each(|entry| {
            push(&queue, entry);
        });
        (100..100 + own_count).for_each(|entry| {
            push(&own, entry);
        });
        // SAFETY: both are this thread's.
        let stolen = unsafe { queue.ring.steal_into(&own.ring, |found| found) }.unwrap();
        assert_eq!(stolen.count, (5 - own_count).min(4), "one needs no slot");
        // SAFETY: taken out, so it is this thread's.
        unsafe { stolen.first.as_ref() }.leave();
        assert_eq!(Thing::unboxed(stolen.first), 0);
        let kept: Vec<u64> = std::iter::from_fn(|| pop(&own)).collect();
        let expected = (100..100 + own_count).chain(1..stolen.count);
        assert_eq!(kept, expected.collect::<Vec<_>>());
        let left: Vec<u64> = std::iter::from_fn(|| pop(&queue)).collect();
        assert_eq!(left, (stolen.count..4).collect::<Vec<_>>());
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Push,
    Pop,
    Steal(bool),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => Just(Step::Push),
        2 => Just(Step::Pop),
        1 => any::<bool>().prop_map(Step::Steal),
    ];
    proptest::collection::vec(step, 0..200)
}

proptest! {
    /// The owner's queue against a `VecDeque`: whatever is stolen is the oldest there is.
    #[test]
    fn the_same_steps_have_the_same_outcome_as_in_a_deque(steps in steps()) {
        let (queue, own) = (Queue::<Host>::new(4), Queue::<Host>::new(4));
        let mut oracle = VecDeque::new();
        let mut entry = 0;
        for step in steps {
            match step {
                Step::Push => {
                    push(&queue, entry);
                    oracle.push_back(entry);
                    entry += 1;
                }
                Step::Pop => prop_assert_eq!(pop(&queue), oracle.pop_front()),
                Step::Steal(one) => {
                    let greed = if one { Greed::One } else { Greed::Half };
                    // SAFETY: both are this thread's.
                    let loot = unsafe { queue.steal_into(&own, greed) };
                    if let Some(loot) = loot {
                        prop_assert_eq!(Some(Thing::unboxed(loot.first)), oracle.pop_front());
                        while let Some(stolen) = pop(&own) {
                            prop_assert_eq!(Some(stolen), oracle.pop_front());
                        }
                    }
                }
            }
        }
        while let Some(left) = pop(&queue) {
            prop_assert_eq!(Some(left), oracle.pop_front());
        }
        prop_assert!(oracle.is_empty());
    }
}

#[test]
fn q2_an_owner_and_three_thieves_take_each_node_once() {
    const COUNT: u64 = 200_000;
    let queue = Arc::new(Queue::<Host>::new(8));
    let seen: Arc<Vec<AtomicU64>> = Arc::new((0..COUNT).map(|_| AtomicU64::new(0)).collect());
    let over = Arc::new(AtomicBool::new(false));
    let note = |seen: &[AtomicU64], entry: u64| {
        seen[entry as usize].fetch_add(1, SeqCst);
    };
    let thieves = [Greed::Half, Greed::One, Greed::Half].map(|greed| {
        let (queue, seen, over) = (Arc::clone(&queue), Arc::clone(&seen), Arc::clone(&over));
        std::thread::spawn(move || {
            let own = Queue::<Host>::new(8);
            while !over.load(SeqCst) {
                // SAFETY: `own` is this thread's, the other is not.
                if let Some(loot) = unsafe { queue.steal_into(&own, greed) } {
                    note(&seen, Thing::unboxed(loot.first));
                }
                while let Some(entry) = pop(&own) {
                    note(&seen, entry);
                }
            }
        })
    });
    for entry in 0..COUNT {
        push(&queue, entry);
        if entry % 3 == 0
            && let Some(entry) = pop(&queue)
        {
            note(&seen, entry);
        }
    }
    while let Some(entry) = pop(&queue) {
        note(&seen, entry);
    }
    over.store(true, SeqCst);
    for thief in thieves {
        thief.join().unwrap();
    }
    assert!(seen.iter().all(|count| count.load(SeqCst) == 1));
}
