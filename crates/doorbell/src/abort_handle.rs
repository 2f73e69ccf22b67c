//! [`AbortHandle`].

use crate::TaskId;
use doorbell_core::task::{Canceller, Phase};

/// Aborts a task, beside its [`JoinHandle`](crate::JoinHandle). There may be any number of these. Dropping one
/// has no effect on the task. Each keeps about a cache line or two of the task's memory, but not its future or
/// its output.
///
/// ```
/// # doorbell::Builder::new().cores(1).build().unwrap().block_on(async {
/// let task = doorbell::spawn(std::future::pending::<()>());
/// let abort = task.abort_handle();
/// // Another task, or another thread, ends it.
/// doorbell::spawn(async move { abort.abort() }).await?;
/// assert!(task.await.unwrap_err().is_cancelled());
/// # Ok::<(), doorbell::JoinError>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct AbortHandle(Canceller);

impl AbortHandle {
    pub(crate) fn new(canceller: Canceller) -> AbortHandle {
        AbortHandle(canceller)
    }

    /// Cancels the task, as [`JoinHandle::abort`](crate::JoinHandle::abort) does.
    pub fn abort(&self) {
        self.0.cancel();
    }

    /// Whether the task is complete: it returned, panicked or was cancelled.
    pub fn is_finished(&self) -> bool {
        self.0.phase() == Phase::Complete
    }

    /// The number of the task; see [`TaskId`].
    pub fn id(&self) -> TaskId {
        TaskId::new(self.0.id())
    }
}
