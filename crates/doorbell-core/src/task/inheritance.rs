//! Tasks that are awaited from above: their raised node, by which workers of a scheduler above poll them.
//!
//! It lies behind the body, so tasks that nobody can be above of, and calls, do not have it.

use super::cell::{TaskRef, layout_of};
use super::schedule::{Schedule, SchedulerId};
use super::state_inheritance::Above;
use crate::link::{Delivered, Node};
use std::alloc::Layout;
use std::mem::offset_of;
use std::ptr::NonNull;

/// What a task is aligned to. Its own node is its first field; the raised one lies beside this, so
/// that an address tells which of the two it is.
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
    /// The node is part of a raised node, whose task is alive.
    pub(crate) unsafe fn task_of(node: NonNull<Node<M>>) -> TaskRef<M> {
        // SAFETY: the caller's promise, and the pointer has the whole task.
        let raised_node = unsafe { node.byte_sub(Self::NODE) }.cast::<Self>();
        // SAFETY: written in `TaskRef::new`, and never changed.
        unsafe { raised_node.as_ref() }.task
    }

    /// The layout of a task that is laid out so but for this, and its offset.
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
    /// The layout of the task up to its extras.
    pub(crate) fn layout(self) -> Layout {
        let (layout, _) = layout_of::<M>(self.header().vtable.layout);
        if self.header().has_raised_node() {
            RaisedNode::<M>::behind(layout).0
        } else {
            layout
        }
    }

    /// Whether it is raised, if it is, because its own workers are stuck: nobody awaits it from above.
    pub(crate) fn is_rescued_only(self) -> bool {
        self.header().is_rescuable() && self.header().state.awaited_from().index().is_none()
    }

    pub(crate) fn raised_node(self) -> NonNull<RaisedNode<M>> {
        let (layout, _) = layout_of::<M>(self.header().vtable.layout);
        let (_, offset) = RaisedNode::<M>::behind(layout);
        // SAFETY: a task that has one was allocated with it, and the pointer has all of it.
        unsafe { self.as_raw().cast::<u8>().add(offset) }.cast()
    }

    /// Writes the raised node of a new task.
    ///
    /// # Safety
    /// The task was allocated with one, its header says so, and nobody else has it yet.
    pub(crate) unsafe fn write_raised_node(self) {
        let raised_node = RaisedNode {
            task: self,
            node: Node::new(deliver_raised::<M>),
        };
        // SAFETY: allocated for it, and empty.
        unsafe { self.raised_node().write(raised_node) };
    }

    /// Drops it.
    ///
    /// # Safety
    /// Nobody else has the task any more.
    pub(crate) unsafe fn drop_raised_node(self) {
        if self.header().has_raised_node() {
            // SAFETY: written in `TaskRef::new`; the caller's promise.
            unsafe { self.raised_node().drop_in_place() };
        }
    }

    /// How far above the task's scheduler the one is for whose sake the caller waits.
    #[inline]
    pub(crate) fn above_here(self) -> Above {
        if self.header().has_raised_node() {
            M::how_far(self, M::scheduler_that_waits())
        } else {
            Above::default()
        }
    }

    /// Somebody on a worker of that scheduler waits for a lock that the task holds, for which others waited
    /// from `before`. Returns from how far above somebody waits for it now.
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

    /// It has let go of a lock by which it inherited. The caller holds a reference.
    pub(crate) fn disinherit_by_lock(self) {
        self.header().state.disinherit_by_lock();
    }

    /// The task under poll on the caller's thread, with a reference that the caller is to release; if
    /// it is one that somebody may be above of.
    pub(crate) fn under_poll() -> Option<Self> {
        let task = M::under_poll()?;
        task.header().has_raised_node().then(|| {
            task.header().state.retain();
            task
        })
    }

    /// The raised node is in no queue, and nobody runs by it.
    pub(crate) fn take_back(self) {
        self.header().state.take_back();
        self.release();
    }
}
