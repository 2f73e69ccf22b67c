//! Turns: a task for which something is always ready lets the others of its core run.
//!
//! A task gives way where it waits. One that reads from a channel that is never empty never waits, and
//! the other tasks of its core, its timers and its calls would not run. So each poll may complete 128
//! operations that are ready at once. The next one is refused: its task is woken and polled again behind
//! the others. Tasks have that budget, and futures that run in [`block_on`](crate::Runtime::block_on).
//!
//! The futures of this crate count, except for what a stream does without ever waiting: `write_all` and
//! `read_exact` of no bytes, `poll_flush`, `poll_close` and `poll_shutdown`. Call
//! [`consume_budget`] in a loop that does only that. Futures of other crates do not count, until
//! [`cooperative`] makes them.
//!
//! A deadline does not need the budget: [`timeout`](crate::time::timeout()) ends also where its future
//! spends all of it in each poll, and so does a [`sleep`](crate::time::sleep()) that had to wait.
//!
//! The budget belongs to the task. If one task polls several futures in a fixed order, as `join!` does,
//! and the first is always ready, the others are refused for as long as that lasts. Spawn them as tasks
//! of their own.
//!
//! Source: tokio's cooperative budget.

use crate::ambient;
use doorbell_core::task::Local;
use doorbell_machine::Host;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A future that counts: see [`cooperative`].
#[must_use = "futures do nothing unless polled"]
#[derive(Debug)]
pub struct Cooperative<F>(F);

/// Makes a future count against the budget of the poll that it is polled in: it takes one of 128
/// when it is ready, and where none is left it gives the other tasks of the core a turn first.
///
/// Outside of tasks and of [`block_on`](crate::Runtime::block_on) it does nothing.
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
        poll(cx, |cx| Pin::new(&mut self.0).poll(cx))
    }
}

/// Polls what takes one from the budget of the current poll when it is ready. Where none is left, the
/// task is woken instead, and comes again behind the others.
#[inline]
pub(crate) fn poll<R>(
    cx: &mut Context<'_>,
    operation: impl FnOnce(&mut Context<'_>) -> Poll<R>,
) -> Poll<R> {
    Local::<Host>::with_current(|worker| {
        let before = match worker {
            Some(worker) => worker.begin_operation(),
            None => ambient::begin_operation(),
        };
        let Some(before) = before else {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        };
        let polled = operation(cx);
        if polled.is_ready() {
            match worker {
                Some(worker) => worker.end_operation(before),
                None => ambient::end_operation(before),
            }
        }
        polled
    })
}

/// Takes one from the budget of the current poll, and gives the other tasks of the core a turn first
/// if none is left: for loops that compute.
pub async fn consume_budget() {
    poll_fn(|cx| poll(cx, |_| Poll::Ready(()))).await;
}
