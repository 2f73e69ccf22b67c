//! The backlog: what does not fit into the ring, in one word that others may take as a whole.
//!
//! A chain of nodes in a circle, known by its last node, whose link leads to the first: one word
//! gives both ends. Whoever wants to change it takes it out by an exchange, and only the owner
//! puts one in.

use crate::link::Node;
use doorbell_machine::{Machine, Ordering, PtrWord};
use std::ptr::NonNull;

/// A chain that is somebody's alone; not empty.
#[derive(Debug)]
pub(crate) struct Chain<M: Machine> {
    /// Its link leads to the first.
    last: NonNull<Node<M>>,
}

impl<M: Machine> Chain<M> {
    /// # Safety
    /// The node is alive, queued, and nobody else's; so are all that are put into the chain.
    pub(super) unsafe fn one(node: NonNull<Node<M>>) -> Self {
        // SAFETY: the caller's promise.
        unsafe { node.as_ref() }.set_next(node.as_ptr());
        Chain { last: node }
    }

    /// A chain of nodes that are linked from `first` to `last`.
    ///
    /// # Safety
    /// As for [`Chain::one`], for all of them.
    pub(crate) unsafe fn of(first: NonNull<Node<M>>, last: NonNull<Node<M>>) -> Self {
        // SAFETY: the caller's promise.
        unsafe { last.as_ref() }.set_next(first.as_ptr());
        Chain { last }
    }

    fn first(&self) -> NonNull<Node<M>> {
        // SAFETY: nodes of a chain are alive, and their links lead round.
        let first = unsafe { self.last.as_ref() }.next();
        NonNull::new(first).expect("a chain is a circle")
    }

    /// Appends another.
    pub(super) fn append(self, other: Chain<M>) -> Self {
        let (first, second) = (self.first(), other.first());
        // SAFETY: nodes of a chain are alive and its holder's.
        unsafe { self.last.as_ref() }.set_next(second.as_ptr());
        // SAFETY: as above.
        unsafe { other.last.as_ref() }.set_next(first.as_ptr());
        other
    }

    /// Puts a node behind another one of the chain.
    ///
    /// # Safety
    /// As for [`Chain::one`]; `before` is of the chain.
    pub(super) unsafe fn insert_behind(
        self,
        before: NonNull<Node<M>>,
        node: NonNull<Node<M>>,
    ) -> Self {
        // SAFETY: nodes of a chain are alive and its holder's.
        let link = unsafe { before.as_ref() };
        // SAFETY: the caller's promise.
        unsafe { node.as_ref() }.set_next(link.next());
        link.set_next(node.as_ptr());
        if before == self.last {
            Chain { last: node }
        } else {
            self
        }
    }

    /// Takes the first node out; the rest, if there is one.
    pub(crate) fn pop(self) -> (NonNull<Node<M>>, Option<Self>) {
        let first = self.first();
        if first == self.last {
            return (first, None);
        }
        // SAFETY: as in `first`.
        let second = unsafe { first.as_ref() }.next();
        // SAFETY: as above.
        unsafe { self.last.as_ref() }.set_next(second);
        (first, Some(self))
    }

    /// Takes the nodes out, the first one first, and hands each to `take`. It is in no queue then.
    pub(crate) fn drain(self, mut take: impl FnMut(NonNull<Node<M>>)) {
        let mut rest = Some(self);
        while let Some(chain) = rest {
            let (node, others) = chain.pop();
            rest = others;
            // SAFETY: taken out, so it is the holder's, and alive.
            unsafe { node.as_ref() }.leave();
            take(node);
        }
    }
}

/// The word that holds a chain, or null.
pub(super) struct Backlog<M: Machine>(M::Ptr<Node<M>>);

impl<M: Machine> Default for Backlog<M> {
    fn default() -> Self {
        Backlog(M::Ptr::new(std::ptr::null_mut()))
    }
}

impl<M: Machine> Backlog<M> {
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        // ORDER: Relaxed; a hint, or after a fence.
        self.0.load(Ordering::Relaxed).is_null()
    }

    /// Takes the whole chain out; anybody.
    pub(super) fn take(&self) -> Option<Chain<M>> {
        if self.is_empty() {
            return None;
        }
        // ORDER: Acquire pairs with the Release of `put`: links and nodes. A read-modify-write, so of two
        // takers one gets the chain.
        let last = self.0.swap(std::ptr::null_mut(), Ordering::Acquire);
        NonNull::new(last).map(|last| Chain { last })
    }

    /// Puts a chain into the empty word. Only the owner: others only take, so it stays empty
    /// between the owner's look and this.
    pub(super) fn put(&self, chain: &Chain<M>) {
        // ORDER: Release pairs with the Acquire of `take`. A read-modify-write, for the pusher's
        // fence_recheck after it.
        self.0.swap(chain.last.as_ptr(), Ordering::Release);
    }

    /// Appends a chain. Only the owner.
    pub(super) fn append(&self, chain: Chain<M>) {
        let whole = match self.take() {
            Some(before) => before.append(chain),
            None => chain,
        };
        self.put(&whole);
    }

    /// Appends a node. Only the owner.
    ///
    /// # Safety
    /// As for [`Chain::one`].
    pub(super) unsafe fn push(&self, node: NonNull<Node<M>>) {
        // SAFETY: passed on.
        self.append(unsafe { Chain::one(node) });
    }

    /// Puts back what was taken and not used up. Only the owner, who has appended nothing since.
    pub(super) fn put_back(&self, rest: Option<Chain<M>>) {
        if let Some(rest) = rest {
            self.put(&rest);
        }
    }
}
