//! [`yield_now`]: gives the other tasks of a worker a turn.

use std::pin::Pin;
use std::task::{Context, Poll};

/// Lets the other tasks of this worker that can run have a turn before the caller goes on. If they keep it waiting for
/// more than about 20 µs, it goes on before the rest of them.
///
/// ```
/// # doorbell::Builder::new().cores(1).build().unwrap().block_on(async {
/// doorbell::yield_now().await;
/// # });
/// ```
pub fn yield_now() -> YieldNow {
    YieldNow { yielded: false }
}

/// The future of [`yield_now`].
#[must_use = "nothing is yielded before it is awaited"]
#[derive(Debug)]
pub struct YieldNow {
    yielded: bool,
}

impl Future for YieldNow {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.yielded {
            return Poll::Ready(());
        }
        self.yielded = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}
