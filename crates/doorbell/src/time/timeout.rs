//! [`Timeout`]: a future that is given only so much time.

use super::{Instant, Sleep, sleep, sleep_until};
use crate::coop;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// The time was over before the future was ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the time was over before the future was ready")]
pub struct Elapsed(());

/// A future that is given only so much time. See [`timeout`].
#[must_use = "a timeout does nothing before it is polled"]
#[derive(Debug)]
pub struct Timeout<F> {
    future: F,
    sleep: Sleep,
}

/// Gives a future so much time, from now on; the future is polled first, so one that is ready
/// is so also after its time. It is dropped with the timeout.
///
/// # Errors
/// Awaiting it returns [`Elapsed`] if the time was over first.
pub fn timeout<F: Future>(duration: Duration, future: F) -> Timeout<F> {
    Timeout {
        future,
        sleep: sleep(duration),
    }
}

/// Gives a future time until a moment. As [`timeout`].
///
/// # Errors
/// Awaiting it returns [`Elapsed`] if the moment came first.
pub fn timeout_at<F: Future>(deadline: Instant, future: F) -> Timeout<F> {
    Timeout {
        future,
        sleep: sleep_until(deadline),
    }
}

impl<F> Timeout<F> {
    /// Allows the time to be longer by up to so much; see [`Sleep::slack`].
    pub fn slack(mut self, slack: Duration) -> Timeout<F> {
        self.sleep = self.sleep.slack(slack);
        self
    }

    /// The future, without its timeout.
    pub fn into_inner(self) -> F {
        self.future
    }
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: `future` is pinned with the timeout: it is never moved out of a pinned one,
        // there is no Drop, and Timeout is Unpin only if F is. `sleep` is Unpin.
        let (future, sleep) = unsafe {
            let this = self.get_unchecked_mut();
            (Pin::new_unchecked(&mut this.future), &mut this.sleep)
        };
        coop::poll(cx, |cx| {
            if let Poll::Ready(output) = future.poll(cx) {
                return Poll::Ready(Ok(output));
            }
            // Also where the future has spent the budget: it may do so in each poll.
            sleep.poll_time(cx).map(|()| Err(Elapsed(())))
        })
    }
}
