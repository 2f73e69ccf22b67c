//! The ring: a bounded queue that its worker fills and empties, and that other workers take from.
//!
//! `tail` is written by the owner alone; `head` moves by compare-exchange, whoever takes. Both
//! are 64 bits wide and never wrap in practice, so a position is never reused: a slot that was
//! read before a successful exchange of `head` held what was read (no ABA).

use crate::link::Node;
use doorbell_machine::{Bug, Line, Machine, Mark, Ordering, PtrWord, Word};
use std::ptr::NonNull;

/// From so many nodes on there is work for one more worker.
pub(super) const SHARED_LEN: u64 = 2;

/// Whether a pusher looks for idle workers after its push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// Only if there is more than its own worker can run next.
    Surplus,
    /// In any case: the push ends in a read-modify-write.
    Always,
}

/// A bounded queue of nodes, first in, first out.
pub(super) struct Ring<M: Machine> {
    head: M::Line<M::U64>,
    tail: M::Line<M::U64>,
    slots: Box<[M::Ptr<Node<M>>]>,
    /// For how many nodes [`Ring::push`] has room: none if pushes have to ask for their place first.
    room: u64,
}

// SAFETY: the pointers in the slots are handed from owner to taker by `head` and `tail`.
unsafe impl<M: Machine> Sync for Ring<M> {}
// SAFETY: as for Sync; nothing in it belongs to a thread.
unsafe impl<M: Machine> Send for Ring<M> {}

/// A push to a full ring: the node is the caller's again.
#[derive(Debug)]
pub(super) struct Full;

impl<M: Machine> Ring<M> {
    /// An empty ring with slots for `capacity` nodes, a power of two. If it is `ordered`,
    /// [`Ring::push`] always finds it full: so pushes to others need not ask what it is.
    pub(super) fn new(capacity: usize, ordered: bool) -> Self {
        assert!(
            capacity.is_power_of_two(),
            "a ring's capacity is a power of two"
        );
        Ring {
            head: M::Line::new(|| M::U64::new(0)),
            tail: M::Line::new(|| M::U64::new(0)),
            slots: (0..capacity)
                .map(|_| M::Ptr::new(std::ptr::null_mut()))
                .collect(),
            room: if ordered { 0 } else { capacity as u64 },
        }
    }

    #[inline(always)]
    fn capacity(&self) -> u64 {
        self.slots.len() as u64
    }

    #[inline(always)]
    fn slot(&self, at: u64) -> &M::Ptr<Node<M>> {
        let index = (at & (self.capacity() - 1)) as usize;
        // SAFETY: the capacity is a power of two, so the masked index is below it.
        unsafe { self.slots.get_unchecked(index) }
    }

    /// How many nodes are in it, about: exact for the owner where nobody steals.
    #[inline]
    pub(super) fn len(&self) -> u64 {
        // ORDER: Relaxed; a hint. Where it must not be stale a fence stands before it.
        let head = self.head.load(Ordering::Relaxed);
        // ORDER: Relaxed; as above.
        let tail = self.tail.load(Ordering::Relaxed);
        // Read one after the other, the two may not fit: never below zero.
        tail.saturating_sub(head)
    }

    /// Appends a node. Returns how many there are then, about.
    ///
    /// # Safety
    /// Only the owner; the node stays alive and in place until it is taken out.
    #[inline(always)]
    pub(super) unsafe fn push(&self, node: NonNull<Node<M>>, share: Share) -> Result<u64, Full> {
        // SAFETY: passed on.
        unsafe { self.push_within(node, share, self.room) }
    }

    /// As [`Ring::push`], if there are less than `room` in it, which is at most its capacity.
    ///
    /// # Safety
    /// As for [`Ring::push`].
    #[inline(always)]
    pub(super) unsafe fn push_within(
        &self,
        node: NonNull<Node<M>>,
        share: Share,
        room: u64,
    ) -> Result<u64, Full> {
        // ORDER: Relaxed; only the owner writes it.
        let tail = self.tail.load(Ordering::Relaxed);
        // ORDER: Acquire pairs with the Release of a thief's `claim`: it has read the slot
        // that is overwritten now; unshown because in a model no store overtakes a load.
        let head = self.head.load(Ordering::Acquire);
        if tail - head >= room {
            return Err(Full);
        }
        self.write(tail, node.as_ptr());
        let len = tail + 1 - head;
        // SAFETY: passed on; the slot was written above.
        unsafe { self.publish(tail, 1, len, share) };
        Ok(len)
    }

    /// Makes the nodes in the slots from `tail` on part of the ring, which has `len` then.
    ///
    /// # Safety
    /// Only the owner, whose tail that is; so many slots were written, and there was room.
    #[inline(always)]
    pub(super) unsafe fn publish(&self, tail: u64, count: u64, len: u64, share: Share) {
        let order = if M::breaks(Bug::QueuePushRelaxed) {
            Ordering::Relaxed
        } else {
            Ordering::Release
        };
        if len < SHARED_LEN && share == Share::Surplus {
            // ORDER: Release pairs with the Acquire of a thief's load of the tail: it sees slot
            // and node.
            self.tail.store(tail + count, order);
        } else {
            // ORDER: as above, and a read-modify-write, after which the pusher's fence_recheck
            // stands: there is something for others now.
            self.tail.swap(tail + count, order);
        }
    }

    /// A read-modify-write that changes nothing.
    #[inline]
    pub(super) fn touch(&self) {
        // For the fence_recheck after it: with the announcement of a worker that falls asleep and its
        // fence_announce this is store buffering.
        // ORDER: AcqRel, since a compiler may make a load of a weaker one that changes nothing; redundant because
        // the fence orders all else.
        self.tail.fetch_or(0, Ordering::AcqRel);
    }

    /// What lies in the slot of a position. Only the owner, of one that was published and not
    /// overwritten since.
    #[inline(always)]
    pub(super) fn read(&self, at: u64) -> *mut Node<M> {
        // ORDER: Relaxed; the owner wrote it itself.
        self.slot(at).load(Ordering::Relaxed)
    }

    /// Writes the slot of a position that is not published yet. Only the owner.
    #[inline(always)]
    pub(super) fn write(&self, at: u64, node: *mut Node<M>) {
        // ORDER: Relaxed; published by the store of the tail.
        self.slot(at).store(node, Ordering::Relaxed);
    }

    /// From which position to which there are nodes, as its owner sees it: there may be less.
    #[inline]
    pub(super) fn ends(&self) -> (u64, u64) {
        // ORDER: Relaxed; an exchange in `claim` decides.
        let head = self.head.load(Ordering::Relaxed);
        // ORDER: Relaxed; only the owner writes it.
        (head, self.tail.load(Ordering::Relaxed))
    }

    /// Takes all nodes out, which lie in the slots of the positions from the first to before the
    /// second; that is the owner's tail.
    ///
    /// # Safety
    /// Only the owner.
    pub(super) unsafe fn take_all(&self) -> (u64, u64) {
        let (mut head, tail) = self.ends();
        if M::breaks(Bug::QueueSortBlind) {
            // ORDER: the mutant; a thief may have taken some of them.
            self.head.store(tail, Ordering::Release);
            return (head, tail);
        }
        while head != tail {
            match self.claim(head, tail - head) {
                Ok(()) => break,
                Err(now) => {
                    M::mark(Mark::QueueMet);
                    head = now;
                }
            }
        }
        (head, tail)
    }

    /// Takes the node at that position out, if it is the oldest.
    ///
    /// # Safety
    /// Only the owner, and there is one.
    pub(super) unsafe fn pop_at(&self, head: u64) -> Option<NonNull<Node<M>>> {
        let node = self.read(head);
        if self.claim(head, 1).is_err() {
            M::mark(Mark::QueueMet);
            return None;
        }
        NonNull::new(node)
    }

    /// Takes the oldest node out.
    ///
    /// # Safety
    /// Only the owner.
    #[inline]
    pub(super) unsafe fn pop(&self) -> Option<NonNull<Node<M>>> {
        // ORDER: Relaxed; only the owner writes it.
        let tail = self.tail.load(Ordering::Relaxed);
        // ORDER: Relaxed; the exchange in `claim` decides.
        let mut head = self.head.load(Ordering::Relaxed);
        while head != tail {
            let node = self.read(head);
            match self.claim(head, 1) {
                Ok(()) => return NonNull::new(node),
                Err(now) => {
                    M::mark(Mark::QueueMet);
                    head = now;
                }
            }
        }
        None
    }

    /// Moves `head` past `count` nodes; they are the caller's then.
    #[inline(always)]
    fn claim(&self, head: u64, count: u64) -> Result<(), u64> {
        if M::breaks(Bug::QueueClaimBlind) {
            // ORDER: the mutant; two takers may take the same node.
            self.head.store(head + count, Ordering::Release);
            return Ok(());
        }
        // ORDER: Release pairs with the Acquire of the owner's pushes: the slots were read before they
        // are overwritten. Acquire on both ways is for the owner that sorts (`take_all`), which
        // overwrites slots that others have claimed without another look at the head; unshown because in a
        // model no store overtakes a load.
        self.head
            .compare_exchange(head, head + count, Ordering::AcqRel, Ordering::Acquire)
            .map(drop)
    }

    /// For how many nodes the owner finds room behind the tail.
    fn vacancy(&self) -> u64 {
        if M::breaks(Bug::SpinStealsFull) {
            return self.capacity();
        }
        // ORDER: Acquire pairs with the Release of a taker's `claim`: it has read the slots that the
        // caller may overwrite; unshown because in a model no store overtakes a load.
        let head = self.head.load(Ordering::Acquire);
        // ORDER: Relaxed; only the owner writes it.
        self.capacity() - (self.tail.load(Ordering::Relaxed) - head)
    }

    /// Takes some of the oldest nodes: `how_many` says how many of so many, but no more than `thief`
    /// has room for. The first of them is returned, the others go behind what is in `thief`. `None` if
    /// there is nothing to take.
    ///
    /// # Safety
    /// Only the owner of `thief`, which is another ring.
    pub(super) unsafe fn steal_into(
        &self,
        thief: &Ring<M>,
        how_many: impl Fn(u64) -> u64,
    ) -> Option<Stolen<M>> {
        loop {
            // What another taker has left is there still, and a thief that sleeps is told of none of it.
            // SAFETY: passed on.
            if let Ok(stolen) = unsafe { self.try_to_steal(thief, &how_many) } {
                return stolen;
            }
        }
    }

    /// As [`Ring::steal_into`], once.
    ///
    /// # Safety
    /// As for [`Ring::steal_into`].
    unsafe fn try_to_steal(
        &self,
        thief: &Ring<M>,
        how_many: impl Fn(u64) -> u64,
    ) -> Result<Option<Stolen<M>>, Met> {
        // ORDER: Relaxed; a first guess, the exchange in `claim` decides. With a tail that is older than it
        // there is nothing to take.
        let head = self.head.load(Ordering::Relaxed);
        // ORDER: Acquire pairs with the Release of the owner's push: slots and nodes.
        let tail = self.tail.load(Ordering::Acquire);
        let found = tail.saturating_sub(head);
        // More than fit: the head that was read is history.
        if found == 0 || found > self.capacity() {
            return Ok(None);
        }
        // The first one needs no slot.
        let count = how_many(found).min(found).min(thief.vacancy() + 1);
        if count == 0 {
            return Ok(None);
        }
        // ORDER: Relaxed; it is pushed to by the caller alone.
        let at = thief.tail.load(Ordering::Relaxed);
        // ORDER: Relaxed; valid if the claim below succeeds: nobody has overwritten it then.
        let first = self.slot(head).load(Ordering::Relaxed);
        for i in 1..count {
            // ORDER: Relaxed; as above.
            let node = self.slot(head + i).load(Ordering::Relaxed);
            thief.write(at + i - 1, node);
        }
        if self.claim(head, count).is_err() {
            M::mark(Mark::QueueMet);
            return Err(Met);
        }
        if count == found {
            M::mark(Mark::QueueLastStolen);
        }
        if count > 1 {
            // ORDER: Release as in `push`: the next thief sees slots and nodes, which this one
            // has acquired.
            thief.tail.store(at + count - 1, Ordering::Release);
        }
        Ok(NonNull::new(first).map(|first| Stolen { first, count }))
    }
}

/// Another taker came first.
#[derive(Debug)]
struct Met;

/// What a theft brought.
#[derive(Debug)]
pub(super) struct Stolen<M: Machine> {
    /// The oldest, to be run first.
    pub(super) first: NonNull<Node<M>>,
    /// How many with it.
    pub(super) count: u64,
}
