//! The allocation of a task: header and body; how it is run, cancelled and freed.
//!
//! Who may touch what, and when:
//! * `node`: by the rules of the queue it is in; in none, by whom the state says may submit it.
//! * `body`: the lane while RUNNING; after COMPLETE the join handle, or whoever drops the last
//!   reference.
//! * `join_waker`: the join handle while `JOIN_WAKER` is not set, also once COMPLETE (then it was
//!   never lent); the lane once both are.
//! * `links`: the lane.

use super::body::BodyVtable;
use super::join::RawJoin;
use super::local::Local;
use super::state::{Completed, Pause, Released, Start, State, Wake};
use super::{Phase, drop_quietly, waker};
use crate::mailbox::{Front, Posted};
use crate::node::{Deliver, Node, Ready};
use crate::wheel::Base;
use doorbell_machine::{Cell, Machine};
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// What a lane does with the cell when it takes it from its mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Queue it; it is polled until it is ready.
    Task,
    /// As `Task`, and it never leaves its core: nor do its timers.
    Pinned,
    /// Run it at once, without a queue and without a pass; it is ready at its first poll.
    Call,
}

#[repr(C)]
pub(super) struct Header<M: Machine> {
    node: Node<M>,
    pub(super) state: State<M>,
    front: Arc<Front<M>>,
    vtable: &'static BodyVtable,
    /// Which base its timers belong to.
    base: Base,
    /// Shows a checker who uses the body, which itself is of no machine.
    body_use: M::Cell<()>,
    pub(super) join_waker: M::Cell<Option<Waker>>,
    links: M::Cell<Links<M>>,
}

/// The list of a lane's tasks.
struct Links<M: Machine> {
    adopted: bool,
    newer: Option<TaskRef<M>>,
    older: Option<TaskRef<M>>,
}

/// The address of a task; owns nothing by itself.
#[derive(Debug)]
pub struct TaskRef<M: Machine>(NonNull<Header<M>>);

impl<M: Machine> Clone for TaskRef<M> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<M: Machine> Copy for TaskRef<M> {}

/// The layout of a task with that body, and the body's offset.
fn layout_of<M: Machine>(body: Layout) -> (Layout, usize) {
    let (layout, offset) = Layout::new::<Header<M>>()
        .extend(body)
        .expect("a body that fits in memory fits with its header");
    (layout.pad_to_align(), offset)
}

/// Makes a task of a body and hands it to its lane. Returns the side that joins it.
///
/// `write` is called once with the address to write the body to. If the lane is gone, the task
/// is complete and cancelled when this returns.
///
/// # Safety
/// `write` writes a body of `vtable`'s type there and does not unwind after it has. The future
/// in it and its output may be sent to the lane's thread, and to wherever the join side goes.
pub unsafe fn launch<M: Machine>(
    front: Arc<Front<M>>,
    kind: Kind,
    vtable: &'static BodyVtable,
    write: impl FnOnce(*mut u8),
) -> RawJoin {
    let (layout, offset) = layout_of::<M>(vtable.layout);
    // SAFETY: the layout is that of a header and something, so its size is not zero.
    let Some(memory) = NonNull::new(unsafe { alloc(layout) }) else {
        handle_alloc_error(layout)
    };
    let deliver: Deliver<M> = match kind {
        Kind::Task | Kind::Pinned => deliver_task,
        Kind::Call => deliver_call,
    };
    let header = memory.cast::<Header<M>>();
    // SAFETY: freshly allocated with room for the header.
    unsafe {
        header.write(Header {
            node: Node::new(deliver),
            state: State::new(),
            front,
            vtable,
            base: if kind == Kind::Pinned {
                Base::Local
            } else {
                Base::Global
            },
            body_use: M::Cell::new(()),
            join_waker: M::Cell::new(None),
            links: M::Cell::new(Links {
                adopted: false,
                newer: None,
                older: None,
            }),
        });
    }
    // SAFETY: the offset lies inside the allocation.
    let body = unsafe { memory.add(offset) };
    write(body.as_ptr());
    let task = TaskRef(header);
    // SAFETY: this is the one join handle that a new task's state counts.
    let join = unsafe { RawJoin::new(task, body) };
    task.submit_new(kind);
    join
}

impl<M: Machine> TaskRef<M> {
    /// # Safety
    /// `node` is that of a task that is alive.
    pub(super) unsafe fn from_node(node: NonNull<Node<M>>) -> Self {
        // The node is the header's first field.
        TaskRef(node.cast())
    }

    /// # Safety
    /// `raw` came from [`TaskRef::as_raw`] of a task that is alive.
    pub(super) unsafe fn from_raw(raw: *const ()) -> Self {
        // SAFETY: the address of a header is not null.
        TaskRef(unsafe { NonNull::new_unchecked(raw.cast_mut().cast()) })
    }

    pub(super) fn as_raw(self) -> NonNull<()> {
        self.0.cast()
    }

    pub(super) fn header(&self) -> &Header<M> {
        // SAFETY: whoever has a TaskRef holds a reference of the task's count, or runs on its
        // lane while the lane's reference is held.
        unsafe { self.0.as_ref() }
    }

    fn body(self) -> *mut u8 {
        let (_, offset) = layout_of::<M>(self.header().vtable.layout);
        // SAFETY: as in `launch`; the pointer still has the whole allocation.
        unsafe { self.0.as_ptr().cast::<u8>().add(offset) }
    }

    /// What the task does now.
    pub fn phase(self) -> Phase {
        self.header().state.phase()
    }

    /// Calls `f` with the body's address, visible to a checker.
    fn use_body<R>(self, f: impl FnOnce(*mut u8) -> R) -> R {
        let body = self.body();
        self.header().body_use.with_mut(|_| f(body))
    }

    /// The first submission. The caller holds the join handle's reference.
    fn submit_new(self, kind: Kind) {
        let submitted = Local::<M>::with_current(|local| match local {
            Some(local) if kind != Kind::Call && local.is(&self.header().front) => {
                if local.is_closed() {
                    return false;
                }
                self.push_ready(local.ready());
                true
            }
            // SAFETY: the lane's reference is held until the task completes, and a task that
            // is queued is not complete.
            _ => unsafe { self.header().front.post(self.node()) == Posted::Yes },
        });
        if !submitted {
            self.end_unsubmitted();
        }
    }

    fn node(self) -> NonNull<Node<M>> {
        self.0.cast()
    }

    fn push_ready(self, ready: &Ready<M>) {
        // SAFETY: as in `submit_new`; the ready queue is that of the current lane.
        unsafe { ready.push(self.node()) };
    }

    /// Queues the task that a transition of its state said to submit. The caller holds a
    /// reference, so the front is there until this returns.
    pub(super) fn submit(self) {
        Local::<M>::with_current(|local| match local {
            Some(local) if local.is(&self.header().front) => self.push_ready(local.ready()),
            _ => {
                // SAFETY: as in `submit_new`.
                match unsafe { self.header().front.post(self.node()) } {
                    // A lane that is gone has cancelled the task, or is about to.
                    Posted::Yes | Posted::Closed => {}
                }
            }
        });
    }

    /// The lane was gone before it got the task: it ends here, on the caller's thread.
    fn end_unsubmitted(self) {
        let _ = self.header().state.cancel();
        match self.header().state.start() {
            Start::Poll => unreachable!("cancelled a line above"),
            Start::Cancel => self.cancel_and_complete(),
        }
    }

    /// Notes that the task is to be cancelled, and has its lane do it.
    pub(super) fn cancel(self) {
        if self.header().state.cancel() == Wake::Submit {
            self.submit();
        }
    }

    /// Runs a task that was taken from its lane's ready queue.
    pub(super) fn run(self, local: &Local<M>) {
        self.adopt(local);
        match self.header().state.start() {
            Start::Poll => {}
            Start::Cancel => {
                self.disown(local);
                return self.cancel_and_complete();
            }
        }
        local.set_base(self.header().base);
        let polled = self.poll();
        local.set_base(Base::Global);
        if polled.is_ready() {
            self.disown(local);
            return self.complete();
        }
        match self.header().state.pause() {
            Pause::Idle => {}
            Pause::Requeue => self.push_ready(local.ready()),
        }
    }

    fn poll(self) -> Poll<()> {
        // SAFETY: the lane's reference outlives this borrowed waker.
        let waker = unsafe { waker::borrowed(self) };
        let mut cx = Context::from_waker(&waker);
        // SAFETY: RUNNING makes the body the lane's.
        self.use_body(|body| unsafe { (self.header().vtable.poll)(body, &mut cx) })
    }

    fn cancel_and_complete(self) {
        // SAFETY: RUNNING makes the body this thread's.
        self.use_body(|body| unsafe { (self.header().vtable.cancel)(body) });
        self.complete();
    }

    /// The output is stored: tell the joiner, and let go of the lane's reference.
    fn complete(self) {
        match self.header().state.complete() {
            Completed::Nothing => {}
            Completed::DropOutput => {
                // SAFETY: COMPLETE without a handle leaves the body to the lane.
                self.use_body(|body| unsafe { (self.header().vtable.clear)(body) });
            }
            Completed::WakeJoiner => {
                // SAFETY: COMPLETE and JOIN_WAKER make the cell the lane's.
                let waker = self
                    .header()
                    .join_waker
                    .with_mut(|cell| unsafe { (*cell).take() });
                if let Some(waker) = waker {
                    wake_quietly(waker);
                }
            }
        }
        self.release();
    }

    /// Moves the output to `to`.
    ///
    /// # Safety
    /// The task is complete, the caller is its join handle, and has not done this before; `to`
    /// is valid for writes of the output.
    pub(super) unsafe fn take_output(self, to: *mut u8) {
        // SAFETY: COMPLETE makes the body the handle's; the rest is the caller's promise.
        self.use_body(|body| unsafe { (self.header().vtable.take)(body, to) });
    }

    /// Drops the output, if it is still there.
    ///
    /// # Safety
    /// The task is complete and the caller is its join handle.
    pub(super) unsafe fn drop_output(self) {
        // SAFETY: COMPLETE makes the body the handle's.
        self.use_body(|body| unsafe { (self.header().vtable.clear)(body) });
    }

    pub(super) fn release(self) {
        match self.header().state.release() {
            Released::More => {}
            // SAFETY: it was the last reference.
            Released::Last => unsafe { self.free() },
        }
    }

    /// # Safety
    /// Nobody holds a reference any more.
    #[cold]
    unsafe fn free(self) {
        let (layout, _) = layout_of::<M>(self.header().vtable.layout);
        // SAFETY: nobody else is there; the body was complete, so this drops at most an output
        // that nobody wanted.
        self.use_body(|body| unsafe { (self.header().vtable.clear)(body) });
        // A waker that was not lent when its handle went away; its drop may panic.
        // SAFETY: as above.
        drop_quietly(
            self.header()
                .join_waker
                .with_mut(|cell| unsafe { (*cell).take() }),
        );
        // SAFETY: as above; nothing of the header is used after this but its memory.
        unsafe { std::ptr::drop_in_place(self.0.as_ptr()) };
        // SAFETY: allocated in `launch` with this layout.
        unsafe { dealloc(self.0.as_ptr().cast(), layout) };
    }
}

/// The list of a lane's tasks: only the lane calls these.
impl<M: Machine> TaskRef<M> {
    /// Enters the lane's list at the first run.
    pub(super) fn adopt(self, local: &Local<M>) {
        self.header().links.with_mut(|links| {
            // SAFETY: the lane owns the links of its tasks.
            let links = unsafe { &mut *links };
            if links.adopted {
                return;
            }
            links.adopted = true;
            links.older = local.newest.replace(Some(self));
            local.count_live(1);
            if let Some(older) = links.older {
                // SAFETY: as above; another task's links.
                older
                    .header()
                    .links
                    .with_mut(|links| unsafe { (*links).newer = Some(self) });
            }
        });
    }

    /// Leaves the lane's list.
    fn disown(self, local: &Local<M>) {
        // SAFETY: as in `adopt`.
        let (newer, older) = self
            .header()
            .links
            .with_mut(|links| unsafe { ((*links).newer.take(), (*links).older.take()) });
        local.count_live(-1);
        match newer {
            // SAFETY: as in `adopt`.
            Some(newer) => newer
                .header()
                .links
                .with_mut(|links| unsafe { (*links).older = older }),
            None => local.newest.set(older),
        }
        if let Some(older) = older {
            // SAFETY: as in `adopt`.
            older
                .header()
                .links
                .with_mut(|links| unsafe { (*links).newer = newer });
        }
    }

    /// Cancels a task of a lane that closes; it is in no queue.
    pub(super) fn cancel_at_close(self, local: &Local<M>) {
        self.disown(local);
        self.end_unsubmitted();
    }
}

/// Wakes somebody else's waker, whose panic must not end the lane.
pub(crate) fn wake_quietly(waker: Waker) {
    let woken = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| waker.wake()));
    if let Err(payload) = woken {
        drop_quietly(payload);
    }
}

/// # Safety
/// As for [`Deliver`], for the node of a task.
unsafe fn deliver_task<M: Machine>(node: NonNull<Node<M>>, ready: &Ready<M>) {
    // SAFETY: the node is that of a task, which is alive while its lane's reference is held.
    unsafe { ready.push(node) };
}

/// # Safety
/// As for [`Deliver`], for the node of a call.
unsafe fn deliver_call<M: Machine>(node: NonNull<Node<M>>, _ready: &Ready<M>) {
    // SAFETY: as in `deliver_task`.
    let call = unsafe { TaskRef::<M>::from_node(node) };
    match call.header().state.start() {
        Start::Cancel => return call.cancel_and_complete(),
        Start::Poll => {}
    }
    let mut cx = Context::from_waker(Waker::noop());
    // SAFETY: RUNNING makes the body the lane's.
    let polled = call.use_body(|body| unsafe { (call.header().vtable.poll)(body, &mut cx) });
    debug_assert!(polled.is_ready(), "a call is ready at its first poll");
    call.complete();
}
