//! What a task asks of the scheduler that runs it. Schedulers are a higher floor of the crate, so tasks know them only
//! by this trait.

use super::cell::TaskRef;
use super::state_inheritance::Above;
use crate::class::Class;
use doorbell_machine::Machine;

/// The identity of a scheduler; never dereferenced.
pub(crate) type SchedulerId = *const ();

/// Where tasks are run. Each machine has one implementation, in `worker/tasks/schedule.rs`.
pub(crate) trait Schedule: Machine {
    /// A worker as a member of its scheduler.
    type Member;

    /// The shares of its scheduler that a worker's thread has drawn ahead.
    type Stock;

    /// Wakes a task. The caller holds a reference.
    fn wake(task: TaskRef<Self>);

    /// Notes that a task is to be cancelled, and has a worker do it. The caller holds a reference.
    fn cancel(task: TaskRef<Self>);

    /// How far `scheduler` is above the task's own.
    fn how_far(task: TaskRef<Self>, scheduler: SchedulerId) -> Above;

    /// The scheduler on whose behalf the calling thread waits. Null on a thread that is no worker.
    fn scheduler_that_waits() -> SchedulerId;

    /// Wakes and raises a task whose inherited level has risen. The caller holds a reference.
    fn hasten(task: TaskRef<Self>);

    /// The task under poll on the calling thread.
    fn under_poll() -> Option<TaskRef<Self>>;

    /// The class of the worker that the calling thread is; `None` on any other thread.
    fn class_here() -> Option<Class>;

    /// Calls `f` with the stock of the worker that the calling thread is, if that is one of this scheduler.
    fn with_stock<R>(of: SchedulerId, f: impl FnOnce(Option<&Self::Stock>) -> R) -> R;

    /// A task was freed: its share of the scheduler goes.
    ///
    /// # Safety
    /// The share that the task was made with is not used any more; `last` is a worker of the same scheduler.
    unsafe fn freed(last: *mut Self::Member);
}
