//! The link by which calls, tasks and timers hang in a mailbox or a run queue.
//!
//! A node is part of what is posted (a call, a task, a timer), so posting allocates nothing.

use doorbell_machine::{Machine, Ordering, PtrWord};
use std::ptr::NonNull;

/// What a worker calls with a node that it took from its mailbox: a call runs at once. It returns what the worker
/// has still to do with the node.
///
/// # Safety
/// It is called once per post, with the node that was posted, on the worker that took it. The node may be
/// gone when it returns [`Delivered::Done`].
pub type Deliver<M> = unsafe fn(NonNull<Node<M>>) -> Delivered;

/// What a worker has still to do with a node that it has delivered.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivered {
    /// Nothing: the node may be gone.
    Done,
    /// It is a task's: queue the task, or take it out of the worker's list if it is complete.
    Task,
    /// It is a timer's: hang it in the worker's wheel, or free it if its handle is gone.
    Timer,
    /// It is a parcel's, whose closure has run: give the parcel back to its owner.
    Parcel {
        /// The number of the parcel's [room](crate::parcel::Room).
        room: u8,
        /// Whether the closure panicked.
        panicked: bool,
    },
}

/// A worker as it takes nodes from a mailbox.
pub trait Taker<M: Machine> {
    /// Does what is left to do with a node that was delivered.
    ///
    /// # Safety
    /// The node's [`Deliver`] has returned `delivered` just now, on this worker's thread.
    unsafe fn take(&self, node: NonNull<Node<M>>, delivered: Delivered);
}

/// The intrusive link.
pub struct Node<M: Machine> {
    /// [`Node::free`] if the node is in no queue; else the next node, null at the end.
    next: M::Ptr<Node<M>>,
    deliver: Deliver<M>,
}

impl<M: Machine> std::fmt::Debug for Node<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node")
            .field("queued", &(self.next() != Self::free()))
            .finish()
    }
}

impl<M: Machine> Node<M> {
    /// A node in no queue.
    pub fn new(deliver: Deliver<M>) -> Self {
        Node {
            next: M::Ptr::new(Self::free()),
            deliver,
        }
    }

    /// The mark of a node that is in no queue. No node lies at this address, because nodes are aligned.
    #[inline(always)]
    fn free() -> *mut Node<M> {
        std::ptr::without_provenance_mut(2)
    }

    /// Marks the node as queued. If it is in a queue already, returns `false` and changes nothing: the link
    /// holds that queue together.
    #[inline(always)]
    pub(crate) fn enter(&self) -> bool {
        let (free, end) = (Self::free(), std::ptr::null_mut());
        loop {
            // ORDER: Relaxed; one word and a read-modify-write, so of two threads that enter, one sees
            // the other. The queue's own words publish the node.
            match self
                .next
                .compare_exchange_weak(free, end, Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => return true,
                Err(seen) if seen != free => return false,
                // A spurious failure.
                Err(_) => {}
            }
        }
    }

    /// As [`Node::enter`], for a node that only this thread may queue: no read-modify-write.
    #[inline(always)]
    pub(crate) fn enter_owned(&self) -> bool {
        // ORDER: Relaxed; only this thread may queue the node.
        let free = self.next.load(Ordering::Relaxed) == Self::free();
        if free {
            self.set_next(std::ptr::null_mut());
        }
        free
    }

    #[inline(always)]
    pub(crate) fn set_next(&self, next: *mut Node<M>) {
        // ORDER: Relaxed; the Release of the push that follows publishes it, or only this worker reads
        // it.
        self.next.store(next, Ordering::Relaxed);
    }

    #[inline(always)]
    pub(crate) fn next(&self) -> *mut Node<M> {
        // ORDER: Relaxed; the Acquire of the take made the poster's store visible.
        self.next.load(Ordering::Relaxed)
    }

    /// Marks the node as in no queue; from here on it may be posted again.
    #[inline(always)]
    pub(crate) fn leave(&self) {
        // ORDER: Relaxed; another word orders this before the next post of the node (a task's state, a
        // call's completion).
        self.next.store(Self::free(), Ordering::Relaxed);
    }

    /// Whether its [`Deliver`] function is this one, or one with the same code. `false` proves nothing: a function may
    /// have several addresses.
    pub(crate) fn is_delivered_by(&self, deliver: Deliver<M>) -> bool {
        std::ptr::fn_addr_eq(self.deliver, deliver)
    }

    /// Calls the node's [`Deliver`] function.
    ///
    /// # Safety
    /// As for [`Deliver`]; the node has left its queue.
    #[inline(always)]
    pub(crate) unsafe fn deliver(node: NonNull<Self>) -> Delivered {
        // SAFETY: the caller took the node from a queue, so it is alive until delivered.
        let deliver = unsafe { node.as_ref() }.deliver;
        // A call runs its closure there.
        // SAFETY: passed on from the caller.
        M::user(|| unsafe { deliver(node) })
    }
}

#[cfg(test)]
mod tests {
    use super::{Delivered, Node};
    use doorbell_machine::Host;
    use std::ptr::NonNull;

    unsafe fn nothing(_: NonNull<Node<Host>>) -> Delivered {
        Delivered::Done
    }

    #[test]
    fn a_node_in_a_mailbox_is_not_queued_as_well() {
        let node = Node::<Host>::new(nothing);
        assert!(node.enter());
        assert!(!node.enter() && !node.enter_owned());
        node.leave();
        assert!(node.enter_owned() && !node.enter());
        node.leave();
        assert!(node.enter());
    }
}
