//! The ready queue: a worker's pinned tasks that can run.

use super::{Order, Queue};
use crate::link::Node;
use doorbell_machine::{Cell, Machine};
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;

/// A worker's ready queue: its pinned tasks that can run, first in, first out or by rank. Only the worker's
/// own thread uses it, without a read-modify-write.
///
/// Not `Sync`: it belongs to the worker's thread.
pub struct Ready<M: Machine> {
    ends: M::Cell<Ends<M>>,
    /// Where the nodes lie if the worker's tasks are sorted by rank; `ends` then only counts them.
    order: Option<Arc<Order<M>>>,
    not_sync: PhantomData<std::cell::Cell<()>>,
}

struct Ends<M: Machine> {
    head: *mut Node<M>,
    tail: *mut Node<M>,
    len: usize,
}

impl<M: Machine> std::fmt::Debug for Ready<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ready").field("len", &self.len()).finish()
    }
}

impl<M: Machine> Default for Ready<M> {
    fn default() -> Self {
        Ready {
            ends: M::Cell::new(Ends {
                head: std::ptr::null_mut(),
                tail: std::ptr::null_mut(),
                len: 0,
            }),
            order: None,
            not_sync: PhantomData,
        }
    }
}

impl<M: Machine> Ready<M> {
    /// The ready queue of the worker with that run queue, sorted by rank if the run queue is. It belongs to the
    /// worker's thread.
    pub(crate) fn beside(queue: &Queue<M>) -> Self {
        Ready {
            order: queue.order().cloned(),
            ..Ready::default()
        }
    }

    /// Appends a node; in a sorted queue, behind all that are not below its rank.
    ///
    /// # Panics
    /// If the node is in a queue already: to push it again would lose every node behind it.
    ///
    /// # Safety
    /// The node is that of a task of this worker, and is run as one once it is popped. It stays alive
    /// and in place until it is popped, and is popped on this thread.
    pub unsafe fn push(&self, node: NonNull<Node<M>>) {
        // SAFETY: the caller promises that it is alive.
        let entered = unsafe { node.as_ref() }.enter_owned();
        assert!(entered, "a task was queued twice");
        self.ends.with_mut(|ends| {
            // SAFETY: one thread uses the queue, and holds no reference into it across a call.
            let ends = unsafe { &mut *ends };
            ends.len += 1;
            if let Some(order) = &self.order {
                // SAFETY: this is the thread of the worker that the order belongs to.
                return unsafe { order.push_pinned(node) };
            }
            if ends.tail.is_null() {
                ends.head = node.as_ptr();
            } else {
                // SAFETY: nodes in the queue are alive until popped.
                unsafe { &*ends.tail }.set_next(node.as_ptr());
            }
            ends.tail = node.as_ptr();
        });
    }

    /// Takes the first node out.
    pub fn pop(&self) -> Option<NonNull<Node<M>>> {
        self.ends.with_mut(|ends| {
            // SAFETY: as in `push`.
            let ends = unsafe { &mut *ends };
            if let Some(order) = &self.order {
                // SAFETY: as in `push`.
                let node = unsafe { order.pop_pinned() }?;
                ends.len -= 1;
                // SAFETY: nodes in the queue are alive until popped.
                unsafe { node.as_ref() }.leave();
                return Some(node);
            }
            let node = NonNull::new(ends.head)?;
            // SAFETY: nodes in the queue are alive until popped.
            let link = unsafe { node.as_ref() };
            ends.head = link.next();
            if ends.head.is_null() {
                ends.tail = std::ptr::null_mut();
            }
            ends.len -= 1;
            link.leave();
            Some(node)
        })
    }

    /// The order of its nodes and of those in the worker's run queue; `None` if they are not sorted.
    #[inline]
    pub(crate) fn order(&self) -> Option<&Order<M>> {
        self.order.as_deref()
    }

    /// How many nodes are in the queue.
    pub fn len(&self) -> usize {
        // SAFETY: as in `push`.
        self.ends.with(|ends| unsafe { (*ends).len })
    }

    /// Whether the queue is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::Ready;
    use crate::link::{Delivered, Node};
    use doorbell_machine::Host;
    use std::ptr::NonNull;

    unsafe fn nothing(_: NonNull<Node<Host>>) -> Delivered {
        Delivered::Done
    }

    #[test]
    fn miri_ready_is_first_in_first_out() {
        let nodes: Vec<Node<Host>> = (0..5).map(|_| Node::new(nothing)).collect();
        let ready = Ready::default();
        let pushed: Vec<_> = nodes.iter().map(NonNull::from).collect();
        for round in 1..=2 {
            for node in &pushed {
                // SAFETY: `nodes` outlives the queue.
                unsafe { ready.push(*node) };
            }
            assert_eq!(ready.len(), 5, "round {round}");
            let popped: Vec<_> = std::iter::from_fn(|| ready.pop()).collect();
            assert_eq!(popped, pushed);
            assert!(ready.is_empty());
        }
    }

    #[test]
    fn a_node_queued_twice_is_caught_and_loses_none() {
        let nodes: Vec<Node<Host>> = (0..3).map(|_| Node::new(nothing)).collect();
        let ready = Ready::default();
        let pushed: Vec<_> = nodes.iter().map(NonNull::from).collect();
        for node in &pushed {
            // SAFETY: `nodes` outlives the queue.
            unsafe { ready.push(*node) };
        }
        for node in &pushed {
            let again = std::panic::AssertUnwindSafe(|| {
                // SAFETY: as above; this must be refused.
                unsafe { ready.push(*node) };
            });
            let payload = std::panic::catch_unwind(again).unwrap_err();
            assert_eq!(payload.downcast_ref(), Some(&"a task was queued twice"));
        }
        let popped: Vec<_> = std::iter::from_fn(|| ready.pop()).collect();
        assert_eq!(popped, pushed);
    }
}
