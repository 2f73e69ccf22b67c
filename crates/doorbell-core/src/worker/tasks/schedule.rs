//! Implements [`Schedule`] for every machine: what tasks ask of the scheduler that runs them.

use super::raise;
use crate::class::Class;
use crate::scheduler::{Member, RemoteRef, Stock};
use crate::task::{Above, Schedule, SchedulerId, TaskRef};
use crate::worker::Local;
use doorbell_machine::Machine;

impl<M: Machine> Schedule for M {
    type Member = Member<M>;
    type Stock = Stock<M>;

    #[inline]
    fn wake(task: TaskRef<M>) {
        task.wake();
    }

    fn cancel(task: TaskRef<M>) {
        task.cancel();
    }

    fn how_far(task: TaskRef<M>, scheduler: SchedulerId) -> Above {
        task.how_far(scheduler)
    }

    fn scheduler_that_waits() -> SchedulerId {
        raise::scheduler_that_waits::<M>()
    }

    fn hasten(task: TaskRef<M>) {
        task.hasten();
    }

    fn under_poll() -> Option<TaskRef<M>> {
        Local::<M>::with_current(|local| local?.poll_refs().task())
    }

    #[inline]
    fn class_here() -> Option<Class> {
        Local::<M>::with_current(|local| Some(local?.class()))
    }

    #[inline]
    fn with_stock<R>(of: SchedulerId, f: impl FnOnce(Option<&Stock<M>>) -> R) -> R {
        Local::<M>::with_current(|local| {
            let local = local.filter(|local| local.is_in(of));
            f(local.map(Local::stock))
        })
    }

    unsafe fn freed(last: *mut Member<M>) {
        // SAFETY: the caller's promise.
        drop(unsafe { RemoteRef::from_raw(last) });
    }
}
