//! [`Tasks`]: spawns the tasks of a server.

use hyper::rt::Executor;

/// Spawns the connections of a server, and the tasks that hyper runs beside them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tasks {
    /// Whether the tasks are rescuable.
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
