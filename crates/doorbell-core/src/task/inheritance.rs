//! The raised node: a task's second node, by which a scheduler above queues and polls it.
//!
//! It lies behind the body. Calls, pinned tasks and tasks of the highest scheduler have none.

use super::cell::{TaskRef, layout_of};
use super::schedule::{Schedule, SchedulerId};
use super::state_inheritance::Above;
use crate::link::{Delivered, Node};
use std::alloc::Layout;
use std::mem::offset_of;
use std::ptr::NonNull;

/// The alignment of a task. The own node is the task's first field, so it is aligned to this; the raised node never
/// is. So the address of a node says which of the two it is.
pub(crate) const TASK_ALIGN: usize = 16;

/// The raised node of a task, and the way back to the task.
#[repr(C, align(16))]
pub(crate) struct RaisedNode<M: Schedule> {
    task: TaskRef<M>,
    pub(crate) node: Node<M>,
}

impl<M: Schedule> RaisedNode<M> {
    const NODE: usize = {
        let offset = offset_of!(RaisedNode<M>, node);
        assert!(!offset.is_multiple_of(TASK_ALIGN) && align_of::<RaisedNode<M>>() == TASK_ALIGN);
        offset
    };

    /// The task that has this node.
    ///
    /// # Safety
    /// The node is part of a [`RaisedNode`], and its task is alive.
    pub(crate) unsafe fn task_of(node: NonNull<Node<M>>) -> TaskRef<M> {
        // SAFETY: the caller's promise, and the pointer is valid for the whole task.
        let raised_node = unsafe { node.byte_sub(Self::NODE) }.cast::<Self>();
        // SAFETY: written in `TaskRef::new`, and never changed.
        unsafe { raised_node.as_ref() }.task
    }

    /// The layout of a task with a raised node added, and the offset of that node.
    pub(crate) fn behind(task: Layout) -> (Layout, usize) {
        let (layout, offset) = task
            .extend(Layout::new::<Self>())
            .expect("a task that fits in memory fits with a raised node");
        (layout.pad_to_align(), offset)
    }
}

/// # Safety
/// None: never called.
unsafe fn deliver_raised<M: Schedule>(_: NonNull<Node<M>>) -> Delivered {
    unreachable!("a raised node is posted as a task, and no task of a mailbox")
}

impl<M: Schedule> TaskRef<M> {
    /// The layout of the task without its extras.
    pub(crate) fn layout(self) -> Layout {
        let (layout, _) = layout_of::<M>(self.header().vtable.layout);
        if self.header().has_raised_node() {
            RaisedNode::<M>::behind(layout).0
        } else {
            layout
        }
    }

    pub(crate) fn raised_node(self) -> NonNull<RaisedNode<M>> {
        let (layout, _) = layout_of::<M>(self.header().vtable.layout);
        let (_, offset) = RaisedNode::<M>::behind(layout);
        // SAFETY: a task that has one was allocated with it, and the pointer is valid for all of the task.
        unsafe { self.as_raw().cast::<u8>().add(offset) }.cast()
    }

    /// Writes the raised node of a new task.
    ///
    /// # Safety
    /// The task was allocated with one, its header says so, and only the caller has the task yet.
    pub(crate) unsafe fn write_raised_node(self) {
        let raised_node = RaisedNode {
            task: self,
            node: Node::new(deliver_raised::<M>),
        };
        // SAFETY: allocated for it, and empty.
        unsafe { self.raised_node().write(raised_node) };
    }

    /// Drops the raised node, if there is one.
    ///
    /// # Safety
    /// Only the caller has the task.
    pub(crate) unsafe fn drop_raised_node(self) {
        if self.header().has_raised_node() {
            // SAFETY: written in `TaskRef::new`; the caller's promise.
            unsafe { self.raised_node().drop_in_place() };
        }
    }

    /// The level of the scheduler on whose behalf the calling thread waits, among those above the task's own.
    #[inline]
    pub(crate) fn above_here(self) -> Above {
        if self.header().has_raised_node() {
            M::how_far(self, M::scheduler_that_waits())
        } else {
            Above::default()
        }
    }

    /// The task holds a lock, and a task of `scheduler` waits for it. `before`: the highest level from which tasks
    /// waited for that lock so far. Returns that level with the new waiter.
    ///
    /// The caller holds a reference.
    pub(crate) fn inherit_by_lock(self, scheduler: SchedulerId, before: Above) -> Above {
        let from = M::how_far(self, scheduler);
        if from <= before {
            return before;
        }
        let first = before == Above::default();
        if self.header().state.inherit_by_lock(from, first) {
            M::hasten(self);
        }
        from
    }

    /// Ends what the task inherits by one lock. The caller holds a reference.
    pub(crate) fn disinherit_by_lock(self) {
        self.header().state.disinherit_by_lock();
    }

    /// The task under poll on the calling thread, if it has a raised node. The caller has to release the reference
    /// that comes with it.
    pub(crate) fn under_poll() -> Option<Self> {
        let task = M::under_poll()?;
        task.header().has_raised_node().then(|| {
            task.header().state.retain();
            task
        })
    }

    /// Frees the raised node, which is in no queue and in no run, and drops its reference.
    pub(crate) fn take_back(self) {
        self.header().state.take_back();
        self.release();
    }
}
