//! [`DoorbellExecutor`].

use hyper::rt::Executor;

/// Spawns what hyper has to run beside a connection, in the class of the task that asks.
///
/// # Panics
/// Outside of a runtime.
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
