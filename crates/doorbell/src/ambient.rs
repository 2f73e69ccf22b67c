//! How free functions find the current runtime: the thread has a pointer to a frame, and the frame has the
//! runtime as an object-safe trait. This costs one indirect call, whatever the machine.

use crate::blocking::Blocking;
use crate::class_workers::{OpenError, Opened};
use crate::group::{Group, TooManyGroups};
use crate::handle::Handle;
use crate::here::on_its_machine;
use crate::metrics::Metrics;
use crate::net::Registered;
use crate::worker_local::Locals;
use crate::{
    Class, ClassKind, CoreId,
    metrics::{Policy, WorkerPolicy},
    switches::Switches,
};
use doorbell_core::bell::WorkerState;
use doorbell_core::call::{ErasedCall, ManyTable, RawMany};
use doorbell_core::mailbox::Gone;
use doorbell_core::parcel::{Drawn, Room, Run};
use doorbell_core::task::{About, BodyVtable, Kind, RawJoin};
use doorbell_core::wheel::Holds;
use doorbell_core::wheel::Window;
use doorbell_core::worker::timer::RawTimer;
use doorbell_core::worker::{Local, PollBudget, TaskSeen};
use doorbell_machine::slots;
use event_listener::EventListener;
use std::alloc::Layout;
use std::cell::Cell;
use std::io;
use std::os::fd::BorrowedFd;
use std::pin::Pin;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;

/// A runtime without its machine.
pub(crate) trait Ambient: std::fmt::Debug + Send + Sync {
    /// Number of cores of the runtime, at least one.
    fn cores(&self) -> usize;

    /// Whether the core, which is below `cores()`, is on.
    fn is_on(&self, core: usize) -> bool;

    /// The room in the mailbox of the core, which is below `cores()`, if it has a limit.
    fn room(&self, core: usize) -> Option<&Arc<crate::room::Room>>;

    /// Takes a core off, or puts it back. Returns whether that changed anything; then the workers of the core
    /// must call [`Ambient::follow_core`]. `None` if the core is the last one that is on.
    fn set_on(&self, core: usize, on: bool) -> Option<bool>;

    /// Has the calling worker, which is one of this core, follow the core's state: on or off.
    ///
    /// # Errors
    /// If the OS does not let the worker move to other CPUs; all else has been done.
    fn follow_core(&self, core: usize) -> Result<(), crate::error::ThreadError>;

    /// Starts the workers of a class, unless they have been started. Tasks launched for a class without
    /// workers go to the Fair workers.
    ///
    /// # Errors
    /// If one of their threads was not started: the next call tries again. Or if the runtime has ended.
    fn open(&self, kind: ClassKind) -> Result<Opened, OpenError>;

    /// Whether the runtime has been told to end.
    fn has_ended(&self) -> bool;

    /// Whether a task of this class can be launched without [`Ambient::open`]: its workers have been started,
    /// or there will be none.
    fn is_open(&self, kind: ClassKind) -> bool;

    /// The classes whose workers have been started.
    fn opened(&self) -> Vec<ClassKind>;

    /// How the OS schedules each worker that has been started. Waits for workers that have not asked the OS
    /// yet.
    fn policies(&self) -> Vec<WorkerPolicy>;

    /// The rank of what the calling worker runs now.
    fn current_rank(&self) -> u8;

    /// Sets that rank, for a call.
    fn set_current_rank(&self, rank: u8);

    /// The rank of what the calling worker runs now, if that is a raised task of a lower class.
    fn raised_rank(&self) -> Option<u8>;

    /// Has workers of this core that are throttled look at what was posted to them.
    fn rouse(&self, core: usize);

    /// The next core in turn, for a task that may run anywhere and whose spawner is not a worker of this
    /// runtime.
    fn next_core(&self) -> usize;

    /// Reserves a place in a group for the task that is launched next. Returns the group's number in the Fair
    /// scheduler of this runtime.
    ///
    /// # Errors
    /// If the runtime already serves as many other groups as it can.
    fn reserve_in_group(&self, group: &Group) -> Result<u8, TooManyGroups>;

    /// Makes a task of a body, with this class and description, and hands it to the worker of `core`, which
    /// is below `cores()`.
    ///
    /// # Safety
    /// As for [`doorbell_core::worker::launch_described`]; `write` is called once.
    unsafe fn launch(
        &self,
        core: usize,
        kind: Kind,
        class: Class,
        about: About<'_>,
        vtable: &'static BodyVtable,
        write: &mut dyn FnMut(*mut u8),
    ) -> RawJoin;

    /// As [`Ambient::launch`], pinned to the worker of this core and kind, also if the class is not open yet:
    /// for the worker itself.
    ///
    /// # Safety
    /// As for [`Ambient::launch`].
    unsafe fn launch_here(
        &self,
        core: usize,
        workers: ClassKind,
        class: Class,
        about: About<'_>,
        vtable: &'static BodyVtable,
        write: &mut dyn FnMut(*mut u8),
    ) -> RawJoin;

    /// Calls the worker of this core and kind, which has been started, and waits.
    ///
    /// # Safety
    /// As for [`doorbell_core::call::wait_for`].
    unsafe fn call_blocking(
        &self,
        core: usize,
        workers: ClassKind,
        call: &ErasedCall,
    ) -> Result<(), Gone>;

    /// Draws a parcel for a posted closure. `None` if there is no such core, if it is off, or if its mailbox
    /// has a limit that is to be heeded.
    fn draw(&self, core: usize, room: Room, limit: Limit) -> Option<Drawn>;

    /// Posts a parcel that was drawn for this core and filled.
    ///
    /// # Errors
    /// [`Gone`] if the worker has ended; the closure is still in the parcel.
    ///
    /// # Safety
    /// As for [`doorbell_core::parcel::Pool::send`].
    unsafe fn send(&self, core: usize, drawn: Drawn, run: Run) -> Result<(), Gone>;

    /// Posts one call to the Fair worker of each of these cores. There is at least one, and all are below
    /// `cores()`.
    ///
    /// # Safety
    /// As for [`doorbell_core::call::launch_many`]; `write` is called once.
    unsafe fn call_many(
        &self,
        cores: &[usize],
        table: &'static ManyTable,
        data: Layout,
        write: &mut dyn FnMut(NonNull<u8>),
    ) -> RawMany;

    /// Runs a future on the calling thread. `holds` says whether the thread already holds a paused clock.
    fn block_on(&self, holds: Holds, future: Pin<&mut dyn Future<Output = ()>>);

    /// Runs what a thread for blocking closures does, inside the hooks around threads.
    fn around_blocking(&self, work: &mut dyn FnMut());

    /// Has the OS schedule the calling thread as the workers of a class, on all CPUs of the runtime.
    fn schedule_thread_as(&self, kind: ClassKind) -> Option<Policy>;

    /// Whether the clock is paused.
    fn has_paused_clock(&self) -> bool;

    /// Moves a paused clock on by `duration_ns`. The listener is notified when the runtime is quiescent.
    /// `None` if the clock is not paused.
    fn advance(&self, duration_ns: u64) -> Option<EventListener>;

    /// The time by the runtime's clock.
    fn now_ns(&self) -> u64;

    /// The moment `duration_ns` from now, never early by the OS's clock.
    fn after_ns(&self, duration_ns: u64) -> u64;

    /// Arms a timer: on the calling worker, or from another thread on a Fair worker of this runtime. `None`
    /// if its deadline has passed, which is not looked at if the deadline `is_ahead`.
    ///
    /// # Errors
    /// [`Gone`] if the worker has ended.
    fn arm_timer(
        &self,
        window: Window,
        is_ahead: bool,
        waker: &Waker,
    ) -> Result<Option<RawTimer>, Gone>;

    /// Registers a descriptor with the scheduler of the calling worker, or from another thread with that of class Fair.
    ///
    /// # Errors
    /// If the descriptor cannot be waited for.
    fn register(&self, fd: BorrowedFd<'static>) -> io::Result<Box<dyn Registered>>;

    /// The threads for blocking closures.
    fn blocking(&self) -> &dyn Blocking;

    /// The counts at this moment.
    fn metrics(&self) -> Metrics;

    /// The tasks in the list of the calling worker. Empty if the caller is not a worker of this runtime.
    fn tasks_here(&self) -> Vec<TaskSeen>;

    /// What the Fair worker of `core`, which is below `cores()`, does now.
    fn worker_state(&self, core: usize) -> WorkerState;

    /// The current settings of the switches.
    fn switches(&self) -> Switches;

    /// Changes the switches.
    fn set_switches(&self, switches: Switches);
}

/// What a post does about the limit of a mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    /// The post has no place yet: it must heed the limit.
    Heed,
    /// The post has a place, or needs none.
    Settled,
}

/// The role of a thread in a runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// It runs blocking closures.
    Blocking,
    /// It is inside `block_on`.
    Inside,
    /// It is a worker, or has only entered the runtime.
    Other,
}

/// A runtime that a thread has entered. The frames of a thread form a stack, linked from the newest.
pub(crate) struct Frame {
    handle: Handle,
    /// The core whose worker the thread is; `None` for other threads.
    core: Option<usize>,
    /// The kind of class whose worker the thread is; meaningless on other threads.
    kind: ClassKind,
    role: Role,
    /// The worker's `worker_local!` values; empty on other threads.
    locals: Locals,
    /// The poll budget of the future inside `block_on`. A worker has a budget of its own.
    budget: PollBudget,
    /// Where a worker has entered a runtime that is not its own: the poll in which it did. After that poll the frame
    /// counts no more. A local task may keep it, and the worker polls others meanwhile.
    entered_in: Option<u64>,
    older: Cell<*const Frame>,
}

/// Keeps a frame on its thread's stack of frames. These may be dropped in any order, also while the frame is
/// borrowed: the frame then lives until the borrow ends.
pub(crate) struct EnteredRuntime {
    /// `Rc` also keeps this on the thread that entered.
    frame: Rc<Frame>,
}

/// Enters a runtime on this thread, which is not one of its workers.
pub(crate) fn enter(handle: Handle) -> EnteredRuntime {
    push(handle, None, ClassKind::Fair, Role::Other)
}

/// Enters a runtime as its worker of a core and a class.
pub(crate) fn enter_worker(handle: Handle, core: usize, kind: ClassKind) -> EnteredRuntime {
    push(handle, Some(core), kind, Role::Other)
}

/// Enters a runtime on a thread inside `block_on`.
pub(crate) fn enter_block_on(handle: Handle) -> EnteredRuntime {
    push(handle, None, ClassKind::Fair, Role::Inside)
}

/// Whether the calling thread already holds the clock of this runtime, if that is paused: inside `block_on`
/// or a blocking closure.
pub(crate) fn holds_clock_of(handle: &Handle) -> Holds {
    find(|frame| {
        let same = std::ptr::addr_eq(frame.handle.inner(), handle.inner());
        (same && frame.role != Role::Other).then_some(Holds::Yes)
    })
    .unwrap_or(Holds::No)
}

/// Enters a runtime on a thread for blocking closures.
pub(crate) fn enter_blocking(handle: Handle) -> EnteredRuntime {
    push(handle, None, ClassKind::Fair, Role::Blocking)
}

fn push(handle: Handle, core: Option<usize>, kind: ClassKind, role: Role) -> EnteredRuntime {
    let frame = Rc::new(Frame {
        handle,
        core,
        kind,
        role,
        locals: Locals::default(),
        budget: PollBudget::default(),
        entered_in: core.map_or_else(poll_number, |_| None),
        older: Cell::new(slots::ambient().cast()),
    });
    // SAFETY: only this module uses the slot. `EnteredRuntime` takes the frame off the stack before the frame
    // goes away.
    unsafe { slots::set_ambient(Rc::as_ptr(&frame).cast()) };
    EnteredRuntime { frame }
}

/// The number of the poll that the calling worker is inside of; `None` on a thread that is not a worker.
fn poll_number() -> Option<u64> {
    on_its_machine!(M => Local::<M>::with_current(|worker| worker.map(Local::poll_number)))
}

impl EnteredRuntime {
    /// Called before each poll of the future inside `block_on`: refills its budget.
    pub(crate) fn begin_poll(&self) {
        self.frame.budget.refill();
    }

    /// Drops the `worker_local!` values of a worker that has ended, while their destructors still find the runtime.
    pub(crate) fn end_locals(&self) {
        self.frame.locals.end();
    }
}

impl Drop for EnteredRuntime {
    fn drop(&mut self) {
        let mine = Rc::as_ptr(&self.frame);
        let older = self.frame.older.get();
        let mut newer = slots::ambient().cast::<Frame>();
        if newer == mine {
            // SAFETY: as in `push`; the older frame is still on the stack.
            unsafe { slots::set_ambient(older.cast()) };
            return;
        }
        // Dropped out of order: unlink it from the frame above.
        // SAFETY: every frame on the stack is alive until its `EnteredRuntime` is dropped here.
        while let Some(frame) = unsafe { newer.as_ref() } {
            if frame.older.get() == mine {
                frame.older.set(older);
                return;
            }
            newer = frame.older.get();
        }
    }
}

/// The newest frame of this thread that counts; null if there is none.
#[inline]
fn newest() -> *const Frame {
    let mut frame = slots::ambient().cast::<Frame>();
    // SAFETY: every frame on the stack is alive, and nothing in here takes one off.
    while let Some(it) = unsafe { frame.as_ref() }
        && it.is_over()
    {
        frame = it.older.get();
    }
    frame
}

/// The newest frame of this thread, kept alive by the returned `Rc`.
#[inline]
fn current() -> Option<Rc<Frame>> {
    let frame = newest();
    if frame.is_null() {
        return None;
    }
    // SAFETY: it is on the stack.
    Some(unsafe { keep(frame) })
}

/// # Safety
/// The frame is on this thread's stack of frames.
#[inline]
unsafe fn keep(frame: *const Frame) -> Rc<Frame> {
    // SAFETY: a frame is made by `Rc::new` on this thread, and its `EnteredRuntime` holds a count for as
    // long as it is on the stack.
    unsafe { Rc::increment_strong_count(frame) };
    // SAFETY: as above; this `Rc` owns the count that was added.
    unsafe { Rc::from_raw(frame) }
}

/// Calls `f` with the frame of the calling worker, also if it has entered another runtime since.
#[inline]
pub(crate) fn with_worker<R>(f: impl FnOnce(Option<&Frame>) -> R) -> R {
    let worker = find(|frame| frame.core.is_some().then_some(std::ptr::from_ref(frame)));
    // SAFETY: the frame was found on the stack.
    let worker = worker.map(|worker| unsafe { keep(worker) });
    f(worker.as_deref())
}

/// Calls `f` with the newest frame of this thread. A user's destructors may run inside `f` and leave the
/// runtime; the frame stays until `f` returns.
#[inline]
pub(crate) fn with_current<R>(f: impl FnOnce(Option<&Frame>) -> R) -> R {
    f(current().as_deref())
}

/// The newest frame of this thread. The place of the panic is the caller's, which a closure for [`with_current`] does
/// not have.
///
/// # Panics
/// If this thread has entered no runtime.
#[track_caller]
#[inline]
pub(crate) fn expect_current() -> Rc<Frame> {
    match current() {
        Some(frame) => frame,
        None => panic!("{}", crate::error::NoRuntime),
    }
}

/// Calls `f` with the newest frame of this thread, without keeping it alive: `f` takes no frame off and calls
/// no code of a user.
#[inline]
pub(crate) fn peek<R>(f: impl FnOnce(Option<&Frame>) -> R) -> R {
    // SAFETY: every frame on the stack is alive, and nothing in `f` takes one off.
    f(unsafe { newest().as_ref() })
}

impl Frame {
    /// Whether the poll in which a worker entered it has ended.
    #[inline]
    fn is_over(&self) -> bool {
        self.entered_in.is_some() && self.entered_in != poll_number()
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// The core whose worker the thread is; `None` on other threads.
    pub(crate) fn core(&self) -> Option<usize> {
        self.core
    }

    /// The class of what the thread runs now.
    #[inline]
    pub(crate) fn class(&self) -> Class {
        if self.kind == ClassKind::Batch || self.core.is_none() {
            // A Batch worker has no class below it, and a thread that is not a worker runs no raised tasks.
            return Class::any_of(self.kind);
        }
        if let Some(rank) = self.handle.inner().raised_rank() {
            return Class::of_rank(rank);
        }
        match self.kind {
            ClassKind::Fair | ClassKind::Batch => Class::FAIR,
            // Before the worker's first task, for example in hooks, no rank has been set.
            ClassKind::Rt => Class::of_rank(self.handle.inner().current_rank()).max(Class::rt(1)),
        }
    }

    /// The class of what the thread runs now, or the lowest class of its worker, if that is higher.
    pub(crate) fn urgency(&self) -> Class {
        let lowest = match self.kind {
            ClassKind::Rt => Class::rt(1),
            ClassKind::Fair => Class::FAIR,
            ClassKind::Batch => Class::BATCH,
        };
        self.class().max(lowest)
    }

    /// The kind of class whose worker the thread is; meaningless on other threads.
    pub(crate) fn kind(&self) -> ClassKind {
        self.kind
    }

    pub(crate) fn locals(&self) -> &Locals {
        &self.locals
    }

    /// The core for a task that may run anywhere: the caller's own core, or the next in turn if the caller is
    /// not a worker. On its own core a task of a higher class runs at once and interrupts no other core.
    pub(crate) fn next_core(&self) -> usize {
        self.core.unwrap_or_else(|| self.handle.inner().next_core())
    }
}

/// The first value that `f` returns for a frame of this thread, from the newest frame on. `f` takes no frame
/// off and calls no code of a user.
fn find<R>(f: impl Fn(&Frame) -> Option<R>) -> Option<R> {
    let mut frame = slots::ambient().cast::<Frame>();
    // SAFETY: every frame on the stack is alive, and nothing in here takes one off.
    while let Some(it) = unsafe { frame.as_ref() } {
        let found = f(it);
        if found.is_some() {
            return found;
        }
        frame = it.older.get();
    }
    None
}

/// Calls `f` with the budget of the innermost `block_on` of this thread; `None` outside of `block_on`. `f` takes
/// no frame off and calls no code of a user.
pub(crate) fn with_budget<R>(f: impl FnOnce(Option<&PollBudget>) -> R) -> R {
    let inside = find(|frame| (frame.role == Role::Inside).then_some(&raw const frame.budget));
    // SAFETY: the frame was found on the stack, and nothing in `f` takes it off.
    f(inside.map(|budget| unsafe { &*budget }))
}

/// The core of the calling worker, also if it has entered another runtime since.
pub(crate) fn current_core() -> Option<CoreId> {
    find(|frame| frame.core.map(CoreId::new))
}

/// Whether the caller is inside a blocking closure of any runtime.
pub(crate) fn on_a_blocking_thread() -> bool {
    find(|frame| (frame.role == Role::Blocking).then_some(())).is_some()
}

/// Whether the caller is a worker of any runtime.
pub(crate) fn on_a_worker() -> bool {
    // The second test is for a worker that ends and runs the destructors of its `worker_local!` values.
    slots::is_worker() || current_core().is_some()
}
