//! [`Tasks`]: how what a server runs beside the task that accepts is spawned.

use hyper::rt::Executor;

/// How the tasks of a server are spawned: connections, and what hyper has to run beside them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tasks {
    /// Whether they are served while everything computes.
    pub(super) rescuable: bool,
}

impl Tasks {
    pub(super) fn spawn<F>(self, future: F)
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        drop(if self.rescuable {
            doorbell::task().rescuable().spawn(future)
        } else {
            doorbell::spawn(future)
        });
    }
}

impl<F> Executor<F> for Tasks
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, future: F) {
        self.spawn(future);
    }
}
