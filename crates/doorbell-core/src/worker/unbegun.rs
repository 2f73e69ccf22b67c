//! The end of a worker that never began: it has no thread, and gets none.

use super::{Worker, WorkerShared};
use doorbell_machine::Machine;
use std::sync::Arc;

impl<M: Machine> WorkerShared<M> {
    /// Ends a worker that has no thread, on the calling thread: a post, spawn or wake from now on finds it gone. What
    /// was posted before ends as on a worker that ends: calls run, and tasks are cancelled.
    ///
    /// # Panics
    /// If a thread has made the worker.
    pub fn close_unbegun(self: &Arc<Self>) {
        self.close();
        let worker = Worker::new(Arc::clone(self));
        worker.local.enter(|| {
            worker.shared.remote().driver().end_worker();
            worker.close();
            worker.shared.remote().driver().close_poller();
        });
    }
}
