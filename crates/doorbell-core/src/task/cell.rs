//! The allocation of a task: header and body; how it is run and freed.
//!
//! Who may touch what, and when:
//! * `node`: by the rules of the queue it is in; in none, by whom the state says may submit it.
//! * `body`: the worker while RUNNING; after COMPLETE the join handle, or whoever drops the last
//!   reference.
//! * `join_waker`: the join handle while `JOIN_WAKER` is not set, also once COMPLETE (then it was
//!   never left); the worker once both are.
//! * `home`: who has taken the own node from a queue; `links`: its home worker, which did so first.
//! * the raised node, behind the body: by the rules of the queue it is in; in none, by whom the state
//!   says may leave it.
//! * extras, behind that: nobody changes them, but whoever queues the task its time.

use super::Phase;
use super::behind::Behind;
use super::body::BodyVtable;
use super::extras::{Extras, Name};
use super::inheritance::RaisedNode;
use super::join::RawJoin;
use super::local::Local;
use super::state::{By, Completed, Pause, Released, Start, State};
use crate::link::{Deliver, Delivered, Node};
use crate::quiet::{drop_quietly, wake_quietly};
use crate::scheduler::RemoteRef;
use crate::wheel::Base;
use crate::worker::Remote;
use doorbell_machine::{Cell, Machine, Ordering, PtrWord};
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::panic::Location;
use std::ptr::NonNull;
use std::task::{Context, Poll, Waker};

/// What a worker does with the cell when it takes it from its mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Queue it on any worker of the scheduler; it is polled until it is ready.
    Task,
    /// As `Task`, and it never leaves its core: nor do its timers.
    Pinned,
    /// Run it at once, without a queue and without a pass; it is ready at its first poll.
    Call,
}

// The alignment is `inheritance::TASK_ALIGN`.
#[repr(C, align(16))]
pub(super) struct Header<M: Machine> {
    node: Node<M>,
    pub(super) state: State<M>,
    /// The worker that ran it last; before that, the one that it was launched on. With it goes a share
    /// of the scheduler.
    pub(super) last: M::Ptr<Remote<M>>,
    pub(super) vtable: &'static BodyVtable,
    /// The number of the worker whose list it is in: the one that ran it first.
    pub(super) home: M::Cell<Option<u16>>,
    pub(super) kind: Kind,
    /// Its class, as whoever launched it writes it.
    pub(super) rank: u8,
    /// The number of its group.
    pub(super) group: u8,
    pub(super) behind: Behind,
    /// Shows a checker who uses the body, which itself is of no machine.
    body_use: M::Cell<()>,
    pub(super) join_waker: M::Cell<Option<Waker>>,
    pub(super) links: M::Cell<Links<M>>,
}

/// The list of a worker's tasks.
pub(super) struct Links<M: Machine> {
    pub(super) newer: Option<TaskRef<M>>,
    pub(super) older: Option<TaskRef<M>>,
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

/// The layout of a task with that body and without extras, and the body's offset.
pub(super) fn layout_of<M: Machine>(body: Layout) -> (Layout, usize) {
    let (layout, offset) = Layout::new::<Header<M>>()
        .extend(body)
        .expect("a body that fits in memory fits with its header");
    (layout.pad_to_align(), offset)
}

/// Makes a task of a body and hands it to its worker. Returns the side that joins it.
///
/// `write` is called once with the address to write the body to. If the worker is gone, the task
/// is complete and cancelled when this returns.
///
/// # Safety
/// `write` writes a body of `vtable`'s type there and does not unwind after it has. The future
/// in it and its output may be sent to the worker's thread, and to wherever the join side goes.
pub unsafe fn launch<M: Machine>(
    remote: RemoteRef<M>,
    kind: Kind,
    vtable: &'static BodyVtable,
    write: impl FnOnce(*mut u8),
) -> RawJoin {
    // SAFETY: passed on from the caller.
    unsafe { launch_described(remote, kind, About::default(), vtable, write) }
}

/// What a task is launched with.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// See [`Local::rank`].
    pub rank: u8,
    /// Its name, if it has one.
    pub name: Option<&'a Name>,
    /// The number of its [group](crate::group), in which a place was
    /// [reserved](crate::group::Groups::reserve) for it, or the default one. `None`: that of the task
    /// of the same scheduler that launches it. Calls have none.
    pub group: Option<u8>,
    /// Whether workers of schedulers above may run it while its own are stuck in long polls: its polls are to be brief
    /// then, see [`Local::is_rescue`]. Of no effect on pinned tasks, and where no scheduler is above.
    pub rescuable: bool,
    /// Where it was spawned: kept if somebody is told of stalls.
    pub spawned_at: &'static Location<'static>,
}

impl Default for About<'_> {
    /// Of a task that is spawned where this is called.
    #[track_caller]
    fn default() -> Self {
        About {
            rank: 0,
            name: None,
            group: None,
            rescuable: false,
            spawned_at: Location::caller(),
        }
    }
}

/// As [`launch`], for a task of which more is said.
///
/// # Safety
/// As for [`launch`].
pub unsafe fn launch_described<M: Machine>(
    remote: RemoteRef<M>,
    kind: Kind,
    about: About<'_>,
    vtable: &'static BodyVtable,
    write: impl FnOnce(*mut u8),
) -> RawJoin {
    let group = TaskRef::join_group(&remote, kind, about.group);
    let (layout, offset) = layout_of::<M>(vtable.layout);
    let extras = Extras::of(remote.scheduler(), kind, &about);
    let has_raised_node = kind == Kind::Task && !remote.scheduler().above().is_empty();
    let layout = if has_raised_node {
        RaisedNode::<M>::behind(layout).0
    } else {
        layout
    };
    let layout = match &extras {
        None => layout,
        Some(_) => Extras::<M>::behind(layout).0,
    };
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
            last: M::Ptr::new(remote.into_raw()),
            home: M::Cell::new(None),
            vtable,
            kind,
            rank: about.rank,
            group,
            behind: Behind::of(extras.is_some(), has_raised_node, about.rescuable),
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
    if has_raised_node {
        // SAFETY: allocated for it above, and nobody else has the task yet.
        unsafe { task.write_raised_node() };
    }
    if let Some(extras) = extras {
        // SAFETY: allocated for them above, and nobody else has the task yet.
        unsafe { task.write_extras(extras) };
        task.note_spawn();
    }
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

    pub(super) fn header(&self) -> &Header<M> {
        // SAFETY: whoever has a TaskRef holds a reference of the task's count, or runs on its
        // worker while the worker's reference is held.
        unsafe { self.0.as_ref() }
    }

    pub(super) fn body(self) -> *mut u8 {
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

    pub(super) fn node(self) -> NonNull<Node<M>> {
        self.0.cast()
    }

    /// Runs a task whose own node was taken from a queue.
    #[inline]
    pub(super) fn run(self, local: &Local<M>) {
        self.adopt(local);
        self.run_by(By::Own, local);
    }

    /// Runs a task of which that node was taken from a queue.
    #[inline(always)]
    pub(super) fn run_by(self, by: By, local: &Local<M>) {
        match self.header().state.start(by) {
            Start::Poll => self.poll_by(by, local),
            Start::Cancel => self.end_running(by, local),
            Start::Over => self.dispose(local),
            Start::Late => {}
        }
    }

    #[inline(always)]
    fn poll_by(self, by: By, local: &Local<M>) {
        if by == By::Own {
            self.move_to(local);
        }
        let base = match self.header().kind {
            Kind::Pinned => Base::Local,
            Kind::Task | Kind::Call => Base::Global,
        };
        local.set_base(base);
        local.set_rank(self.header().rank);
        let polled = if self.header().has_extras() {
            self.poll_recorded(local)
        } else {
            self.poll(local)
        };
        local.set_base(Base::Global);
        if polled.is_ready() {
            return self.end(by, local);
        }
        match self.header().state.pause() {
            Pause::Idle => {}
            Pause::Cancel => self.end_running(by, local),
            Pause::Woken(woken) => match by {
                By::Own => self.follow(woken, || self.push_again(local)),
                By::Raised => self.follow_above(woken, local),
            },
        }
    }

    /// Ends a task that was taken from a queue of a worker that closes: it is in no list because of this worker.
    pub(super) fn end_queued(self, local: &Local<M>) {
        // Who polls it sees that it is cancelled, and ends it.
        let _ = self.header().state.cancel();
        self.run_by(By::Own, local);
    }

    /// Cancelled, and RUNNING is this worker's.
    fn end_running(self, by: By, local: &Local<M>) {
        // What its drop spawns is a child of its own.
        local.set_rank(self.header().rank);
        self.drop_future();
        self.end(by, local);
    }

    /// Its output is stored, and RUNNING is this worker's.
    #[inline]
    fn end(self, by: By, local: &Local<M>) {
        self.complete();
        // Else who takes its own node does that.
        if by == By::Own || !self.header().state.is_behind() {
            self.dispose(local);
        }
    }

    /// Notes where it runs. The caller has RUNNING.
    #[inline]
    fn move_to(self, local: &Local<M>) {
        let here = local.remote().as_ptr();
        // ORDER: Relaxed, as in `last`.
        if self.header().last.load(Ordering::Relaxed) != here {
            // ORDER: Relaxed, as in `last`.
            self.header().last.store(here, Ordering::Relaxed);
        }
    }

    pub(super) fn poll(self, local: &Local<M>) -> Poll<()> {
        local.poll_refs().during(self, |waker| {
            let mut cx = Context::from_waker(waker);
            // SAFETY: RUNNING makes the body the worker's.
            self.use_body(|body| unsafe { (self.header().vtable.poll)(body, &mut cx) })
        })
    }

    pub(super) fn drop_future(self) {
        // SAFETY: RUNNING makes the body this thread's.
        self.use_body(|body| unsafe { (self.header().vtable.cancel)(body) });
    }

    /// The output is stored: tell the joiner. The caller still has the reference that it runs by.
    pub(super) fn complete(self) {
        if self.header().has_extras() {
            self.note_finish();
        }
        match self.header().state.complete() {
            Completed::Nothing => {}
            Completed::DropOutput => {
                // SAFETY: COMPLETE without a handle leaves the body to the worker.
                self.use_body(|body| unsafe { (self.header().vtable.clear)(body) });
            }
            Completed::WakeJoiner => {
                // SAFETY: COMPLETE and JOIN_WAKER make the cell the worker's.
                let waker = self
                    .header()
                    .join_waker
                    .with_mut(|cell| unsafe { (*cell).take() });
                if let Some(waker) = waker {
                    wake_quietly(waker);
                }
            }
        }
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

    pub(crate) fn release(self) {
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
        let layout = self.layout();
        let layout = if self.header().has_extras() {
            Extras::<M>::behind(layout).0
        } else {
            layout
        };
        // SAFETY: nobody else is there; the body was complete, so this drops at most an output
        // that nobody wanted.
        self.use_body(|body| unsafe { (self.header().vtable.clear)(body) });
        // A waker that was not left when its handle went away; its drop may panic.
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
        self.leave_group();
        // ORDER: Relaxed; nobody else is there.
        let last = self.header().last.load(Ordering::Relaxed);
        // SAFETY: as above; nothing of the header is used after this but its memory.
        unsafe { std::ptr::drop_in_place(self.0.as_ptr()) };
        // SAFETY: allocated in `launch` with this layout.
        unsafe { dealloc(self.0.as_ptr().cast(), layout) };
        // SAFETY: the share that `launch` was given; the last worker is of the same scheduler.
        drop(unsafe { RemoteRef::from_raw(last) });
    }
}

/// # Safety
/// As for [`Deliver`], for the node of a task.
unsafe fn deliver_task<M: Machine>(_node: NonNull<Node<M>>) -> Delivered {
    Delivered::Task
}

/// A worker has taken the task of this node from its mailbox.
///
/// # Safety
/// The node's delivery said that it is a task's, just now on this worker's thread.
#[inline]
pub(super) unsafe fn take_delivered<M: Machine>(node: NonNull<Node<M>>, local: &Local<M>) {
    // SAFETY: the node is that of a task, which is alive while its worker's reference is held.
    let task = unsafe { TaskRef::<M>::from_node(node) };
    if task.header().state.is_complete() {
        // Completed elsewhere and sent home to leave the list.
        task.disown(local);
        task.release();
    } else {
        // SAFETY: as above, on the worker that it is pinned to.
        unsafe { local.push_pinned(node) };
    }
}

/// # Safety
/// As for [`Deliver`], for the node of a call.
unsafe fn deliver_call<M: Machine>(node: NonNull<Node<M>>) -> Delivered {
    // SAFETY: as in `deliver_task`.
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
