//! How the free functions find the runtime that they are called in: one pointer of the thread
//! to a frame, and in it an object-safe trait. One indirect call, whatever the machine.

use crate::blocking::Blocking;
use crate::class_workers::Opened;
use crate::group::{Group, TooManyGroups};
use crate::handle::Handle;
use crate::metrics::Metrics;
use crate::net::Registered;
use crate::worker_local::Locals;
use crate::{Class, ClassKind, CoreId, Switches, WorkerPolicy};
use doorbell_core::bell::WorkerState;
use doorbell_core::call::{Drawn, ErasedCall, ManyTable, RawMany, Room, Run};
use doorbell_core::mailbox::Gone;
use doorbell_core::task::{About, BodyVtable, Kind, PollBudget, RawJoin, TaskSeen};
use doorbell_core::wheel::Holds;
use doorbell_core::worker::timer::RawTimer;
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
    /// How many cores it has; at least one.
    fn cores(&self) -> usize;

    /// Whether the core, which is below `cores()`, is on.
    fn is_on(&self, core: usize) -> bool;

    /// The room in the mailbox of the core, which is below `cores()`, if it has a limit.
    fn room(&self, core: usize) -> Option<&Arc<crate::room::Room>>;

    /// Takes a core off, or puts it back; [`Ambient::follow_core`] is owed to it if that changed
    /// anything. `None` if it is the last that is on.
    fn set_on(&self, core: usize, on: bool) -> Option<bool>;

    /// Has the worker that the caller runs on, that of this core, do what was set.
    ///
    /// # Errors
    /// If the OS does not let the worker move to other CPUs; all else was done.
    fn follow_core(&self, core: usize) -> Result<(), crate::ThreadError>;

    /// Starts the workers of a class, if they were not. What is launched for one whose workers cannot be
    /// had goes to the Fair workers.
    ///
    /// # Errors
    /// If a thread of theirs was not started; the next call tries again.
    fn open(&self, kind: ClassKind) -> Result<Opened, crate::ThreadError>;

    /// Whether what is launched for a class begins without [`Ambient::open`]: its workers were started, or
    /// there will be none.
    fn is_open(&self, kind: ClassKind) -> bool;

    /// The classes whose workers were started.
    fn opened(&self) -> Vec<ClassKind>;

    /// How the OS schedules each worker that was started; waits for those that have not asked it yet.
    fn policies(&self) -> Vec<WorkerPolicy>;

    /// The rank of what the worker that the caller is runs now.
    fn current_rank(&self) -> u8;

    /// Says what that is, for a call.
    fn set_current_rank(&self, rank: u8);

    /// The rank of what the worker that the caller is runs now, if that is of a lower class and raised.
    fn raised_rank(&self) -> Option<u8>;

    /// Whether that is raised because its own workers may be stuck.
    fn is_rescue(&self) -> bool;

    /// Has the urgent workers look after Fair ones that are stuck, if they do not yet.
    ///
    /// # Errors
    /// What keeps one from that; the next call tries again.
    fn open_rescue(&self) -> io::Result<()>;

    /// The core for a task that may run anywhere, if the caller is on none of its workers.
    fn next_core(&self) -> usize;

    /// The number of a group in this runtime's Fair scheduler, in which a place is reserved for a task that
    /// is launched next.
    ///
    /// # Errors
    /// If as many others are in use as there may be.
    fn reserve_in_group(&self, group: &Group) -> Result<u8, TooManyGroups>;

    /// Makes a task of a body, of that class and what else is said, and hands it to the worker of `core`, which is
    /// below `cores()`.
    ///
    /// # Safety
    /// As for [`doorbell_core::task::launch_described`]; `write` is called once.
    unsafe fn launch(
        &self,
        core: usize,
        kind: Kind,
        class: Class,
        about: About<'_>,
        vtable: &'static BodyVtable,
        write: &mut dyn FnMut(*mut u8),
    ) -> RawJoin;

    /// As [`Ambient::launch`], pinned to the worker of that core and those classes, whether all of
    /// these have begun or not: for the worker itself.
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

    /// Calls the worker of those classes, which have begun, and waits.
    ///
    /// # Safety
    /// As for [`doorbell_core::call::wait_for`].
    unsafe fn call_blocking(
        &self,
        core: usize,
        workers: ClassKind,
        call: &ErasedCall,
    ) -> Result<(), Gone>;

    /// Draws a parcel for a closure that nobody will wait for. `None` if there is no such core, if
    /// it is off, or if its mailbox has a limit, which is to be heeded.
    fn draw(&self, core: usize, room: Room, limit: Limit) -> Option<Drawn>;

    /// Posts what was drawn for that core, and filled.
    ///
    /// # Errors
    /// [`Gone`] if that worker has ended; the closure still lies in the parcel.
    ///
    /// # Safety
    /// As for [`doorbell_core::call::Pool::send`].
    unsafe fn send(&self, core: usize, drawn: Drawn, run: Run) -> Result<(), Gone>;

    /// Posts one call to the worker of each core, all below `cores()`, at least one.
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

    /// Runs a future on the calling thread, which holds a paused clock already or does not.
    fn block_on(&self, holds: Holds, future: Pin<&mut dyn Future<Output = ()>>);

    /// Sets a paused clock on by so much; what it returns is ready when the runtime is quiescent. `None`
    /// if the clock runs.
    fn advance(&self, duration_ns: u64) -> Option<EventListener>;

    /// The time by the runtime's clock.
    fn now_ns(&self) -> u64;

    /// The moment that lies so far ahead, never early by the OS's clock.
    fn after_ns(&self, duration_ns: u64) -> u64;

    /// Arms a timer: on the worker that the caller runs on, else on one of this runtime's. `None` if a
    /// deadline is given, which is not behind `when_ns`, and has passed.
    ///
    /// # Errors
    /// [`Gone`] if that worker has ended.
    fn arm_timer(
        &self,
        deadline_ns: Option<u64>,
        when_ns: u64,
        waker: &Waker,
    ) -> Result<Option<RawTimer>, Gone>;

    /// Registers a descriptor with the worker that the caller is, else with a Fair one in turn.
    ///
    /// # Errors
    /// What keeps it from being waited for.
    fn register(&self, fd: BorrowedFd<'static>) -> io::Result<Box<dyn Registered>>;

    /// The threads for closures that block.
    fn blocking(&self) -> &dyn Blocking;

    /// All counts at this moment.
    fn metrics(&self) -> Metrics;

    /// The tasks in the list of the worker that the caller is; none if it is none of this runtime's.
    fn tasks_here(&self) -> Vec<TaskSeen>;

    /// What the worker of `core`, which is below `cores()`, does now.
    fn worker_state(&self, core: usize) -> WorkerState;

    /// The settings of the switches now.
    fn switches(&self) -> Switches;

    /// Changes them.
    fn set_switches(&self, switches: Switches);
}

/// What a post does about the limit of a mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    /// It has no place yet.
    Heed,
    /// It has a place, or needs none.
    Settled,
}

/// What a thread does in a runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// It runs closures that block.
    Blocking,
    /// It is inside a `block_on`.
    Inside,
    /// It is a worker, or has only entered.
    Other,
}

/// One entered runtime of a thread. Frames form a stack, linked from the newest.
pub(crate) struct Frame {
    handle: Handle,
    /// The core whose worker the thread is; `None` for other threads.
    core: Option<usize>,
    /// Whose worker the thread is, if it is one.
    kind: ClassKind,
    role: Role,
    /// The values that belong to the worker; none on other threads.
    locals: Locals,
    /// What is left to the poll of the future that the thread runs, if it is inside a `block_on`. A worker
    /// has a budget of its own.
    budget: PollBudget,
    older: Cell<*const Frame>,
}

/// Keeps a frame on its thread's stack of frames. Frames may be dropped in any order, and
/// while somebody has one borrowed: it then lives until that ends.
pub(crate) struct EnteredRuntime {
    /// Also makes it stay on the thread that entered.
    frame: Rc<Frame>,
}

/// Enters a runtime on this thread, which is none of its workers.
pub(crate) fn enter(handle: Handle) -> EnteredRuntime {
    push(handle, None, ClassKind::Fair, Role::Other)
}

/// Enters a runtime as its worker of a core and a class.
pub(crate) fn enter_worker(handle: Handle, core: usize, kind: ClassKind) -> EnteredRuntime {
    push(handle, Some(core), kind, Role::Other)
}

/// Enters a runtime on a thread that runs a future for it.
pub(crate) fn enter_block_on(handle: Handle) -> EnteredRuntime {
    push(handle, None, ClassKind::Fair, Role::Inside)
}

/// Whether the caller keeps the clock of a runtime from going on, if that is a paused one.
pub(crate) fn holds_clock_of(handle: &Handle) -> Holds {
    find(|frame| {
        let same = std::ptr::addr_eq(frame.handle.inner(), handle.inner());
        (same && frame.role != Role::Other).then_some(Holds::Yes)
    })
    .unwrap_or(Holds::No)
}

/// Enters a runtime on a thread for closures that block.
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
        older: Cell::new(slots::ambient().cast()),
    });
    // SAFETY: the slot is this module's; `EnteredRuntime` takes the frame off before it goes away.
    unsafe { slots::set_ambient(Rc::as_ptr(&frame).cast()) };
    EnteredRuntime { frame }
}

impl EnteredRuntime {
    /// Another poll begins of the future that the thread runs.
    pub(crate) fn begin_poll(&self) {
        self.frame.budget.refill();
    }
}

impl Drop for EnteredRuntime {
    fn drop(&mut self) {
        // Nothing else runs on this worker any more, and their destructors still find it here.
        self.frame.locals.end();
        let mine = Rc::as_ptr(&self.frame);
        let older = self.frame.older.get();
        let mut newer = slots::ambient().cast::<Frame>();
        if newer == mine {
            // SAFETY: as in `enter`; the older frame is still on the stack.
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

/// The newest frame of this thread, kept alive while the caller has it.
#[inline]
fn current() -> Option<Rc<Frame>> {
    let frame = slots::ambient().cast::<Frame>();
    if frame.is_null() {
        return None;
    }
    // SAFETY: the slot leads to a frame on the stack.
    Some(unsafe { keep(frame) })
}

/// # Safety
/// The frame is on this thread's stack of frames.
#[inline]
unsafe fn keep(frame: *const Frame) -> Rc<Frame> {
    // SAFETY: a frame is made by `Rc::new` on this thread, and its `EnteredRuntime` holds a count for as
    // long as it is on the stack.
    unsafe { Rc::increment_strong_count(frame) };
    // SAFETY: as above, and the count added there is this one's.
    unsafe { Rc::from_raw(frame) }
}

/// Calls `f` with the frame of the worker that the caller is, also where it has entered another
/// runtime since.
#[inline]
pub(crate) fn with_worker<R>(f: impl FnOnce(Option<&Frame>) -> R) -> R {
    let worker = find(|frame| frame.core.is_some().then_some(std::ptr::from_ref(frame)));
    // SAFETY: found on the stack.
    let worker = worker.map(|worker| unsafe { keep(worker) });
    f(worker.as_deref())
}

/// Calls `f` with the newest frame of this thread. Destructors of the user's may run inside
/// `f` and leave the runtime; the frame stays until `f` returns.
#[inline]
pub(crate) fn with_current<R>(f: impl FnOnce(Option<&Frame>) -> R) -> R {
    f(current().as_deref())
}

/// Calls `f` with the newest frame of this thread, which nothing keeps: `f` takes no frame off and
/// calls nothing of a user's.
#[inline]
pub(crate) fn peek<R>(f: impl FnOnce(Option<&Frame>) -> R) -> R {
    // SAFETY: every frame on the stack is alive, and nothing in `f` takes one off.
    f(unsafe { slots::ambient().cast::<Frame>().as_ref() })
}

impl Frame {
    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// The core whose worker the thread is.
    pub(crate) fn core(&self) -> Option<usize> {
        self.core
    }

    /// The class of what it runs now.
    #[inline]
    pub(crate) fn class(&self) -> Class {
        if self.kind == ClassKind::Batch || self.core.is_none() {
            // Nothing is below it, or nothing is raised to a thread that is no worker.
            return Class::any_of(self.kind);
        }
        if let Some(rank) = self.handle.inner().raised_rank() {
            return Class::of_rank(rank);
        }
        match self.kind {
            ClassKind::Fair | ClassKind::Batch => Class::FAIR,
            // Before its first task, as in hooks, nothing has said which.
            ClassKind::Rt => Class::of_rank(self.handle.inner().current_rank()).max(Class::rt(1)),
        }
    }

    /// The class of what it runs now, or the lowest of those that the worker is there for, if that is
    /// higher.
    pub(crate) fn urgency(&self) -> Class {
        let lowest = match self.kind {
            ClassKind::Rt => Class::rt(1),
            ClassKind::Fair => Class::FAIR,
            ClassKind::Batch => Class::BATCH,
        };
        self.class().max(lowest)
    }

    /// Whose worker the thread is; meaningless on a thread that is none.
    pub(crate) fn kind(&self) -> ClassKind {
        self.kind
    }

    /// Whose worker hears of the descriptors that a task waits for now. Not this one in a rescue: else each would
    /// bring descriptors here for good.
    pub(crate) fn hears(&self) -> ClassKind {
        let is_rescue = self.kind == ClassKind::Rt && self.handle.inner().is_rescue();
        if is_rescue {
            self.class().kind()
        } else {
            self.kind
        }
    }

    pub(crate) fn locals(&self) -> &Locals {
        &self.locals
    }

    /// The core for a task that may run anywhere: the caller's own, where one of a higher class runs at once and
    /// interrupts no other core; the next in turn if it has none.
    pub(crate) fn next_core(&self) -> usize {
        self.core.unwrap_or_else(|| self.handle.inner().next_core())
    }
}

/// The first frame of this thread, from the newest, of which `f` makes something. `f` takes no
/// frame off and calls nothing of a user's.
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

/// As [`PollBudget::begin`], for the innermost `block_on` of this thread. Outside of one nothing is
/// refused.
pub(crate) fn begin_operation() -> Option<i32> {
    let inside = find(|frame| (frame.role == Role::Inside).then(|| frame.budget.begin()));
    inside.unwrap_or(Some(i32::MAX))
}

/// As [`PollBudget::end`].
pub(crate) fn end_operation(before: i32) {
    let _ = find(|frame| (frame.role == Role::Inside).then(|| frame.budget.end(before)));
}

/// The core whose worker the caller is, also where it has entered another runtime since.
pub(crate) fn current_core() -> Option<CoreId> {
    find(|frame| frame.core.map(CoreId::new))
}

/// Whether the caller is inside a closure that blocks, of whichever runtime.
pub(crate) fn on_a_blocking_thread() -> bool {
    find(|frame| (frame.role == Role::Blocking).then_some(())).is_some()
}

/// Whether the caller is a worker, of whichever runtime.
pub(crate) fn on_a_worker() -> bool {
    // A worker that ends still runs the destructors of its values.
    !slots::worker().is_null() || current_core().is_some()
}
