//! [`Timeout`]: a future with a time limit.

use super::{Instant, Sleep, sleep, sleep_until};
use crate::coop::{self, Turn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

/// The time limit passed before the future was ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the time was over before the future was ready")]
pub struct Elapsed(());

/// A future with a time limit. See [`timeout`].
///
/// # Panics
/// If it has to wait and is polled on a thread without a runtime, or after the runtime has ended.
#[must_use = "a timeout does nothing before it is polled"]
#[derive(Debug)]
pub struct Timeout<F> {
    future: F,
    sleep: Sleep,
    turn: Turn,
}

/// Gives a future a time limit of `duration`, counted from this call. Each poll polls the future before it
/// looks at the time, so a future that is ready gives its output also after the limit. The future is dropped
/// together with the timeout.
///
/// # Errors
/// Awaiting the timeout returns [`Elapsed`] if the limit passed first.
pub fn timeout<F: Future>(duration: Duration, future: F) -> Timeout<F> {
    Timeout {
        future,
        sleep: sleep(duration),
        turn: Turn::default(),
    }
}

/// Gives a future time until `deadline`; otherwise as [`timeout`].
///
/// # Errors
/// Awaiting the timeout returns [`Elapsed`] if the deadline passed first.
pub fn timeout_at<F: Future>(deadline: Instant, future: F) -> Timeout<F> {
    Timeout {
        future,
        sleep: sleep_until(deadline),
        turn: Turn::default(),
    }
}

impl<F> Timeout<F> {
    /// Allows the limit to be up to `slack` later; see [`Sleep::slack`].
    pub fn slack(mut self, slack: Duration) -> Timeout<F> {
        self.sleep = self.sleep.slack(slack);
        self
    }

    /// Returns the future without its time limit.
    pub fn into_inner(self) -> F {
        self.future
    }
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    #[track_caller]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: `future` is pinned with the timeout: it is never moved out of a pinned timeout, there is no
        // Drop, and Timeout is Unpin only if F is. The others are Unpin.
        let (future, sleep, turn) = unsafe {
            let Timeout {
                future,
                sleep,
                turn,
            } = self.get_unchecked_mut();
            (Pin::new_unchecked(future), sleep, turn)
        };
        let budget = ready!(turn.begin(cx));
        let result = match future.poll(cx) {
            Poll::Ready(output) => Ok(output),
            Poll::Pending => {
                // Without the budget: the future may spend all of it in each poll.
                ready!(sleep.poll_time(cx));
                Err(Elapsed(()))
            }
        };
        coop::end(budget);
        Poll::Ready(result)
    }
}
