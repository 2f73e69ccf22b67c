//! What a node of a run queue is: which task it is of, and which of that task's nodes. An ordinary task is queued
//! by its own node; one that a higher class runs, by its raised one.

use super::cell::TaskRef;
use super::inheritance::{RaisedNode, TASK_ALIGN};
use super::schedule::Schedule;
use super::state::By;
use crate::group::DEFAULT;
use crate::link::Node;
use std::ptr::NonNull;

/// The task that a node of a run queue is of, and which of its nodes that is.
///
/// # Safety
/// The node is one of a task, which is alive.
#[inline]
pub(crate) unsafe fn find<M: Schedule>(node: NonNull<Node<M>>) -> (TaskRef<M>, By) {
    if node.addr().get().is_multiple_of(TASK_ALIGN) {
        // SAFETY: aligned as the task, so it is the first field of one.
        return (unsafe { TaskRef::from_node(node) }, By::Own);
    }
    // SAFETY: else it is part of a raised node, whose task is alive.
    (unsafe { RaisedNode::task_of(node) }, By::Raised)
}

/// The rank of a raised task in the scheduler above: the highest. The rank of the task that awaits it is not known
/// here, and with a lower rank than that, other busy tasks could keep both waiting forever.
pub(crate) const RAISED_RANK: u8 = 100;

/// The rank of the task that a node is of.
///
/// # Safety
/// As for [`find`].
pub(crate) unsafe fn rank_of<M: Schedule>(node: NonNull<Node<M>>) -> u8 {
    // SAFETY: passed on.
    match unsafe { find(node) } {
        (task, By::Own) => task.header().rank,
        (_, By::Raised) => RAISED_RANK,
    }
}

/// The group of the task that a node is of; the default one of a task of another scheduler, which knows
/// none of this one's.
///
/// # Safety
/// As for [`find`].
pub(crate) unsafe fn group_of<M: Schedule>(node: NonNull<Node<M>>) -> u8 {
    // SAFETY: passed on.
    match unsafe { find(node) } {
        (task, By::Own) => task.header().group,
        (_, By::Raised) => DEFAULT,
    }
}

/// The task whose own node this is.
///
/// # Safety
/// As for [`find`].
pub(crate) unsafe fn own_of<M: Schedule>(node: NonNull<Node<M>>) -> Option<TaskRef<M>> {
    // SAFETY: passed on.
    let (task, node) = unsafe { find(node) };
    (node == By::Own).then_some(task)
}

/// Takes back a raised node that a worker refused because it has ended. Ignores an own node.
///
/// # Safety
/// As for [`find`]; the node is in no queue.
pub(crate) unsafe fn refused<M: Schedule>(node: NonNull<Node<M>>) {
    // SAFETY: passed on.
    if let (task, By::Raised) = unsafe { find(node) } {
        task.take_back();
    }
}
