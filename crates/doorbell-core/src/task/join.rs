//! The join handle: it awaits a task, cancels it, or is dropped and lets it run on.

use super::Phase;
use super::cell::TaskRef;
use super::error::JoinError;
use super::extras::Name;
use super::schedule::Schedule;
use super::state::{JoinDropped, Joined, WakerLeft};
use crate::quiet::drop_quietly;
use doorbell_machine::Cell;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Context, Poll};

/// A join handle without the types of its output and its machine.
///
/// Dropping it lets the task run on.
#[derive(Debug)]
pub struct RawJoin {
    task: NonNull<()>,
    vtable: &'static JoinVtable,
}

#[derive(Debug)]
struct JoinVtable {
    poll: unsafe fn(NonNull<()>, &mut Context<'_>) -> Poll<()>,
    take: unsafe fn(NonNull<()>, *mut u8),
    cancel: unsafe fn(NonNull<()>),
    phase: unsafe fn(NonNull<()>) -> Phase,
    name: unsafe fn(NonNull<()>) -> Option<NonNull<Name>>,
    drop: unsafe fn(NonNull<()>),
    retain: unsafe fn(NonNull<()>),
    release: unsafe fn(NonNull<()>),
}

struct JoinTable<M: Schedule>(PhantomData<M>);

impl<M: Schedule> JoinTable<M> {
    const VTABLE: JoinVtable = JoinVtable {
        poll: poll::<M>,
        take: take::<M>,
        cancel: cancel::<M>,
        phase: phase::<M>,
        name: name::<M>,
        drop: drop_join::<M>,
        retain: retain::<M>,
        release: release::<M>,
    };
}

impl RawJoin {
    /// # Safety
    /// The caller gives it the reference that a new task's state counts for the join handle.
    pub(crate) unsafe fn new<M: Schedule>(task: TaskRef<M>, _body: NonNull<u8>) -> Self {
        RawJoin {
            task: task.as_raw(),
            vtable: &JoinTable::<M>::VTABLE,
        }
    }

    /// Gives the handle the type of the output.
    ///
    /// # Safety
    /// The task's body is that of a future with output `T`.
    pub unsafe fn typed<T>(self) -> Join<T> {
        Join {
            raw: self,
            output: OutputState::Awaited,
            typed: PhantomData,
        }
    }
}

impl Drop for RawJoin {
    fn drop(&mut self) {
        // SAFETY: the handle has a reference, and gives it up here.
        unsafe { (self.vtable.drop)(self.task) };
    }
}

/// A join handle of a task with output `T`: a future of that output.
///
/// Dropping it lets the task run on.
#[derive(Debug)]
pub struct Join<T> {
    raw: RawJoin,
    output: OutputState,
    typed: PhantomData<fn() -> T>,
}

/// What a handle knows of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OutputState {
    /// The task was not complete when it was last polled.
    Awaited,
    /// The task is complete.
    There,
    Taken,
}

// SAFETY: the handle gives out only the output, which may go where T may. All else goes through the task's state
// word.
unsafe impl<T: Send> Send for Join<T> {}
// SAFETY: a shared handle can only cancel and read the phase, both by atomics, and read id and name, which never
// change.
unsafe impl<T: Send> Sync for Join<T> {}

impl<T> Unpin for Join<T> {}

impl<T> Join<T> {
    /// Cancels the task: its future is dropped at the next poll boundary, unless the task is complete by then.
    pub fn cancel(&self) {
        // SAFETY: the handle holds its reference.
        unsafe { (self.raw.vtable.cancel)(self.raw.task) };
    }

    /// What the task does now.
    pub fn phase(&self) -> Phase {
        // SAFETY: the handle holds its reference.
        unsafe { (self.raw.vtable.phase)(self.raw.task) }
    }

    /// Ready when the task is complete. Until then the waker of `cx` is woken when it is, and the task is raised for the
    /// caller. The output stays where it is: [`Join::take`] takes it.
    ///
    /// # Panics
    /// If the output was taken before.
    #[track_caller]
    pub fn poll_complete(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self.output {
            OutputState::There => return Poll::Ready(()),
            OutputState::Awaited => {}
            OutputState::Taken => panic!("a join handle was polled again after it was ready"),
        }
        // SAFETY: the handle holds its reference.
        let polled = unsafe { (self.raw.vtable.poll)(self.raw.task, cx) };
        if polled.is_ready() {
            self.output = OutputState::There;
        }
        polled
    }

    /// Takes the output, after [`Join::poll_complete`] was ready.
    ///
    /// # Errors
    /// [`JoinError`] if the task panicked or was cancelled.
    ///
    /// # Panics
    /// If it was not ready, or if the output was taken before.
    #[track_caller]
    pub fn take(&mut self) -> Result<T, JoinError> {
        assert!(
            self.output == OutputState::There,
            "the output of a task was taken before the task was complete, or twice"
        );
        self.output = OutputState::Taken;
        let mut output = MaybeUninit::<Result<T, JoinError>>::uninit();
        // SAFETY: complete, and not taken before. The caller of `typed` promised that the output is a T.
        unsafe { (self.raw.vtable.take)(self.raw.task, output.as_mut_ptr().cast()) };
        // SAFETY: `take` has written it.
        unsafe { output.assume_init() }
    }

    /// A number that no other task has while this one exists.
    pub fn id(&self) -> u64 {
        self.raw.task.addr().get() as u64
    }

    /// Another handle of the task, which cannot await it.
    pub fn canceller(&self) -> Canceller {
        // SAFETY: the handle holds its reference.
        unsafe { Canceller::another(self.raw.task, self.raw.vtable) }
    }

    /// The task's name, if it has one.
    pub fn name(&self) -> Option<&str> {
        // SAFETY: the handle holds its reference.
        let name = unsafe { (self.raw.vtable.name)(self.raw.task) };
        // SAFETY: it is part of the task, which the handle keeps in memory, and never changes.
        name.map(|name| unsafe { name.as_ref() }.as_str())
    }
}

/// A handle of a task that can cancel it. Any number of these may exist beside the join handle. Each keeps the task's
/// memory, but not its future or its output.
#[derive(Debug)]
pub struct Canceller {
    task: NonNull<()>,
    vtable: &'static JoinVtable,
}

// SAFETY: the handle can only cancel and read the phase, both by atomics, and read the address.
unsafe impl Send for Canceller {}
// SAFETY: as above.
unsafe impl Sync for Canceller {}

impl Canceller {
    /// # Safety
    /// The caller holds a reference of the task, which is of the vtable's machine.
    unsafe fn another(task: NonNull<()>, vtable: &'static JoinVtable) -> Canceller {
        // SAFETY: the caller's promise.
        unsafe { (vtable.retain)(task) };
        Canceller { task, vtable }
    }

    /// As [`Join::cancel`].
    pub fn cancel(&self) {
        // SAFETY: the handle holds its reference.
        unsafe { (self.vtable.cancel)(self.task) };
    }

    /// As [`Join::phase`].
    pub fn phase(&self) -> Phase {
        // SAFETY: the handle holds its reference.
        unsafe { (self.vtable.phase)(self.task) }
    }

    /// As [`Join::id`].
    pub fn id(&self) -> u64 {
        self.task.addr().get() as u64
    }
}

impl Clone for Canceller {
    fn clone(&self) -> Canceller {
        // SAFETY: the handle holds its reference.
        unsafe { Canceller::another(self.task, self.vtable) }
    }
}

impl Drop for Canceller {
    fn drop(&mut self) {
        // SAFETY: the handle has a reference, and gives it up here.
        unsafe { (self.vtable.release)(self.task) };
    }
}

impl<T> Future for Join<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_complete(cx).map(|()| self.take())
    }
}

/// # Safety
/// `raw` is the task of the calling handle. The same holds for all functions below.
unsafe fn poll<M: Schedule>(raw: NonNull<()>, cx: &mut Context<'_>) -> Poll<()> {
    // SAFETY: the caller's promise.
    let task = unsafe { TaskRef::<M>::from_raw(raw.as_ptr()) };
    let header = task.header();
    if header.state.is_complete() || header.state.reclaim_waker() == Joined::Complete {
        return Poll::Ready(());
    }
    // Cloning a waker may panic or re-enter, and so may dropping the old one. Neither happens inside a closure that
    // borrows the cell.
    let fresh = header.join_waker.with(|cell| {
        // SAFETY: reclaimed above: the cell is the handle's.
        unsafe { (*cell).as_ref() }.is_none_or(|waker| !waker.will_wake(cx.waker()))
    });
    if fresh {
        let waker = cx.waker().clone();
        // SAFETY: as above.
        let old = header
            .join_waker
            .with_mut(|cell| unsafe { (*cell).replace(waker) });
        drop_quietly(old);
    }
    match header.state.leave_waker(task.above_here()) {
        WakerLeft::Waits => Poll::Pending,
        WakerLeft::Raised => {
            M::hasten(task);
            Poll::Pending
        }
        WakerLeft::Complete => {
            // SAFETY: the waker was not left, so the cell is still the handle's.
            let unused = header.join_waker.with_mut(|cell| unsafe { (*cell).take() });
            drop_quietly(unused);
            Poll::Ready(())
        }
    }
}

unsafe fn take<M: Schedule>(raw: NonNull<()>, to: *mut u8) {
    // SAFETY: passed on from the caller.
    unsafe { TaskRef::<M>::from_raw(raw.as_ptr()).take_output(to) };
}

unsafe fn cancel<M: Schedule>(raw: NonNull<()>) {
    // SAFETY: the caller's promise.
    M::cancel(unsafe { TaskRef::<M>::from_raw(raw.as_ptr()) });
}

unsafe fn phase<M: Schedule>(raw: NonNull<()>) -> Phase {
    // SAFETY: the caller's promise.
    unsafe { TaskRef::<M>::from_raw(raw.as_ptr()) }.phase()
}

unsafe fn name<M: Schedule>(raw: NonNull<()>) -> Option<NonNull<Name>> {
    // SAFETY: the caller's promise.
    let task = unsafe { TaskRef::<M>::from_raw(raw.as_ptr()) };
    task.name().map(NonNull::from)
}

unsafe fn retain<M: Schedule>(raw: NonNull<()>) {
    // SAFETY: the caller's promise.
    let task = unsafe { TaskRef::<M>::from_raw(raw.as_ptr()) };
    task.header().state.retain();
}

unsafe fn release<M: Schedule>(raw: NonNull<()>) {
    // SAFETY: the caller's promise.
    unsafe { TaskRef::<M>::from_raw(raw.as_ptr()) }.release();
}

unsafe fn drop_join<M: Schedule>(raw: NonNull<()>) {
    // SAFETY: the caller's promise.
    let task = unsafe { TaskRef::<M>::from_raw(raw.as_ptr()) };
    match task.header().state.drop_join() {
        JoinDropped::DropWaker => {
            // SAFETY: JOIN and JOIN_WAKER were cleared before COMPLETE was set, so the worker never touches the cell.
            let waker = task
                .header()
                .join_waker
                .with_mut(|cell| unsafe { (*cell).take() });
            drop_quietly(waker);
        }
        // SAFETY: complete, and this is the join handle. It does not touch the cell: a waker left there is the
        // worker's.
        JoinDropped::DropOutput => unsafe { task.drop_output() },
    }
    task.release();
}
