//! [`ServerExecutor`]: spawns the tasks that hyper runs beside a connection over HTTP/2.

use super::progress::{InFlight, Progress};
use doorbell::time::{Sleep, sleep};
use hyper::rt::Executor;
use pin_project_lite::pin_project;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

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
        let shared = self.progress.shared();
        drop(doorbell::spawn(Limited {
            future,
            limit: shared.limits().request.map(sleep),
            in_flight: InFlight::new(&self.progress),
        }));
    }
}

pin_project! {
    /// A task that ends at its limit.
    struct Limited<F> {
        #[pin]
        future: F,
        limit: Option<Sleep>,
        // Last, so that the future is dropped before it.
        in_flight: InFlight,
    }
}

impl<F: Future<Output = ()>> Future for Limited<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        if this.future.poll(cx).is_ready() {
            return Poll::Ready(());
        }
        let Some(limit) = this.limit else {
            return Poll::Pending;
        };
        ready!(Pin::new(limit).poll(cx));
        this.in_flight.progress().shared().limit_reached();
        Poll::Ready(())
    }
}
