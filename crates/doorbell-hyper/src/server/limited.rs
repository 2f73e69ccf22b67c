//! [`Limited`]: the task of a request over HTTP/2, which ends at its limits.

use super::account::InFlight;
use doorbell::time::{Instant, Sleep, sleep_until};
use pin_project_lite::pin_project;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

pin_project! {
    /// The task of a request over HTTP/2, or of a tunnel. When it ends at a limit, it drops hyper's future,
    /// and h2 resets the stream.
    pub(super) struct Limited<F> {
        #[pin]
        future: F,
        // When the request has taken too long.
        end: Option<Instant>,
        // Armed for a moment no later than the next limit.
        sleep: Option<Sleep>,
        // Last, so that the future is dropped before it.
        in_flight: InFlight,
    }
}

impl<F> Limited<F> {
    pub(super) fn new(future: F, in_flight: InFlight) -> Self {
        let limit = in_flight.progress().shared().limits().request;
        Limited {
            future,
            end: limit.map(|limit| Instant::now() + limit),
            sleep: None,
            in_flight,
        }
    }
}

impl<F: Future<Output = ()>> Future for Limited<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        if this.future.poll(cx).is_ready() {
            return Poll::Ready(());
        }
        let shared = this.in_flight.progress().shared();
        let account = this.in_flight.account();
        loop {
            if let Some(sleep) = this.sleep {
                ready!(Pin::new(sleep).poll(cx));
            }
            let now = Instant::now();
            let stalls_at = |limit| match account.stalls_at(limit)? {
                at if at <= now && account.waits_for_turn() => Some(now + limit),
                at => Some(at),
            };
            let stalls_at = shared.limits().write.and_then(stalls_at);
            let Some(limit) = this.end.iter().copied().chain(stalls_at).min() else {
                *this.sleep = None;
                return Poll::Pending;
            };
            if limit <= now {
                shared.limit_reached();
                return Poll::Ready(());
            }
            // Bytes that are held later stall after one write limit at the earliest.
            let later = shared.limits().write.map(|write| now + write);
            *this.sleep = Some(sleep_until(later.map_or(limit, |later| limit.min(later))));
        }
    }
}
