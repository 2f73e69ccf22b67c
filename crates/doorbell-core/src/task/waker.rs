//! The `Waker` of a task. Its data is the task's address; the state word counts a reference for it.

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

/// The table of all wakers of a machine. Never inlined: otherwise each codegen unit could have a table of its own.
/// `will_wake` compares the tables' addresses, so for two wakers of one task its answer would depend on the build.
#[inline(never)]
fn table<M: Schedule>() -> &'static RawWakerVTable {
    &WakerTable::<M>::VTABLE
}

fn raw<M: Schedule>(task: TaskRef<M>) -> RawWaker {
    RawWaker::new(task.as_raw().as_ptr(), table::<M>())
}

/// A waker for the time of a poll, without a reference of its own.
///
/// # Safety
/// The task is alive for as long as the waker.
pub(crate) unsafe fn borrowed<M: Schedule>(task: TaskRef<M>) -> ManuallyDrop<Waker> {
    // SAFETY: the functions keep the contract of RawWaker. The waker is never dropped, so it needs no reference.
    ManuallyDrop::new(unsafe { Waker::from_raw(raw(task)) })
}

unsafe fn clone<M: Schedule>(data: *const ()) -> RawWaker {
    // SAFETY: a waker's data is its task, which is alive while the waker is.
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
    // SAFETY: passed on. The waker's reference is released only after the wake, so task and remote half exist until
    // then, whatever the task's worker does.
    unsafe { wake_by_ref::<M>(data) };
    // SAFETY: passed on.
    unsafe { release::<M>(data) };
}

unsafe fn release<M: Schedule>(data: *const ()) {
    // SAFETY: as in `clone`.
    unsafe { TaskRef::<M>::from_raw(data) }.release();
}
