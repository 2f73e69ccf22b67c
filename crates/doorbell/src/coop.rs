//! The poll budget: a task for which something is always ready still lets the other tasks of its worker run.
//!
//! A task yields where it waits. A task that reads from a channel that is never empty never waits, so the
//! other tasks, timers and calls of its worker would not run. Therefore each poll may complete 128 operations
//! that are ready at once. The next one returns `Pending` although it is ready, and wakes the task, which is
//! polled again after the others. Tasks have this budget, and so have futures that run in
//! [`block_on`](crate::Runtime::block_on).
//!
//! The budget never costs an operation its place: its first poll puts it into the queue for a lock or for room,
//! and raises the task that it waits for, also if the budget is used up.
//!
//! The futures of this crate count, except operations of a stream that never wait: `write_all` and
//! `read_exact` of no bytes, `poll_flush`, `poll_close` and `poll_shutdown`. In a loop that does only these,
//! call [`consume_budget`]. Futures of other crates do not count, unless they are wrapped in [`cooperative`].
//! Of [`timeout`](crate::time::timeout())s and [`cooperative`] futures, one may be ready beyond the budget, because the
//! future inside gets its place by the poll that may also complete it. The others are not polled in that turn, but in
//! the next one of their task, whatever the budget then.
//!
//! So a loop that asks the same socket again and again within one poll, by `readable` for example, becomes pending
//! after 128 times although the socket is ready. It goes on after the other tasks.
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
use crate::here::on_its_machine;
pub use crate::yield_now::YieldNow;
use doorbell_core::worker::{Lifted, Local, PollBudget};
use pin_project_lite::pin_project;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// A future that counts against the poll budget: see [`cooperative`].
#[must_use = "futures do nothing unless polled"]
#[derive(Debug)]
pub struct Cooperative<F> {
    future: F,
    turn: Turn,
}

/// Makes a future count against the budget of the poll in which it is polled. It takes one of 128 when it is
/// ready. If none is left, one such future may still be ready, because only its poll gives it a place in a queue.
/// Those after it are not polled until the other tasks of the worker have had a turn, and then whatever is left.
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
    Cooperative {
        future,
        turn: Turn::default(),
    }
}

impl<F: Future + Unpin> Future for Cooperative<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        let budget = ready!(this.turn.begin(cx));
        let output = ready!(Pin::new(&mut this.future).poll(cx));
        end(budget);
        Poll::Ready(output)
    }
}

/// Calls `f` with the budget of the current poll; `None` where there is no limit.
#[inline]
fn with_budget<R>(f: impl FnOnce(Option<&PollBudget>) -> R) -> R {
    on_its_machine!(M => Local::<M>::with_current(|worker| match worker {
        Some(worker) => f(worker.budget()),
        None => ambient::with_budget(f),
    }))
}

/// Whether the budget of the current poll is used up: an operation may take its place, and nothing else.
#[inline]
pub(crate) fn is_spent() -> bool {
    with_budget(|budget| budget.is_some_and(PollBudget::is_spent))
}

/// Takes one from the budget of the current poll, for an operation that found what it waits for, and keeps it
/// until this is ready. If none is left, this wakes the task instead, and the task is polled again after the
/// others.
#[inline]
pub(crate) fn allow(cx: &Context<'_>) -> Poll<()> {
    if with_budget(|budget| budget.is_none_or(PollBudget::take)) {
        return Poll::Ready(());
    }
    cx.waker().wake_by_ref();
    Poll::Pending
}

/// Takes one from the budget of the current poll, for an operation that has completed. If none is left, an
/// operation was refused; that is counted instead.
#[inline]
pub(crate) fn count() {
    with_budget(|budget| budget.is_none_or(PollBudget::take));
}

/// The turns of a future of which it is not known whether its poll takes a place or also what is there.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    was_refused: bool,
}

/// What [`Turn::begin`] hands to [`end`]: what was left of the budget. `None` for a turn beyond it.
pub(crate) type Begun = Option<i32>;

impl Turn {
    /// Begins a poll. Pass what this returns to [`end`] when the future has completed: then it takes one from the
    /// budget of the current poll. If none is left, one such future may complete all the same; for those after it,
    /// this only wakes the task. One that was refused the last time is not refused again: it would never be polled,
    /// nor its deadline be seen, beside one that goes beyond the budget in each poll of their task.
    pub(crate) fn begin(&mut self, cx: &Context<'_>) -> Poll<Begun> {
        let begun = with_budget(|budget| budget.map_or(Some(i32::MAX), PollBudget::begin));
        let was_refused = std::mem::take(&mut self.was_refused);
        if begun.is_some() || was_refused {
            return Poll::Ready(begun);
        }
        self.was_refused = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Ends a completed operation that [`Turn::begin`] began.
pub(crate) fn end(begun: Begun) {
    with_budget(|budget| {
        if let (Some(budget), Some(before)) = (budget, begun) {
            budget.end(before);
        }
    });
}

pin_project! {
    /// A future without a poll budget: see [`unconstrained`].
    #[must_use = "futures do nothing unless polled"]
    #[derive(Debug)]
    pub struct Unconstrained<F> {
        #[pin]
        future: F,
    }
}

/// Polls a future without a limit for what it may complete in one poll. What it completes is not taken from the
/// budget of its task. If it never has to wait, the other tasks of the worker do not run.
///
/// ```
/// # #[doorbell::main(cores = 1)]
/// # async fn main() {
/// use doorbell::coop::{consume_budget, unconstrained};
/// use futures::FutureExt;
///
/// let many = unconstrained(async {
///     for _ in 0..1_000 {
///         consume_budget().await;
///     }
/// });
/// assert!(many.now_or_never().is_some(), "it is ready in one poll");
/// # }
/// ```
pub fn unconstrained<F: Future>(future: F) -> Unconstrained<F> {
    Unconstrained { future }
}

/// Restores the budget, also after a panic.
struct Restore(Option<Lifted>);

impl Drop for Restore {
    fn drop(&mut self) {
        with_budget(|budget| {
            if let (Some(budget), Some(lifted)) = (budget, self.0) {
                budget.restore(lifted);
            }
        });
    }
}

impl<F: Future> Future for Unconstrained<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let _restore = Restore(with_budget(|budget| budget.map(PollBudget::lift)));
        self.project().future.poll(cx)
    }
}

/// Whether the current poll may complete another operation. `true` where there is no limit.
///
/// ```
/// # #[doorbell::main(cores = 1)]
/// # async fn main() {
/// use doorbell::coop::{consume_budget, has_budget_remaining};
///
/// assert!(has_budget_remaining());
/// for _ in 0..128 {
///     consume_budget().await;
/// }
/// assert!(!has_budget_remaining());
/// # }
/// ```
pub fn has_budget_remaining() -> bool {
    !is_spent()
}

/// Takes one from the budget of the current poll. If none is left, the other tasks of the worker have a turn
/// first. For loops that compute.
pub async fn consume_budget() {
    poll_fn(|cx| allow(cx)).await;
}
