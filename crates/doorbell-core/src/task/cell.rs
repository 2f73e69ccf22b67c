//! The allocation of a task: header and body; how it is run and freed.
//!
//! Which thread may touch what:
//! * `node`: as the rules of its queue say. In no queue: the thread that a transition told to submit the task.
//! * `body`: the worker that set `RUNNING`. After `COMPLETE`: the join handle or, without one, that worker. What is
//!   left belongs to the thread that drops the last reference.
//! * `join_waker`: the join handle while `JOIN_WAKER` is clear; the worker once `JOIN_WAKER` and `COMPLETE` are set.
//! * `home`: the worker that first takes the own node from a queue writes it, once. Later only the holder of the
//!   worker's reference reads it.
//! * `length`: the worker that has taken the own node from a queue, until the poll by that node has paused.
//! * `links`: the home worker.
//! * the raised node, behind the body: as the rules of its queue say. In no queue: the thread that set `RAISED`.
//! * extras, behind that: never change, except the wake time, which the thread that queues the task writes.

use super::Phase;
use super::about::Kind;
use super::error::{JoinError, Payload};
use super::extras::Extras;
use super::home::Home;
use super::inheritance::RaisedNode;
use super::join::RawJoin;
use super::length::PollLength;
use super::schedule::Schedule;
use super::state::{By, Completed, Released, Start, State};
use crate::link::{Deliver, Delivered, Node};
use crate::quiet::{drop_quietly, wake_quietly};
use doorbell_machine::{Cell, Ordering, PtrWord};
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Context, Poll, Waker};

// The alignment is `inheritance::TASK_ALIGN`.
#[repr(C, align(16))]
pub(crate) struct Header<M: Schedule> {
    node: Node<M>,
    pub(crate) state: State<M>,
    /// The worker that ran it last by its own node; before the first such run, the one it was launched on. The task
    /// holds a share of that worker's scheduler.
    pub(crate) last: M::Ptr<M::Member>,
    pub(crate) vtable: &'static BodyVtable,
    /// The number of the home worker: the one that first took the own node from a queue. Its list has the task.
    pub(crate) home: M::Cell<Option<Home>>,
    pub(crate) kind: Kind,
    /// See [`About::rank`](super::About::rank).
    pub(crate) rank: u8,
    /// The number of its group.
    pub(crate) group: u8,
    pub(crate) behind: Behind,
    length: M::Cell<PollLength>,
    /// Shows uses of the body to a model checker: the body itself is not a machine's cell.
    body_use: M::Cell<()>,
    pub(crate) join_waker: M::Cell<Option<Waker>>,
    pub(crate) links: M::Cell<Links<M>>,
}

/// What lies behind the body of a task, and whether its future stays with its worker. In one byte, because a second byte would
/// make the header a word longer.
///
/// | bit | name | meaning |
/// |---|---|---|
/// | 0 | `EXTRAS` | extras lie behind the body |
/// | 1 | `RAISED_NODE` | a raised node lies behind the body: some scheduler is above the task's own |
/// | 2 | `STAYS` | only the worker's own thread may drop the future |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Behind(u8);

const EXTRAS: u8 = 1 << 0;
const RAISED_NODE: u8 = 1 << 1;
const STAYS: u8 = 1 << 2;
const _: () = assert!(EXTRAS + RAISED_NODE + STAYS == 0b111);

impl Behind {
    fn of<M: Schedule>(spec: &CellSpec<M>) -> Self {
        let bit = |is_set, bit| if is_set { bit } else { 0 };
        let extras = bit(spec.extras.is_some(), EXTRAS);
        let raised_node = bit(spec.has_raised_node, RAISED_NODE);
        Behind(extras | raised_node | bit(spec.stays, STAYS))
    }
}

impl<M: Schedule> Header<M> {
    /// Whether extras lie behind the body.
    #[inline(always)]
    pub(crate) fn has_extras(&self) -> bool {
        self.behind.0 & EXTRAS != 0
    }

    /// Whether a raised node lies behind the body: some scheduler is above the task's own.
    #[inline(always)]
    pub(crate) fn has_raised_node(&self) -> bool {
        self.behind.0 & RAISED_NODE != 0
    }

    /// Whether only the worker's own thread may drop the future.
    pub(crate) fn stays(&self) -> bool {
        self.behind.0 & STAYS != 0
    }
}

/// A task's neighbours in its home worker's list.
pub(crate) struct Links<M: Schedule> {
    pub(crate) newer: Option<TaskRef<M>>,
    pub(crate) older: Option<TaskRef<M>>,
}

/// The address of a task. It holds no reference.
#[derive(Debug)]
pub(crate) struct TaskRef<M: Schedule>(NonNull<Header<M>>);

impl<M: Schedule> Clone for TaskRef<M> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<M: Schedule> Copy for TaskRef<M> {}

/// The layout of a task's header and body, and the body's offset.
pub(crate) fn layout_of<M: Schedule>(body: Layout) -> (Layout, usize) {
    let (layout, offset) = Layout::new::<Header<M>>()
        .extend(body)
        .expect("a body that fits in memory fits with its header");
    (layout.pad_to_align(), offset)
}

/// What is known of a new task besides its body.
pub(crate) struct CellSpec<M: Schedule> {
    pub(crate) kind: Kind,
    pub(crate) rank: u8,
    pub(crate) group: u8,
    pub(crate) has_raised_node: bool,
    pub(crate) stays: bool,
    pub(crate) extras: Option<Extras<M>>,
    /// The worker it is launched on. The task gets a share of its scheduler, which [`Schedule::freed`] returns.
    pub(crate) last: *mut M::Member,
}

impl<M: Schedule> TaskRef<M> {
    /// Makes a task that is in no queue. Returns it with its join handle.
    ///
    /// # Safety
    /// As for [`launch`](crate::worker::launch), for `vtable` and `write`. `last` is alive, and the caller gives the
    /// task a share of its scheduler. If the group is not the default one, the caller has counted the task in it.
    pub(crate) unsafe fn new(
        spec: CellSpec<M>,
        vtable: &'static BodyVtable,
        write: impl FnOnce(*mut u8),
    ) -> (Self, RawJoin) {
        let (layout, offset) = layout_of::<M>(vtable.layout);
        let layout = if spec.has_raised_node {
            RaisedNode::<M>::behind(layout).0
        } else {
            layout
        };
        let layout = match &spec.extras {
            None => layout,
            Some(_) => Extras::<M>::behind(layout).0,
        };
        // SAFETY: the layout is that of a header and something, so its size is not zero.
        let Some(memory) = NonNull::new(unsafe { alloc(layout) }) else {
            handle_alloc_error(layout)
        };
        let deliver: Deliver<M> = match spec.kind {
            Kind::Task | Kind::Pinned => deliver_task,
            Kind::Call => deliver_call,
        };
        let header = memory.cast::<Header<M>>();
        // SAFETY: freshly allocated with room for the header.
        unsafe {
            header.write(Header {
                node: Node::new(deliver),
                state: State::new(),
                last: M::Ptr::new(spec.last),
                home: M::Cell::new(None),
                vtable,
                kind: spec.kind,
                rank: spec.rank,
                group: spec.group,
                length: M::Cell::new(PollLength::default()),
                behind: Behind::of(&spec),
                body_use: M::Cell::new(()),
                join_waker: M::Cell::new(None),
                links: M::Cell::new(Links {
                    newer: None,
                    older: None,
                }),
            });
        }
        // SAFETY: the offset lies inside the allocation.
        let body = unsafe { memory.add(offset) };
        write(body.as_ptr());
        let task = TaskRef(header);
        if spec.has_raised_node {
            // SAFETY: allocated for it above, and only the caller has the task yet.
            unsafe { task.write_raised_node() };
        }
        if let Some(extras) = spec.extras {
            // SAFETY: allocated for them above, and only the caller has the task yet.
            unsafe { task.write_extras(extras) };
        }
        // SAFETY: this is the one join handle that a new task's state counts.
        let join = unsafe { RawJoin::new(task, body) };
        (task, join)
    }

    /// # Safety
    /// `node` is that of a task that is alive.
    pub(crate) unsafe fn from_node(node: NonNull<Node<M>>) -> Self {
        // The node is the header's first field.
        TaskRef(node.cast())
    }

    /// The task that this is the own node of; `None` if it is another node, or if that cannot be told.
    ///
    /// # Safety
    /// `node` is alive.
    pub(crate) unsafe fn of_task_node(node: NonNull<Node<M>>) -> Option<Self> {
        // SAFETY: the caller's promise. A function with the same code says too that the node is a task's.
        let is_task = unsafe { node.as_ref() }.is_delivered_by(deliver_task::<M>);
        // SAFETY: as said just now.
        is_task.then(|| unsafe { Self::from_node(node) })
    }

    /// The rank of the task with that node.
    ///
    /// # Safety
    /// `node` is one of a task that is alive.
    pub(crate) unsafe fn rank_of(node: NonNull<Node<M>>) -> u8 {
        // SAFETY: passed on.
        unsafe { super::queue_node::rank_of(node) }
    }

    /// # Safety
    /// `raw` came from [`TaskRef::as_raw`] of a task that is alive.
    pub(crate) unsafe fn from_raw(raw: *const ()) -> Self {
        // SAFETY: the address of a header is not null.
        TaskRef(unsafe { NonNull::new_unchecked(raw.cast_mut().cast()) })
    }

    pub(crate) fn as_raw(self) -> NonNull<()> {
        self.0.cast()
    }

    pub(crate) fn header(&self) -> &Header<M> {
        // SAFETY: the holder of a TaskRef has a counted reference, or runs on the task's worker while that holds the
        // worker's reference.
        unsafe { self.0.as_ref() }
    }

    pub(crate) fn body(self) -> *mut u8 {
        let (_, offset) = layout_of::<M>(self.header().vtable.layout);
        // SAFETY: as in `TaskRef::new`; the pointer is valid for the whole allocation.
        unsafe { self.0.as_ptr().cast::<u8>().add(offset) }
    }

    /// What the task does now.
    pub(crate) fn phase(self) -> Phase {
        self.header().state.phase()
    }

    /// How long its last polls were. The caller has taken the own node from a queue.
    #[inline(always)]
    pub(crate) fn length(self) -> PollLength {
        // SAFETY: the own node is in one place at a time, and with it goes the right to this cell.
        self.header().length.with(|length| unsafe { *length })
    }

    /// Notes it. As [`TaskRef::length`]; the poll by the own node has not paused yet.
    #[cold]
    pub(crate) fn set_length(self, length: PollLength) {
        // SAFETY: as in `length`.
        self.header().length.with_mut(|it| unsafe { *it = length });
    }

    /// Calls `f` with the body's address, visible to a model checker. What it does there is the user's.
    fn use_body<R>(self, f: impl FnOnce(*mut u8) -> R) -> R {
        let body = self.body();
        self.header().body_use.with_mut(|_| M::user(|| f(body)))
    }

    pub(crate) fn node(self) -> NonNull<Node<M>> {
        self.0.cast()
    }

    /// Polls the future. The caller has RUNNING.
    #[inline(always)]
    pub(crate) fn poll(self, waker: &Waker) -> Poll<()> {
        let mut cx = Context::from_waker(waker);
        // SAFETY: RUNNING makes the body the worker's.
        self.use_body(|body| unsafe { (self.header().vtable.poll)(body, &mut cx) })
    }

    pub(crate) fn drop_future(self) {
        // SAFETY: RUNNING makes the body this thread's.
        self.use_body(|body| unsafe { (self.header().vtable.cancel)(body) });
    }

    /// Marks the task complete, once its output is stored, and wakes the joiner. The caller still holds the reference
    /// of its run.
    pub(crate) fn complete(self) {
        match self.header().state.complete() {
            Completed::Nothing => {}
            Completed::DropOutput => {
                // SAFETY: with COMPLETE and no handle, the body is still the worker's.
                self.use_body(|body| unsafe { (self.header().vtable.clear)(body) });
            }
            Completed::WakeJoiner => {
                // SAFETY: COMPLETE and JOIN_WAKER make the cell the worker's.
                let waker = self
                    .header()
                    .join_waker
                    .with_mut(|cell| unsafe { (*cell).take() });
                if let Some(waker) = waker {
                    wake_quietly::<M>(waker);
                }
            }
        }
    }

    /// Moves the output to `to`.
    ///
    /// # Safety
    /// The task is complete, the caller is its join handle, and has not done this before; `to`
    /// is valid for writes of the output.
    pub(crate) unsafe fn take_output(self, to: *mut u8) {
        // SAFETY: COMPLETE makes the body the handle's; the rest is the caller's promise.
        self.use_body(|body| unsafe { (self.header().vtable.take)(body, to) });
    }

    /// Drops the output, if it is still there.
    ///
    /// # Safety
    /// The task is complete and the caller is its join handle.
    pub(crate) unsafe fn drop_output(self) {
        // SAFETY: COMPLETE makes the body the handle's.
        self.use_body(|body| unsafe { (self.header().vtable.clear)(body) });
    }

    pub(crate) fn release(self) {
        match self.header().state.release() {
            Released::More => {}
            // SAFETY: it was the last reference.
            Released::Last => unsafe { self.free() },
        }
    }

    /// # Safety
    /// There are no references.
    #[cold]
    unsafe fn free(self) {
        let layout = self.layout();
        let layout = if self.header().has_extras() {
            Extras::<M>::behind(layout).0
        } else {
            layout
        };
        // SAFETY: only the caller has the task. It was complete, so this drops at most an output that was not taken.
        self.use_body(|body| unsafe { (self.header().vtable.clear)(body) });
        // A waker that was in the cell, but not left to the worker, when the handle was dropped. Its drop may panic.
        // SAFETY: as above.
        drop_quietly(
            self.header()
                .join_waker
                .with_mut(|cell| unsafe { (*cell).take() }),
        );
        // SAFETY: as above.
        unsafe { self.drop_extras() };
        // SAFETY: as above.
        unsafe { self.drop_raised_node() };
        // ORDER: Relaxed; only the caller has the task.
        let last = self.header().last.load(Ordering::Relaxed);
        // SAFETY: as above; the header is not used after this, and only its memory is freed.
        unsafe { std::ptr::drop_in_place(self.0.as_ptr()) };
        // SAFETY: allocated in `TaskRef::new` with this layout.
        unsafe { dealloc(self.0.as_ptr().cast(), layout) };
        // SAFETY: the task's own share; the last worker is of the same scheduler.
        unsafe { M::freed(last) };
    }
}

/// # Safety
/// As for [`Deliver`], for the node of a task.
// Not inlined, because its address is compared: of a function that may be, each codegen unit has a copy of its own.
#[inline(never)]
unsafe fn deliver_task<M: Schedule>(_node: NonNull<Node<M>>) -> Delivered {
    Delivered::Task
}

/// # Safety
/// As for [`Deliver`], for the node of a call.
unsafe fn deliver_call<M: Schedule>(node: NonNull<Node<M>>) -> Delivered {
    // SAFETY: the caller's promise: the node is that of a call, which is alive.
    let call = unsafe { TaskRef::<M>::from_node(node) };
    match call.header().state.start(By::Own) {
        Start::Cancel => call.drop_future(),
        Start::Poll => {
            let mut cx = Context::from_waker(Waker::noop());
            // SAFETY: RUNNING makes the body the worker's.
            let polled =
                call.use_body(|body| unsafe { (call.header().vtable.poll)(body, &mut cx) });
            debug_assert!(polled.is_ready(), "a call is ready at its first poll");
        }
        Start::Late | Start::Over => unreachable!("a call is in no list, and has one node"),
    }
    call.complete();
    call.release();
    Delivered::Done
}

// The body: all that depends on the type of the future, behind a table of functions. So the rest of a task is
// compiled once per machine, not once per future type.

/// What a body holds.
enum Stage<F: Future> {
    Future(F),
    Output(Result<F::Output, JoinError>),
    Gone,
}

/// The functions of a body. Their first argument is its address.
#[derive(Debug)]
pub struct BodyVtable {
    pub(crate) layout: Layout,
    /// Polls the future. On `Ready` the output is stored; a panic counts as `Ready` and is stored as the output, once
    /// the future has been dropped while the panic unwinds.
    pub(crate) poll: unsafe fn(*mut u8, &mut Context<'_>) -> Poll<()>,
    /// Drops the future and stores `Cancelled` or, if that drop panics, the panic.
    pub(crate) cancel: unsafe fn(*mut u8),
    /// Moves the output, a `Result<T, JoinError>`, to the second address.
    pub(crate) take: unsafe fn(*mut u8, *mut u8),
    /// Drops what is left.
    pub(crate) clear: unsafe fn(*mut u8),
}

impl BodyVtable {
    /// The table of bodies that hold an `F`.
    pub const fn of<F: Future>() -> &'static BodyVtable {
        const {
            &BodyVtable {
                layout: Layout::new::<Stage<F>>(),
                poll: poll::<F>,
                cancel: cancel::<F>,
                take: take::<F>,
                clear: clear::<F>,
            }
        }
    }
}

/// Writes a body that holds `future` to the address that [`launch`](crate::worker::launch) passes.
///
/// # Safety
/// `body` is valid for writes of the layout of `BodyVtable::of::<F>()` and holds nothing.
pub unsafe fn write_body<F: Future>(body: *mut u8, future: F) {
    // SAFETY: the caller's promise.
    unsafe { body.cast::<Stage<F>>().write(Stage::Future(future)) };
}

/// Dropped while a poll unwinds: drops the future, which so sees that its thread panics.
struct DropsFuture<F: Future>(*mut Stage<F>);

impl<F: Future> Drop for DropsFuture<F> {
    fn drop(&mut self) {
        // SAFETY: the poll that unwinds has the stage, and uses it no more.
        unsafe { clear::<F>(self.0.cast()) };
    }
}

/// # Safety
/// `body` holds a `Stage<F>` that only the caller uses now.
unsafe fn poll<F: Future>(body: *mut u8, cx: &mut Context<'_>) -> Poll<()> {
    let stage = body.cast::<Stage<F>>();
    let polled = catch_unwind(AssertUnwindSafe(|| {
        let unwinds = DropsFuture(stage);
        // SAFETY: the caller's promise.
        let polled = match unsafe { &mut *stage } {
            // SAFETY: the body never moves: it stays in the task's allocation until dropped.
            Stage::Future(future) => unsafe { Pin::new_unchecked(future) }.poll(cx),
            Stage::Output(_) | Stage::Gone => unreachable!("a complete task was polled"),
        };
        std::mem::forget(unwinds);
        polled
    }));
    let output = match polled {
        Ok(Poll::Pending) => return Poll::Pending,
        Ok(Poll::Ready(output)) => Ok(output),
        Err(payload) => Err(JoinError::Panicked(Payload::new(payload))),
    };
    // SAFETY: as above.
    unsafe { finish(stage, output) };
    Poll::Ready(())
}

/// # Safety
/// As for [`poll`].
unsafe fn cancel<F: Future>(body: *mut u8) {
    // SAFETY: passed on from the caller.
    unsafe { finish(body.cast::<Stage<F>>(), Err(JoinError::Cancelled)) };
}

/// Drops the future and stores `output`, or the panic of that drop.
///
/// # Safety
/// `stage` is valid and only the caller uses it now.
unsafe fn finish<F: Future>(stage: *mut Stage<F>, output: Result<F::Output, JoinError>) {
    let dropped = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: valid, and the place is overwritten below without another drop.
        unsafe { std::ptr::drop_in_place(stage) };
    }));
    let output = match dropped {
        Ok(()) => output,
        Err(payload) => {
            drop_quietly(output);
            Err(JoinError::Panicked(Payload::new(payload)))
        }
    };
    // SAFETY: valid for writes; the old value was dropped above.
    unsafe { stage.write(Stage::Output(output)) };
}

/// # Safety
/// `body` holds a `Stage<F>` with an output, and only the caller uses it now. `to` is valid for writes of a
/// `Result<F::Output, JoinError>`.
unsafe fn take<F: Future>(body: *mut u8, to: *mut u8) {
    // SAFETY: the caller's promise.
    let stage = unsafe { std::mem::replace(&mut *body.cast::<Stage<F>>(), Stage::Gone) };
    let Stage::Output(output) = stage else {
        unreachable!("an output was taken twice, or before it was there");
    };
    // SAFETY: the caller's promise.
    unsafe { to.cast::<Result<F::Output, JoinError>>().write(output) };
}

/// # Safety
/// `body` holds a `Stage<F>` that only the caller uses now.
unsafe fn clear<F: Future>(body: *mut u8) {
    let stage = body.cast::<Stage<F>>();
    let dropped = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: the caller's promise. In place: a future may be too large for the stack.
        unsafe { std::ptr::drop_in_place(stage) };
    }));
    // SAFETY: valid for writes; the old value was dropped above.
    unsafe { stage.write(Stage::Gone) };
    if let Err(payload) = dropped {
        drop_quietly(payload);
    }
}

/// A future that calls a closure at its first poll: the body of a call.
#[derive(Debug)]
pub struct Once<F>(Option<F>);

impl<F> Once<F> {
    /// A future that returns `f`'s result.
    pub fn new(f: F) -> Self {
        Once(Some(f))
    }
}

// The closure is never pinned: `poll` moves it out to call it.
impl<F> Unpin for Once<F> {}

impl<R, F: FnOnce() -> R> Future for Once<F> {
    type Output = R;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<R> {
        let f = self.0.take().expect("polled again after it was ready");
        Poll::Ready(f())
    }
}
