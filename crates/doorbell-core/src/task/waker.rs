//! The `Waker` of a task: its address, counted in the state word.

use super::cell::TaskRef;
use super::schedule::Schedule;
use std::mem::ManuallyDrop;
use std::task::{RawWaker, RawWakerVTable, Waker};

/// The functions of the wakers of one machine.
struct WakerTable<M: Schedule>(std::marker::PhantomData<M>);

impl<M: Schedule> WakerTable<M> {
    const VTABLE: RawWakerVTable =
        RawWakerVTable::new(clone::<M>, wake::<M>, wake_by_ref::<M>, release::<M>);
}

/// The table of all wakers of a machine. Never inlined: each unit of the compiler would have a
/// table of its own, and `will_wake`, which compares addresses, would deny that two wakers are of
/// one task or not, as the build has it.
#[inline(never)]
fn table<M: Schedule>() -> &'static RawWakerVTable {
    &WakerTable::<M>::VTABLE
}

fn raw<M: Schedule>(task: TaskRef<M>) -> RawWaker {
    RawWaker::new(task.as_raw().as_ptr(), table::<M>())
}

/// A waker that holds no reference of its own, for the time of a poll.
///
/// # Safety
/// The task is alive for as long as the waker.
pub(crate) unsafe fn borrowed<M: Schedule>(task: TaskRef<M>) -> ManuallyDrop<Waker> {
    // SAFETY: the functions keep the contract of RawWaker; since the waker is never dropped,
    // it needs no reference.
    ManuallyDrop::new(unsafe { Waker::from_raw(raw(task)) })
}

unsafe fn clone<M: Schedule>(data: *const ()) -> RawWaker {
    // SAFETY: a waker's data is its task, alive while the waker is.
    let task = unsafe { TaskRef::<M>::from_raw(data) };
    task.header().state.retain();
    raw(task)
}

unsafe fn wake_by_ref<M: Schedule>(data: *const ()) {
    // SAFETY: as in `clone`; the waker's reference is held until this returns.
    let task = unsafe { TaskRef::<M>::from_raw(data) };
    M::wake(task);
}

unsafe fn wake<M: Schedule>(data: *const ()) {
    // SAFETY: passed on; the waker's reference is let go only after the wake, so whatever the
    // task's worker does meanwhile, task and remote half are there.
    unsafe { wake_by_ref::<M>(data) };
    // SAFETY: passed on.
    unsafe { release::<M>(data) };
}

unsafe fn release<M: Schedule>(data: *const ()) {
    // SAFETY: as in `clone`.
    unsafe { TaskRef::<M>::from_raw(data) }.release();
}
