//! Turns: a task for which something is always ready lets the others of its core run.
//!
//! A task gives way where it waits. One that reads from a channel that is never empty never waits,
//! and the other tasks of its core, its timers and its calls would not run. So each poll has a budget
//! of 128 operations that are ready at once; [`cooperative`] makes a future one of them.
//!
//! Source: tokio's cooperative budget.

use crate::ambient;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A future that counts: see [`cooperative`].
#[must_use = "futures do nothing unless polled"]
#[derive(Debug)]
pub struct Cooperative<F>(F);

/// Makes a future count against the budget of the poll that it is polled in: it takes one of 128
/// when it is ready, and where none is left it gives the other tasks of the core a turn first.
///
/// On a thread that is no lane it does nothing.
///
/// ```
/// # #[doorbell::main(cores = 1)]
/// # async fn main() {
/// use doorbell::coop::cooperative;
///
/// let (to, mut from) = tokio::sync::mpsc::unbounded_channel();
/// (0..1_000).for_each(|number| to.send(number).unwrap());
/// drop(to);
/// let mut sum = 0;
/// while let Some(number) = cooperative(std::pin::pin!(from.recv())).await {
///     sum += number;
/// }
/// assert_eq!(sum, 499_500);
/// # }
/// ```
pub fn cooperative<F: Future + Unpin>(future: F) -> Cooperative<F> {
    Cooperative(future)
}

impl<F: Future + Unpin> Future for Cooperative<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        if !has_budget() {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let polled = Pin::new(&mut self.0).poll(cx);
        if polled.is_ready() {
            spend_budget();
        }
        polled
    }
}

/// Whether the current poll may do one more thing that is ready.
pub(crate) fn has_budget() -> bool {
    ambient::with_current(|frame| frame.is_none_or(|frame| frame.handle().inner().has_budget()))
}

/// The current poll has done one.
pub(crate) fn spend_budget() {
    ambient::with_current(|frame| {
        if let Some(frame) = frame {
            frame.handle().inner().spend_budget();
        }
    });
}

/// Takes one from the budget of the current poll, and gives the other tasks of the core a turn first
/// if none is left: for loops that compute.
pub async fn consume_budget() {
    cooperative(std::future::ready(())).await;
}
