//! [`scope`]: child tasks that end before the code that spawned them goes on.

use crate::handle::Handle;
use crate::large::boxed_if_large;
use crate::wakers::contained;
use crate::{CoreId, JoinError, JoinHandle, JoinSet, TaskBuilder, coop, error::Payload};
use async_lock::Mutex;
use futures_channel::{mpsc, oneshot};
use futures_util::future::{AbortHandle, Abortable};
use futures_util::{FutureExt, StreamExt};
use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

/// The payload of a panic.
type Panic = Box<dyn Any + Send + 'static>;

/// Runs `body` with a [`Scope`]. Returns the output of `body` when all tasks that were spawned in the scope
/// have ended and their futures have been dropped.
///
/// * The body returns ⇒ the scope waits for the children.
/// * The body panics ⇒ the scope aborts the children, waits for them, and then resumes the panic.
/// * A child panics ⇒ the scope drops the body, aborts the other children, waits for all, and then resumes
///   the panic. Of several panics, it resumes that of the first child.
/// * The future of the scope is dropped ⇒ the children are aborted: each is dropped on its worker, without
///   waiting.
///
/// Children own what they use (`'static`). They cannot borrow from the scope, because a future can be leaked
/// at any time, and its children would then outlive what they borrow. Move an [`Arc`](std::sync::Arc) into
/// them instead, or return a value from each.
///
/// # Panics
/// If there is no runtime on this thread. Also if the body or a child panics, with that panic.
///
/// ```
/// # doorbell::Builder::new().cores(2).build().unwrap().block_on(async {
/// let sum = doorbell::scope(async |s| {
///     let left = s.spawn(async { 40 });
///     let right = s.spawn(async { 2 });
///     s.spawn(async { /* ends before the scope does, awaited or not */ });
///     Ok::<_, doorbell::JoinError>(left.await? + right.await?)
/// })
/// .await?;
/// assert_eq!(sum, 42);
/// # Ok::<(), doorbell::JoinError>(())
/// # }).unwrap();
/// ```
pub async fn scope<F, R>(body: F) -> R
where
    F: AsyncFnOnce(&Scope) -> R,
{
    let (admit, admitted) = mpsc::unbounded();
    let scope = Scope {
        handle: Handle::current(),
        admit,
    };
    // Dropped after the body, so that the body cannot spawn a child that this misses.
    let mut children = Children {
        admitted,
        set: JoinSet::new(),
        panic: None,
    };
    let mut body = pin!(Some(AssertUnwindSafe(body(&scope)).catch_unwind()));
    let ended = poll_fn(|cx| {
        if let Some(body) = body.as_mut().as_pin_mut()
            && let Poll::Ready(output) = body.poll(cx)
        {
            return Poll::Ready(Some(output));
        }
        // Without the budget: the body may spend all of it in each poll.
        let _ = children.poll(cx, JoinSet::poll_ended);
        match children.panic {
            Some(_) => Poll::Ready(None),
            None => Poll::Pending,
        }
    })
    .await;
    let dropped = catch_unwind(AssertUnwindSafe(|| body.set(None)));
    let output = match (ended, dropped) {
        (Some(Ok(output)), Ok(())) => Some(output),
        (Some(Err(panic)), _) | (_, Err(panic)) => {
            children.stop();
            children.end().await;
            resume_unwind(children.panic.take().unwrap_or(panic));
        }
        (None, Ok(())) => None,
    };
    children.end().await;
    match (output, children.panic.take()) {
        (Some(output), None) => output,
        (_, Some(panic)) => resume_unwind(panic),
        (None, None) => unreachable!("only a child's panic ends a scope before its body"),
    }
}

/// Spawns children; see [`scope`].
#[derive(Debug)]
pub struct Scope {
    handle: Handle,
    admit: mpsc::UnboundedSender<JoinHandle<()>>,
}

// By hand: a panic of a user's leaves it whole: it runs none of a user's code while it changes.
impl std::panic::UnwindSafe for Scope {}
impl std::panic::RefUnwindSafe for Scope {}

impl Scope {
    /// Spawns a child that may run on any core.
    ///
    /// The child runs also if the handle is dropped. It ends before the scope does.
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> ScopedJoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        boxed_if_large!(future: F, Box::pin => self.spawn_by(self.handle.task(), future))
    }

    /// Spawns a child that is pinned to a core.
    ///
    /// # Panics
    /// If the runtime has no such core, or if that core is off.
    ///
    /// ```
    /// # doorbell::Builder::new().cores(2).build().unwrap().block_on(async {
    /// let core = doorbell::scope(async |s| {
    ///     s.spawn_on(1, async { doorbell::current_core() }).await.unwrap()
    /// });
    /// assert_eq!(core.await, Some(doorbell::CoreId::new(1)));
    /// # });
    /// ```
    #[track_caller]
    pub fn spawn_on<F>(&self, core: impl Into<CoreId>, future: F) -> ScopedJoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let task = self.handle.task().on(core);
        boxed_if_large!(future: F, Box::pin => self.spawn_by(task, future))
    }

    #[track_caller]
    fn spawn_by<F>(&self, task: TaskBuilder, future: F) -> ScopedJoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let (child, handle) = child(future);
        self.admit(task.spawn(child));
        handle
    }

    fn admit(&self, task: JoinHandle<()>) {
        if let Err(refused) = self.admit.unbounded_send(task) {
            // Unreachable while the body lives: the receiver lives as long.
            refused.into_inner().abort();
        }
    }
}

/// The future of a child's task, and the handle of its output. The scope awaits the task and gets the payload
/// of a panic; the handle gets only the message.
fn child<F: Future>(
    future: F,
) -> (
    impl Future<Output = ()> + use<F>,
    ScopedJoinHandle<F::Output>,
) {
    let (output_tx, output) = oneshot::channel();
    let (abort, registration) = AbortHandle::new_pair();
    let task = async move {
        let run = AssertUnwindSafe(Abortable::new(future, registration)).catch_unwind();
        let (result, panic) = match run.await {
            Ok(Ok(output)) => (Ok(output), None),
            Ok(Err(_aborted)) => (Err(JoinError::Cancelled), None),
            Err(panic) => {
                let panic = Payload::new(panic);
                let message = panic.message().unwrap_or("a child of the scope").to_owned();
                let told = Payload::new(Box::new(message));
                (Err(JoinError::Panicked(told)), Some(panic.into_inner()))
            }
        };
        // Fails if the handle was dropped; then the output is not needed.
        drop(output_tx.send(result));
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    };
    let output = ScopedOutput::Awaited(output);
    (task, ScopedJoinHandle { output, abort })
}

/// Takes the next child that has ended out of the set.
type PollNext = fn(&mut JoinSet<()>, &mut Context<'_>) -> Poll<Option<Result<(), JoinError>>>;

/// The tasks of a scope. Dropping this aborts them.
struct Children {
    admitted: mpsc::UnboundedReceiver<JoinHandle<()>>,
    set: JoinSet<()>,
    /// The first panic of a child.
    panic: Option<Panic>,
}

impl Children {
    /// Adds tasks that were spawned to the set, and takes out those that have ended. Ready when the set is
    /// empty, or when the first panic of a child is found.
    fn poll(&mut self, cx: &mut Context<'_>, next: PollNext) -> Poll<()> {
        // After a panic of a waker inside it, the channel would never wake again.
        contained(cx, |cx| {
            while let Poll::Ready(Some(task)) = self.admitted.poll_next_unpin(cx) {
                self.set.push(task);
            }
        });
        loop {
            match next(&mut self.set, cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return Poll::Ready(()),
                // The child returned, was aborted, or its runtime ends.
                Poll::Ready(Some(Ok(()) | Err(JoinError::Cancelled))) => {}
                Poll::Ready(Some(Err(error))) => {
                    let first = self.panic.is_none();
                    let panic = error.try_into_panic().ok();
                    self.panic = self.panic.take().or(panic);
                    if first {
                        return Poll::Ready(());
                    }
                }
            }
        }
    }

    fn stop(&mut self) {
        while let Ok(task) = self.admitted.try_recv() {
            self.set.push(task);
        }
        self.set.abort_all();
    }

    /// Waits for all children. When one has panicked, this aborts the others.
    async fn end(&mut self) {
        if self.panic.is_some() {
            self.stop();
        }
        loop {
            let panicked = self.panic.is_some();
            poll_fn(|cx| self.poll(cx, JoinSet::poll_join_next)).await;
            if panicked || self.panic.is_none() {
                return;
            }
            self.stop();
        }
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The handle of a child of a [`scope`], and a future of its output. Dropping it lets the child run on; the
/// scope still waits for it.
///
/// # Errors
/// Awaiting it gives [`JoinError::Cancelled`] if the child was aborted or the runtime ends. It gives
/// [`JoinError::Panicked`], with the message of the panic, if the child panicked; that ends the scope as
/// well.
///
/// # Panics
/// If it is polled again after it was ready.
#[derive(Debug)]
pub struct ScopedJoinHandle<T> {
    output: ScopedOutput<T>,
    abort: AbortHandle,
}

#[derive(Debug)]
enum ScopedOutput<T> {
    Awaited(oneshot::Receiver<Result<T, JoinError>>),
    /// It waits until the budget of a poll allows it to be taken. The lock is never taken: with it, the handle can
    /// be shared also where `T` cannot.
    There(Mutex<Result<T, JoinError>>),
    Taken,
}

impl<T> Unpin for ScopedJoinHandle<T> {}

// By hand: a panic of a user's leaves it whole: it runs none of a user's code while it changes.
impl<T> std::panic::UnwindSafe for ScopedJoinHandle<T> {}
impl<T> std::panic::RefUnwindSafe for ScopedJoinHandle<T> {}

impl<T> ScopedJoinHandle<T> {
    /// Cancels the child: its future is dropped on a worker instead of being polled again.
    ///
    /// ```
    /// # doorbell::Builder::new().cores(1).build().unwrap().block_on(async {
    /// doorbell::scope(async |s| {
    ///     let child = s.spawn(std::future::pending::<()>());
    ///     child.abort();
    ///     assert!(child.await.unwrap_err().is_cancelled());
    /// })
    /// .await;
    /// # });
    /// ```
    pub fn abort(&self) {
        self.abort.abort();
    }
}

impl<T> Future for ScopedJoinHandle<T> {
    type Output = Result<T, JoinError>;

    #[track_caller]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let ScopedOutput::Awaited(output) = &mut self.output {
            // The child's task wakes this handle, and a panic of the waker there would end the scope.
            let output = ready!(contained(cx, |cx| Pin::new(output).poll(cx)));
            let output = output.unwrap_or(Err(JoinError::Cancelled));
            self.output = ScopedOutput::There(Mutex::new(output));
        }
        if let ScopedOutput::There(_) = self.output {
            ready!(coop::allow(cx));
        }
        match std::mem::replace(&mut self.output, ScopedOutput::Taken) {
            ScopedOutput::There(output) => Poll::Ready(output.into_inner()),
            ScopedOutput::Awaited(_) | ScopedOutput::Taken => {
                panic!("a scoped handle was polled again after it was ready")
            }
        }
    }
}
