//! [`TaskId`]: the number of a task.

use crate::here::on_its_machine;
use doorbell_core::worker::Local;

/// The number of a task. Two tasks that exist at the same time have different numbers. A number may be given
/// again once its task is complete, and its handle and all its wakers have been dropped.
///
/// ```
/// # doorbell::Builder::new().cores(1).build().unwrap().block_on(async {
/// let task = doorbell::spawn(async {});
/// assert_eq!(task.id(), task.id());
/// # });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(u64);

impl TaskId {
    pub(crate) fn new(number: u64) -> Self {
        TaskId(number)
    }

    /// The number as an integer: for logs, and to tell tasks apart.
    ///
    /// ```
    /// # doorbell::Builder::new().cores(1).build().unwrap().block_on(async {
    /// assert_ne!(doorbell::spawn(async {}).id().as_u64(), 0);
    /// # });
    /// ```
    pub fn as_u64(self) -> u64 {
        self.0
    }
}

/// The number of the task that calls this; `None` outside of tasks: inside `block_on`, a call, a hook or a closure of
/// [`spawn_blocking`](crate::spawn_blocking()).
///
/// ```
/// # doorbell::Builder::new().cores(1).build().unwrap().block_on(async {
/// let task = doorbell::spawn(async { doorbell::current_task_id() });
/// let id = task.id();
/// assert_eq!(task.await.unwrap(), Some(id));
/// assert_eq!(doorbell::current_task_id(), None);
/// # });
/// ```
#[doc(alias = "try_id")]
pub fn current_task_id() -> Option<TaskId> {
    let id =
        on_its_machine!(M => Local::<M>::with_current(|worker| worker.and_then(Local::task_id)));
    id.map(TaskId::new)
}

impl std::fmt::Display for TaskId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:x}", self.0)
    }
}
