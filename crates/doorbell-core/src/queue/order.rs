//! Tasks by rank: what the owner of an ordered queue knows of it, and how it keeps it sorted.
//!
//! The words that thieves read are those of every queue, and what they find in them is sorted: the
//! highest rank first, equal ones as they came. All else is the owner's alone.

use super::chain::Backlog;
use super::levels::{Levels, RANKS, RankSet, place_of};
use super::ring::{Ring, Share};
use crate::link::Node;
use doorbell_machine::{Cell, Machine, Mark};
use std::ptr::NonNull;

/// The rank of a node.
///
/// # Safety
/// The node is alive, and of the kind that this is for.
pub(crate) type RankOf<M> = unsafe fn(NonNull<Node<M>>) -> u8;

/// What the owner of an ordered queue knows: the ranks in its ring, where they end in its backlog,
/// and the pinned tasks, which nobody else may take.
pub(crate) struct Order<M: Machine> {
    rank_of: RankOf<M>,
    own: M::Cell<Own<M>>,
}

struct Own<M: Machine> {
    /// By position in the ring.
    stamps: Box<[Stamp]>,
    levels: Levels<M>,
    pinned: Pinned<M>,
}

/// What is known of a node in the ring.
#[derive(Clone, Copy, Debug, Default)]
struct Stamp {
    place: usize,
    /// How many pinned tasks of its rank had been pushed before it.
    behind: u64,
}

/// Pinned tasks that wait, a list for each rank.
struct Pinned<M: Machine> {
    there: RankSet,
    lists: Box<[List<M>]>,
}

struct List<M: Machine> {
    first: *mut Node<M>,
    last: *mut Node<M>,
    pushed: u64,
    popped: u64,
}

// SAFETY: all but the function is touched by the owner of the queue alone, which every function
// here asks for.
unsafe impl<M: Machine> Sync for Order<M> {}
// SAFETY: as for Sync; who owns the queue next is told by what hands it over.
unsafe impl<M: Machine> Send for Order<M> {}

impl<M: Machine> std::fmt::Debug for Order<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Order").finish_non_exhaustive()
    }
}

/// What a refill found.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refilled {
    Some,
    Nothing,
}

/// The ranks of tasks that wait at a worker, as its owner sees them: others may have taken some. 0 if there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ahead {
    /// Of the task that the owner runs next.
    pub(crate) next: u8,
    /// The highest of the tasks that others may take.
    pub(crate) movable: u8,
    /// The highest of those, or a higher rank, once the owner runs its next task.
    pub(crate) behind: u8,
}

impl<M: Machine> Order<M> {
    pub(super) fn new(capacity: usize, rank_of: RankOf<M>) -> Self {
        let list = || List {
            first: std::ptr::null_mut(),
            last: std::ptr::null_mut(),
            pushed: 0,
            popped: 0,
        };
        Order {
            rank_of,
            own: M::Cell::new(Own {
                stamps: vec![Stamp::default(); capacity].into_boxed_slice(),
                levels: Levels::default(),
                pinned: Pinned {
                    there: RankSet::default(),
                    lists: (0..RANKS).map(|_| list()).collect(),
                },
            }),
        }
    }

    /// # Safety
    /// Only the owner; `f` calls nothing of this again.
    unsafe fn with<R>(&self, f: impl FnOnce(&mut Own<M>) -> R) -> R {
        // SAFETY: the caller is the only thread that touches it, and has no other reference.
        self.own.with_mut(|own| f(unsafe { &mut *own }))
    }

    /// Puts a node behind all that are not below its rank. Returns and ends as
    /// [`Queue::push`](super::Queue::push).
    ///
    /// # Safety
    /// As for that function; ring and backlog are those of its queue.
    pub(super) unsafe fn push(
        &self,
        ring: &Ring<M>,
        backlog: &Backlog<M>,
        node: NonNull<Node<M>>,
        share: Share,
    ) -> u64 {
        // SAFETY: alive, and of the kind that the queue is for.
        let place = place_of(unsafe { (self.rank_of)(node) });
        let push = |own: &mut Own<M>| {
            let (head, tail) = ring.ends();
            let fits = backlog.is_empty() || own.levels.highest() < Some(place);
            if fits && head != tail && own.stamp(tail - 1).place < place {
                // SAFETY: passed on.
                return unsafe { own.insert(ring, backlog, node, place, share) };
            }
            if fits {
                // SAFETY: passed on.
                let pushed = unsafe { ring.push_within(node, share, own.capacity()) };
                if let Ok(len) = pushed {
                    own.set_stamp(tail, own.stamp_of(place));
                    return len;
                }
            }
            M::mark(Mark::QueueBacklog);
            let chain = backlog.take();
            // SAFETY: passed on; the table is that of what the owner has put there last.
            backlog.put(&unsafe { own.levels.insert(chain, node, place) });
            own.capacity()
        };
        // SAFETY: passed on.
        unsafe { self.with(push) }
    }

    /// Moves some of the backlog to the empty ring.
    ///
    /// # Safety
    /// Only the owner; ring and backlog are those of its queue.
    pub(super) unsafe fn refill(&self, ring: &Ring<M>, backlog: &Backlog<M>) -> Refilled {
        let refill = |own: &mut Own<M>| {
            let Some(chain) = backlog.take() else {
                return Refilled::Nothing;
            };
            M::mark(Mark::QueueRefill);
            let (_, mut tail) = ring.ends();
            let mut rest = Some(chain);
            for _ in 0..own.capacity().div_ceil(super::REFILL_PART) {
                let Some(chain) = rest.take() else { break };
                let (node, place, others) = own.levels.pop(chain);
                rest = others;
                // SAFETY: passed on; the ring was empty and this is at most half of it.
                let pushed = unsafe { ring.push_within(node, Share::Surplus, own.capacity()) };
                debug_assert!(pushed.is_ok());
                own.set_stamp(tail, own.stamp_of(place));
                tail += 1;
            }
            backlog.put_back(rest);
            Refilled::Some
        };
        // SAFETY: passed on.
        unsafe { self.with(refill) }
    }

    /// Whether a pinned task comes before the node at that position of the ring.
    ///
    /// # Safety
    /// Only the owner.
    pub(super) unsafe fn pinned_is_first(&self, at: u64) -> bool {
        let look = |own: &mut Own<M>| {
            let Some(place) = own.pinned.there.highest() else {
                return false;
            };
            let stamp = own.stamp(at);
            place > stamp.place
                || (place == stamp.place && own.pinned.lists[place].popped < stamp.behind)
        };
        // SAFETY: passed on.
        unsafe { self.with(look) }
    }

    /// Which ranks wait. Takes nothing out.
    ///
    /// # Safety
    /// Only the owner; ring and backlog are those of its queue.
    pub(super) unsafe fn ahead(&self, ring: &Ring<M>, backlog: &Backlog<M>) -> Ahead {
        let look = |own: &mut Own<M>| {
            let (head, tail) = ring.ends();
            let rest = (!backlog.is_empty())
                .then(|| own.levels.highest())
                .flatten();
            let at = |at: u64| {
                let stamp = (at < tail).then(|| own.stamp(at).place);
                stamp.or(rest).map_or(0, rank_at)
            };
            let (movable, second) = (at(head), at(head + 1));
            let pinned = own.pinned.there.highest().map_or(0, rank_at);
            // Of equal ranks either may come first: then this is the higher answer.
            let behind = if pinned >= movable { movable } else { second };
            Ahead {
                next: movable.max(pinned),
                movable,
                behind,
            }
        };
        // SAFETY: passed on.
        unsafe { self.with(look) }
    }

    /// Appends a pinned task to those of its rank.
    ///
    /// # Safety
    /// Only the owner; the node is marked as queued, alive and in place until it is popped.
    pub(crate) unsafe fn push_pinned(&self, node: NonNull<Node<M>>) {
        // SAFETY: alive, and of the kind that the queue is for.
        let place = place_of(unsafe { (self.rank_of)(node) });
        let push = |own: &mut Own<M>| {
            own.pinned.there.add(place);
            let list = &mut own.pinned.lists[place];
            // SAFETY: nodes in a list are alive until they are popped.
            match unsafe { list.last.as_ref() } {
                None => list.first = node.as_ptr(),
                Some(last) => last.set_next(node.as_ptr()),
            }
            list.last = node.as_ptr();
            list.pushed += 1;
        };
        // SAFETY: passed on.
        unsafe { self.with(push) };
    }

    /// Takes the first of the pinned tasks out; it is still marked as queued.
    ///
    /// # Safety
    /// Only the owner.
    pub(crate) unsafe fn pop_pinned(&self) -> Option<NonNull<Node<M>>> {
        let pop = |own: &mut Own<M>| {
            let place = own.pinned.there.highest()?;
            let list = &mut own.pinned.lists[place];
            let node = NonNull::new(list.first)?;
            // SAFETY: nodes in a list are alive until they are popped.
            list.first = unsafe { node.as_ref() }.next();
            list.popped += 1;
            if list.first.is_null() {
                list.last = std::ptr::null_mut();
                own.pinned.there.remove(place);
            }
            Some(node)
        };
        // SAFETY: passed on.
        unsafe { self.with(pop) }
    }
}

/// The rank at that place of a table; 0 counts as 1.
fn rank_at(place: usize) -> u8 {
    (place as u8).max(1)
}

impl<M: Machine> Own<M> {
    fn capacity(&self) -> u64 {
        self.stamps.len() as u64
    }

    fn stamp(&self, at: u64) -> Stamp {
        self.stamps[(at & (self.capacity() - 1)) as usize]
    }

    fn set_stamp(&mut self, at: u64, stamp: Stamp) {
        let index = (at & (self.capacity() - 1)) as usize;
        self.stamps[index] = stamp;
    }

    /// That of a node which comes now.
    fn stamp_of(&self, place: usize) -> Stamp {
        let behind = self.pinned.lists[place].pushed;
        Stamp { place, behind }
    }

    /// Takes all out of the ring and puts it back with the node at its place. What does not fit any
    /// more goes to the front of the backlog: nothing there is above it.
    ///
    /// # Safety
    /// As for [`Order::push`].
    unsafe fn insert(
        &mut self,
        ring: &Ring<M>,
        backlog: &Backlog<M>,
        node: NonNull<Node<M>>,
        place: usize,
        share: Share,
    ) -> u64 {
        M::mark(Mark::QueueSorted);
        // SAFETY: passed on.
        let (from, to) = unsafe { ring.take_all() };
        let count = to - from;
        let mut hand = (node.as_ptr(), self.stamp_of(place));
        let mut is_placed = false;
        for i in 0..count {
            // Read before it may be overwritten: a new position is at or behind the old one's slot.
            let old = (ring.read(from + i), self.stamp(from + i));
            is_placed = is_placed || old.1.place < place;
            let next = if is_placed {
                std::mem::replace(&mut hand, old)
            } else {
                old
            };
            ring.write(to + i, next.0);
            self.set_stamp(to + i, next.1);
        }
        if count < self.capacity() {
            ring.write(to + count, hand.0);
            self.set_stamp(to + count, hand.1);
            // SAFETY: passed on; these slots were written above.
            unsafe { ring.publish(to, count + 1, count + 1, share) };
            return count + 1;
        }
        // SAFETY: as above.
        unsafe { ring.publish(to, count, count, share) };
        M::mark(Mark::QueueBacklog);
        let last = NonNull::new(hand.0).expect("a node that was pushed");
        let chain = backlog.take();
        // SAFETY: taken out above; the table is that of what the owner has put there last.
        let chain = unsafe { self.levels.insert_first(chain, last, hand.1.place) };
        backlog.put(&chain);
        count
    }
}
