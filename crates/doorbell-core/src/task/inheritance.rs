//! Tasks that are awaited from above: their raised node, by which workers of a scheduler above poll them.
//!
//! It lies behind the body, so tasks that nobody can be above of, and calls, do not have it.

use super::cell::{TaskRef, layout_of};
use super::local::Local;
use super::state::By;
use super::state_inheritance::Above;
use crate::link::{Delivered, Node};
use crate::mailbox::Posted;
use crate::scheduler::Scheduler;
use crate::worker::Origin;
use doorbell_machine::Machine;
use std::alloc::Layout;
use std::mem::offset_of;
use std::ptr::NonNull;

/// Which scheduler: an identity, that nobody follows.
pub(crate) type SchedulerId = *const ();

pub(super) fn id_of<M: Machine>(scheduler: &Scheduler<M>) -> SchedulerId {
    std::ptr::from_ref(scheduler).cast()
}

/// What a task is aligned to. Its own node is its first field; the raised one lies beside this, so
/// that an address tells which of the two it is.
pub(super) const TASK_ALIGN: usize = 16;

/// The raised node of a task, and the way back to the task.
#[repr(C, align(16))]
pub(super) struct RaisedNode<M: Machine> {
    task: TaskRef<M>,
    node: Node<M>,
}

impl<M: Machine> RaisedNode<M> {
    const NODE: usize = {
        let offset = offset_of!(RaisedNode<M>, node);
        assert!(!offset.is_multiple_of(TASK_ALIGN) && align_of::<RaisedNode<M>>() == TASK_ALIGN);
        offset
    };

    /// The task that has this node.
    ///
    /// # Safety
    /// The node is part of a raised node, whose task is alive.
    pub(super) unsafe fn task_of(node: NonNull<Node<M>>) -> TaskRef<M> {
        // SAFETY: the caller's promise, and the pointer has the whole task.
        let raised_node = unsafe { node.byte_sub(Self::NODE) }.cast::<Self>();
        // SAFETY: written in `launch`, and never changed.
        unsafe { raised_node.as_ref() }.task
    }

    /// The layout of a task that is laid out so but for this, and its offset.
    pub(super) fn behind(task: Layout) -> (Layout, usize) {
        let (layout, offset) = task
            .extend(Layout::new::<Self>())
            .expect("a task that fits in memory fits with a raised node");
        (layout.pad_to_align(), offset)
    }
}

/// # Safety
/// None: never called.
unsafe fn deliver_raised<M: Machine>(_: NonNull<Node<M>>) -> Delivered {
    unreachable!("a raised node is posted as a task, and no task of a mailbox")
}

impl<M: Machine> TaskRef<M> {
    /// The layout of the task up to its extras.
    pub(super) fn layout(self) -> Layout {
        let (layout, _) = layout_of::<M>(self.header().vtable.layout);
        if self.header().has_raised_node() {
            RaisedNode::<M>::behind(layout).0
        } else {
            layout
        }
    }

    /// Whether it is raised, if it is, because its own workers are stuck: nobody awaits it from above.
    pub(super) fn is_rescued_only(self) -> bool {
        self.header().is_rescuable() && self.header().state.awaited_from().index().is_none()
    }

    fn raised_node(self) -> NonNull<RaisedNode<M>> {
        let (layout, _) = layout_of::<M>(self.header().vtable.layout);
        let (_, offset) = RaisedNode::<M>::behind(layout);
        // SAFETY: a task that has one was allocated with it, and the pointer has all of it.
        unsafe { self.as_raw().cast::<u8>().add(offset) }.cast()
    }

    /// Writes the raised node of a new task.
    ///
    /// # Safety
    /// The task was allocated with one, its header says so, and nobody else has it yet.
    pub(super) unsafe fn write_raised_node(self) {
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
    pub(super) unsafe fn drop_raised_node(self) {
        if self.header().has_raised_node() {
            // SAFETY: written in `launch`; the caller's promise.
            unsafe { self.raised_node().drop_in_place() };
        }
    }

    /// How far above the task's scheduler that one is.
    pub(super) fn how_far(self, scheduler: SchedulerId) -> Above {
        let mut above = self.last().scheduler().above().iter();
        let from = above.position(|remote| id_of(remote.scheduler()) == scheduler);
        from.map_or(Above::default(), Above::nth)
    }

    /// The scheduler so far above the task's own, or that.
    pub(super) fn scheduler_at(&self, above: Above) -> &Scheduler<M> {
        let own = self.last().scheduler();
        above
            .index()
            .map_or(own, |above| own.above()[above].scheduler())
    }

    /// How far above the task's scheduler the one is for whose sake the caller waits.
    #[inline]
    pub(super) fn above_here(self) -> Above {
        if self.header().has_raised_node() {
            self.how_far(Self::scheduler_that_waits())
        } else {
            Above::default()
        }
    }

    /// The scheduler for whose sake the caller waits: that of its worker, or a higher one that awaits the task
    /// under poll. So a chain is followed also where its own workers come to a link first. Null
    /// on a thread that is no worker.
    pub(crate) fn scheduler_that_waits() -> SchedulerId {
        Local::<M>::with_current(|local| {
            let Some(local) = local else {
                return std::ptr::null();
            };
            let worker = id_of(local.remote().scheduler());
            let Some(task) = local
                .poll_refs()
                .task()
                .filter(|it| it.header().has_raised_node())
            else {
                return worker;
            };
            let awaited = task.header().state.awaited_from();
            id_of(task.scheduler_at(awaited.max(task.how_far(worker))))
        })
    }

    /// Somebody on a worker of that scheduler waits for a lock that the task holds, for which others waited
    /// from `before`. Returns from how far above somebody waits for it now.
    ///
    /// The caller holds a reference.
    pub(crate) fn inherit_by_lock(self, scheduler: SchedulerId, before: Above) -> Above {
        let from = self.how_far(scheduler);
        if from <= before {
            return before;
        }
        let first = before == Above::default();
        if self.header().state.inherit_by_lock(from, first) {
            self.hasten();
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
        Local::<M>::with_current(|local| {
            let task = local?.poll_refs().task()?;
            task.header().has_raised_node().then(|| {
                task.header().state.retain();
                task
            })
        })
    }

    /// It is awaited from higher up than before. Besides being raised if it is queued, it is polled
    /// once, so that what it awaits in its turn learns of it.
    #[cold]
    pub(super) fn hasten(self) {
        let woken = self.header().state.wake();
        self.follow(woken, || self.submit());
        let _ = self.raise(Above::default());
    }

    /// Puts the raised node into a queue of the scheduler so far above, or of one further above that awaits the task,
    /// if the task is to be polled and the node is in none. Below that scheduler, it has one of its workers do that.
    /// Whether it did it itself. The caller holds a reference.
    #[cold]
    pub(super) fn raise(self, from: Above) -> bool {
        if let Some(scheduler) = self.scheduler_above() {
            self.send_raise(scheduler);
            return false;
        }
        let Some(above) = self.header().state.raise(from) else {
            return false;
        };
        let own = self.last();
        let scheduler = self.scheduler_at(above);
        let raised_node = self.raised_node().as_ptr();
        // SAFETY: inside of the task.
        let node = unsafe { NonNull::new_unchecked(&raw mut (*raised_node).node) };
        let posted = Local::<M>::with_current(|local| match local {
            Some(local) if local.is_of(scheduler) && !local.is_closed() => {
                // SAFETY: a reference was counted for the node, and it is in no queue.
                unsafe { local.push(node) };
                Posted::Yes
            }
            _ => {
                let workers = scheduler.remotes();
                let prefer = scheduler.place(&workers[own.worker() % workers.len()]);
                // SAFETY: as above.
                unsafe { prefer.post_task(node, Origin::Outside) }
            }
        });
        match posted {
            Posted::Yes => {}
            Posted::Closed => self.take_back(),
        }
        true
    }

    /// The raised node is in no queue, and nobody runs by it.
    pub(super) fn take_back(self) {
        self.header().state.take_back();
        self.release();
    }

    /// Runs a task of a scheduler below, whose raised node was taken from a queue.
    #[cold]
    pub(super) fn run_above(self, local: &Local<M>) {
        self.header().state.take_back();
        local.as_raised(|| self.run_by(By::Raised, local));
        self.release();
    }
}
