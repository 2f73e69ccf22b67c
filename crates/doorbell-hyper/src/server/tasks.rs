//! [`ServerExecutor`]: spawns the tasks that hyper runs beside a connection over HTTP/2.

#![allow(
    clippy::disallowed_types,
    reason = "hyper does not tell its executor which request a task is for"
)]

use super::account::InFlight;
use super::limited::Limited;
use super::progress::Progress;
use hyper::rt::Executor;
use std::cell::Cell;
use std::sync::Arc;

thread_local! {
    /// The last request over HTTP/2 that a service was called for: hyper is about to call its executor for it, with
    /// nothing in between.
    static NEXT: Cell<Option<InFlight>> = const { Cell::new(None) };
}

/// Notes the request for whose task hyper is about to call its executor.
pub(super) fn has_next(request: InFlight) {
    NEXT.set(Some(request));
}

/// That request, if it is one of this connection's.
fn take_next(progress: &Arc<Progress>) -> Option<InFlight> {
    NEXT.take()
        .filter(|next| std::ptr::eq(next.progress(), Arc::as_ptr(progress)))
}

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
        let next = take_next(&self.progress);
        let in_flight = next.unwrap_or_else(|| InFlight::two(&self.progress));
        drop(doorbell::spawn(Limited::new(future, in_flight)));
    }
}

#[cfg(test)]
#[allow(
    clippy::disallowed_methods,
    reason = "another thread plays another worker"
)]
mod tests {
    use super::super::connection::Shared;
    use super::super::limits::Limits;
    use super::super::protocol::Settings;
    use super::*;

    #[test]
    fn an_account_is_taken_by_the_connection_and_the_thread_that_it_was_made_in() {
        let shared = Shared::new(Limits::DEFAULT, Settings::new());
        let [one, other] = [(); 2].map(|()| Progress::new(Arc::clone(&shared)));
        has_next(InFlight::two(&one));
        std::thread::scope(|scope| {
            let is_taken = scope.spawn(|| take_next(&one).is_some());
            assert!(!is_taken.join().unwrap());
        });
        assert!(take_next(&one).is_some());
        has_next(InFlight::two(&one));
        assert!(take_next(&other).is_none());
        assert_eq!(one.requests(), 0);
    }
}
