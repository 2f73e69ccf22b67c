//! A worker's run queue, and how other workers take from it. See README.md in this folder.
//!
//! | file | holds |
//! |---|---|
//! | `ring.rs` | the bounded part, without which nothing is fast |
//! | `chain.rs` | the backlog: whatever does not fit into the ring |
//! | `order.rs` | tasks by rank, for schedulers that ask for it |
//! | `levels.rs` | where each rank ends in the backlog |
//! | `ready.rs` | the queue of pinned tasks, which only the worker touches |
//! | `round.rs` | turns between pinned and movable tasks |

mod chain;
mod levels;
#[cfg(test)]
mod loom;
#[cfg(test)]
mod loom_thief;
mod order;
mod ready;
mod ring;
mod round;
#[cfg(test)]
mod tests;

pub(crate) use chain::Chain;
pub(crate) use order::{Ahead, Order, RankOf};

use crate::link::Node;
use chain::Backlog;
use doorbell_machine::{Bug, Line, Machine, Mark};
use order::Refilled;
pub use ready::Ready;
pub use ring::Share;
use ring::{Ring, SHARED_LEN};
pub(crate) use round::Round;
use std::ptr::NonNull;
use std::sync::Arc;

/// Whether a queue of that length has work for one more worker than its own.
#[inline(always)]
pub fn is_shareable(len: u64) -> bool {
    len >= SHARED_LEN
}

/// How much of a ring a refill from the backlog fills.
const REFILL_PART: u64 = 2;

/// The run queue of one worker: its owner pushes and pops, first in, first out or by rank; others
/// steal.
///
/// What the owner does, only the owner's thread may do: such functions are unsafe.
pub struct Queue<M: Machine> {
    ring: Ring<M>,
    backlog: M::Line<Backlog<M>>,
    capacity: u64,
    /// `None` if it is first in, first out.
    order: Option<Arc<Order<M>>>,
}

impl<M: Machine> std::fmt::Debug for Queue<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue")
            .field("ring", &self.ring.len())
            .field("backlog_empty", &self.backlog.is_empty())
            .finish_non_exhaustive()
    }
}

// SAFETY: nodes are handed from owner to taker by the words of this folder.
unsafe impl<M: Machine> Sync for Backlog<M> {}
// SAFETY: as for Sync.
unsafe impl<M: Machine> Send for Backlog<M> {}

/// What a thief may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Greed {
    /// Half, and never the last one: its worker is about to run it.
    Half,
    /// At least one: the worker has been inside one poll for long.
    One,
    /// Just one, of such a worker: the only theft by a worker that has tasks of its own.
    Single,
}

/// What a theft brought.
#[derive(Debug)]
pub struct Loot<M: Machine> {
    /// The oldest node; it is in no queue.
    pub first: NonNull<Node<M>>,
    /// How many nodes were taken, where known.
    pub count: u64,
}

impl<M: Machine> Queue<M> {
    /// An empty queue whose ring holds `capacity` nodes, a power of two; it grows beyond that.
    pub fn new(capacity: usize) -> Self {
        Self::with(capacity, None)
    }

    fn with(capacity: usize, order: Option<Arc<Order<M>>>) -> Self {
        Queue {
            ring: Ring::new(capacity, order.is_some()),
            backlog: M::Line::new(Backlog::default),
            capacity: capacity as u64,
            order,
        }
    }

    /// As [`Queue::new`], a queue in which the highest rank is first, and equal ones are as they
    /// came; a thief takes one at a time.
    pub(crate) fn ordered(capacity: usize, rank_of: RankOf<M>) -> Self {
        Self::with(capacity, Some(Arc::new(Order::new(capacity, rank_of))))
    }

    /// What its owner knows of its order, if it has one.
    pub(crate) fn order(&self) -> Option<&Arc<Order<M>>> {
        self.order.as_ref()
    }

    /// Appends a node. Returns how many there are then, about; what does not fit into the ring
    /// counts as many. If `share` says so, or if they are [shareable](is_shareable), the last
    /// thing that this does is a read-modify-write, after which a fence of the machine may stand.
    ///
    /// # Panics
    /// If the node is in a queue already: that would lose others.
    ///
    /// # Safety
    /// Only the owner; the node is that of a task that may run anywhere, and stays alive and
    /// in place until it is taken out.
    #[inline]
    pub unsafe fn push(&self, node: NonNull<Node<M>>, share: Share) -> u64 {
        // SAFETY: alive, says the caller.
        let entered = unsafe { node.as_ref() }.enter_owned();
        assert!(entered, "a task was queued twice");
        // SAFETY: passed on.
        unsafe { self.push_entered(node, share) }
    }

    /// As [`Queue::push`], for a node that is marked as queued already.
    ///
    /// # Safety
    /// As for [`Queue::push`].
    #[inline]
    unsafe fn push_entered(&self, node: NonNull<Node<M>>, share: Share) -> u64 {
        if self.backlog.is_empty() {
            // SAFETY: passed on.
            if let Ok(len) = unsafe { self.ring.push(node, share) } {
                return len;
            }
        }
        // SAFETY: passed on.
        unsafe { self.push_aside(node, share) }
    }

    /// Appends a node that the ring has no room for, or that has to find its place first.
    ///
    /// # Safety
    /// As for [`Queue::push`].
    unsafe fn push_aside(&self, node: NonNull<Node<M>>, share: Share) -> u64 {
        if let Some(order) = &self.order {
            // SAFETY: passed on.
            return unsafe { order.push(&self.ring, &self.backlog, node, share) };
        }
        M::mark(Mark::QueueBacklog);
        // SAFETY: passed on.
        unsafe { self.backlog.push(node) };
        self.capacity
    }

    /// Appends what was taken from an inject queue.
    ///
    /// # Safety
    /// As for [`Queue::push`], for all nodes of the chain, which are marked as queued.
    pub(crate) unsafe fn push_chain(&self, chain: Chain<M>) {
        let mut rest = Some(chain);
        while self.order.is_some() || self.backlog.is_empty() {
            let Some(chain) = rest.take() else { return };
            let (first, others) = chain.pop();
            // SAFETY: passed on.
            if unsafe { self.ring.push(first, Share::Surplus) }.is_err() {
                // SAFETY: as above.
                unsafe { self.push_aside(first, Share::Surplus) };
            }
            rest = others;
        }
        if let Some(chain) = rest {
            self.backlog.append(chain);
        }
    }

    /// Takes the oldest node out.
    ///
    /// # Safety
    /// Only the owner.
    #[inline]
    pub unsafe fn pop(&self) -> Option<NonNull<Node<M>>> {
        // SAFETY: passed on.
        unsafe { self.pop_then(|| ()) }
    }

    /// As [`Queue::pop`]. If that moved nodes from the backlog to the ring, `refilled` is called: a thief that
    /// looked meanwhile found neither.
    ///
    /// # Safety
    /// Only the owner.
    #[inline]
    pub(crate) unsafe fn pop_then(&self, refilled: impl FnOnce()) -> Option<NonNull<Node<M>>> {
        // SAFETY: passed on.
        let node = if let Some(node) = unsafe { self.ring.pop() } {
            node
        } else {
            // SAFETY: passed on.
            let node = unsafe { self.refill() }?;
            refilled();
            node
        };
        // SAFETY: taken out, so it is the caller's, and alive.
        unsafe { node.as_ref() }.leave();
        Some(node)
    }

    /// As [`Queue::pop_then`], unless a pinned task of an ordered queue comes first, or there is no other.
    ///
    /// # Safety
    /// Only the owner.
    pub(crate) unsafe fn pop_unless_pinned(
        &self,
        order: &Order<M>,
        refilled: impl Fn(),
    ) -> Option<NonNull<Node<M>>> {
        loop {
            let (head, tail) = self.ring.ends();
            if head == tail {
                // SAFETY: passed on.
                match unsafe { order.refill(&self.ring, &self.backlog) } {
                    Refilled::Some => {
                        refilled();
                        continue;
                    }
                    Refilled::Nothing => return None,
                }
            }
            // SAFETY: passed on.
            if unsafe { order.pinned_is_first(head) } {
                return None;
            }
            // A thief may have come first; then by what is there now.
            // SAFETY: passed on; there was one at that position.
            if let Some(node) = unsafe { self.ring.pop_at(head) } {
                // SAFETY: taken out, so it is the caller's, and alive.
                unsafe { node.as_ref() }.leave();
                return Some(node);
            }
        }
    }

    /// Which ranks wait, in an ordered queue and beside it.
    ///
    /// # Safety
    /// Only the owner; `order` is that of this queue.
    pub(crate) unsafe fn ahead(&self, order: &Order<M>) -> Ahead {
        // SAFETY: passed on.
        unsafe { order.ahead(&self.ring, &self.backlog) }
    }

    /// Moves some of the backlog to the empty ring; returns the oldest.
    ///
    /// # Safety
    /// Only the owner.
    #[inline]
    unsafe fn refill(&self) -> Option<NonNull<Node<M>>> {
        if let Some(order) = &self.order {
            // SAFETY: passed on.
            return unsafe { self.refill_sorted(order) };
        }
        let chain = self.backlog.take()?;
        M::mark(Mark::QueueRefill);
        let (first, mut rest) = chain.pop();
        for _ in 0..self.capacity / REFILL_PART {
            let Some(chain) = rest.take() else { break };
            let (node, others) = chain.pop();
            rest = others;
            // SAFETY: passed on; the ring is empty and this is half of it.
            let pushed = unsafe { self.ring.push(node, Share::Surplus) };
            debug_assert!(pushed.is_ok());
        }
        self.backlog.put_back(rest);
        Some(first)
    }

    /// # Safety
    /// Only the owner.
    unsafe fn refill_sorted(&self, order: &Order<M>) -> Option<NonNull<Node<M>>> {
        // Thieves may have taken all that was put into the ring.
        // SAFETY: passed on.
        while unsafe { order.refill(&self.ring, &self.backlog) } == Refilled::Some {
            // SAFETY: passed on.
            if let Some(node) = unsafe { self.ring.pop() } {
                return Some(node);
            }
        }
        None
    }

    /// For an owner that has published nodes by a store, in front of an offer: a worker that falls asleep sees them, or
    /// the offer sees that worker. A read-modify-write that changes nothing, and a fence.
    #[inline]
    pub(crate) fn show_stored(&self) {
        self.ring.touch();
        M::fence_recheck();
    }

    /// How many nodes can be taken, about; a backlog counts as one more.
    #[inline]
    pub fn len(&self) -> u64 {
        self.ring.len() + u64::from(!self.backlog.is_empty())
    }

    /// Whether there is nothing in it, about.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes from this queue, another worker's, into the caller's own. `None` if there is nothing to take,
    /// or if `own` has nodes and `greed` asks for more than one: a worker that has something to run first
    /// runs that.
    ///
    /// # Safety
    /// The caller is the owner of `own`, which is ordered if this one is, and is not the owner of this
    /// one.
    pub unsafe fn steal_into(&self, own: &Queue<M>, greed: Greed) -> Option<Loot<M>> {
        if greed != Greed::Single && !own.is_empty() && !M::breaks(Bug::SpinStealsFull) {
            return None;
        }
        // A worker with a backlog is not about to run dry.
        let spares_last = greed == Greed::Half && self.backlog.is_empty();
        // What is less urgent than the first stays where it may come before what comes later.
        let most = if self.order.is_some() { 1 } else { u64::MAX };
        let how_many = |found: u64| {
            let some = match greed {
                Greed::Single => 1,
                _ if spares_last => found / 2,
                _ => found.div_ceil(2),
            };
            some.min(most)
        };
        // SAFETY: passed on.
        if let Some(stolen) = unsafe { self.ring.steal_into(&own.ring, how_many) } {
            // SAFETY: taken out, so it is the caller's, and alive.
            unsafe { stolen.first.as_ref() }.leave();
            return Some(Loot {
                first: stolen.first,
                count: stolen.count,
            });
        }
        let chain = self.backlog.take()?;
        M::mark(Mark::QueueBacklogStolen);
        // SAFETY: passed on.
        unsafe { own.take_over(chain) }
    }

    /// Makes a chain the caller's; returns its first node, unless other thieves took all.
    ///
    /// # Safety
    /// As for [`Queue::push`], for all nodes of the chain, which are marked as queued.
    pub(crate) unsafe fn take_over(&self, chain: Chain<M>) -> Option<Loot<M>> {
        if self.order.is_some() {
            // SAFETY: passed on.
            unsafe { self.push_chain(chain) };
            // SAFETY: passed on.
            let first = unsafe { self.pop() };
            return first.map(|first| Loot { first, count: 1 });
        }
        let (first, rest) = chain.pop();
        if let Some(rest) = rest {
            // SAFETY: passed on.
            unsafe { self.push_chain(rest) };
        }
        // SAFETY: taken out, so it is the caller's, and alive.
        unsafe { first.as_ref() }.leave();
        Some(Loot { first, count: 1 })
    }
}
