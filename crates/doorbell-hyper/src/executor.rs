//! [`DoorbellExecutor`].

use hyper::rt::Executor;

/// Spawns the tasks that hyper runs beside a connection, in the class of the calling task.
///
/// # Panics
/// [`execute`](Executor::execute) panics outside of a runtime.
#[derive(Clone, Copy, Debug, Default)]
pub struct DoorbellExecutor;

impl<F> Executor<F> for DoorbellExecutor
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, future: F) {
        drop(doorbell::spawn(future));
    }
}
