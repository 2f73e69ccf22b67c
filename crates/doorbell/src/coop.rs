//! The poll budget: a task for which something is always ready still lets the other tasks of its worker run.
//!
//! A task yields where it waits. A task that reads from a channel that is never empty never waits, so the
//! other tasks, timers and calls of its worker would not run. Therefore each poll may complete 128 operations
//! that are ready at once. The next operation is not polled: it returns `Pending` and wakes the task, which
//! is polled again after the others. Tasks have this budget, and so have futures that run in
//! [`block_on`](crate::Runtime::block_on).
//!
//! The futures of this crate count, except operations of a stream that never wait: `write_all` and
//! `read_exact` of no bytes, `poll_flush`, `poll_close` and `poll_shutdown`. In a loop that does only these,
//! call [`consume_budget`]. Futures of other crates do not count, unless they are wrapped in [`cooperative`].
//!
//! Deadlines do not depend on the budget: a [`timeout`](crate::time::timeout()) ends also if its future
//! spends the whole budget in each poll, and so does a [`sleep`](crate::time::sleep()) that had to wait.
//!
//! The budget belongs to the task. If one task polls several futures in a fixed order, as `join!` does, and
//! the first is always ready, the others get no budget for as long as that lasts. Spawn them as tasks of
//! their own.
//!
//! Source: tokio's cooperative budget.

use crate::ambient;
use doorbell_core::worker::Local;
use doorbell_machine::Host;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A future that counts against the poll budget: see [`cooperative`].
#[must_use = "futures do nothing unless polled"]
#[derive(Debug)]
pub struct Cooperative<F>(F);

/// Makes a future count against the budget of the poll in which it is polled. It takes one of 128 when it is
/// ready. If none is left, it is not polled until the other tasks of the worker have had a turn.
///
/// Outside of tasks and of [`block_on`](crate::Runtime::block_on) this has no effect.
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

/// Polls an operation that takes one from the budget of the current poll when it is ready. If none is left,
/// this wakes the task instead, and the task is polled again after the others.
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

/// Takes one from the budget of the current poll. If none is left, the other tasks of the worker have a turn
/// first. For loops that compute.
pub async fn consume_budget() {
    poll_fn(|cx| poll(cx, |_| Poll::Ready(()))).await;
}
