//! [`ServerExecutor`]: spawns the tasks that hyper runs beside a connection over HTTP/2.

use super::account::InFlight;
use super::limited::Limited;
use super::progress::Progress;
use hyper::rt::Executor;
use std::sync::Arc;

/// Spawns the tasks that hyper runs beside an HTTP/2 connection of a [`Server`](crate::Server): one for each
/// request, and one for each tunnel. While they run, the connection has a request in flight.
#[derive(Clone, Debug)]
pub struct ServerExecutor {
    pub(super) progress: Arc<Progress>,
}

impl<F> Executor<F> for ServerExecutor
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, future: F) {
        // A tunnel is none of the requests that the connection's service was called for.
        let next = self.progress.take_next();
        let in_flight = next.unwrap_or_else(|| InFlight::new(&self.progress, true));
        drop(doorbell::spawn(Limited::new(future, in_flight)));
    }
}
