//! Calls: closures that run on the worker of a named core.

use crate::handle::Handle;
use crate::large::boxed_if_large;
use crate::room::{Place, Room};
use crate::task::launch_call;
use crate::{Class, ClassKind, CoreId, JoinError, ambient, coop, error::Payload};
use async_lock::Mutex;
use doorbell_core::call::{self as core_call, CallFailed, ErasedCall};
use doorbell_core::task::{Join, Once};
use std::any::Any;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// Why a call has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The runtime has no core of that number. The closure did not run.
    #[error("there is no core {core}: the runtime has cores 0 to {last}", last = .cores - 1)]
    NoSuchCore {
        /// The core asked for.
        core: CoreId,
        /// Number of cores of the runtime.
        cores: usize,
    },
    /// A core was named twice in one call to many. The closure ran nowhere.
    #[error("core {core} is named twice in one call to many cores; name each core once")]
    DuplicateCore {
        /// The core that was named twice.
        core: CoreId,
    },
    /// The core was taken off. The closure did not run.
    #[error("core {core} is off; call core_online({core}) first, or call another core")]
    CoreOffline {
        /// The core asked for.
        core: CoreId,
    },
    /// The OS did not start the workers of the call's class. The closure did not run.
    #[error(
        "the OS did not start or bind the threads of class {class} ({kind}); raise the limit on threads (ulimit -u, pids.max), look at the affinity mask, or use fewer cores or another class"
    )]
    NoWorkers {
        /// The class asked for.
        class: Class,
        /// What the OS said.
        kind: std::io::ErrorKind,
    },
    /// The core's mailbox has a limit and is full. The closure did not run.
    #[error(
        "the mailbox of core {core} is full; await call_on, which waits for room, or raise Builder::mailbox_limit"
    )]
    Full {
        /// The core asked for.
        core: CoreId,
    },
    /// The runtime is going away or gone. The closure did not run.
    #[error("the runtime is gone; the call was not run")]
    RuntimeGone,
    /// A blocking form of a call was used on a worker. The closure did not run.
    #[error(
        "a blocking call was made on a worker, which could wait for itself; use call_on(core, f).await"
    )]
    InsideWorker,
    /// The closure panicked.
    #[error("the call panicked: {0}")]
    Panicked(Payload),
}

impl CallError {
    /// The panic's payload, to be passed to [`std::panic::resume_unwind`].
    ///
    /// # Errors
    /// `self`, if the closure did not panic.
    pub fn try_into_panic(self) -> Result<Box<dyn Any + Send + 'static>, CallError> {
        match self {
            CallError::Panicked(payload) => Ok(payload.into_inner()),
            other => Err(other),
        }
    }
}

/// A call that is under way, and a future of the closure's result. See [`call_on`].
///
/// Dropping it withdraws the call: a closure that has not begun does not run, and is dropped on the core to
/// which it was posted. [`Call::detach`] lets it run instead.
///
/// # Panics
/// If it is polled again after it was ready.
#[must_use = "dropping a call withdraws it; await it"]
#[derive(Debug)]
pub struct Call<R>(CallState<R>);

enum CallState<R> {
    /// The mailbox is full: the future posts the call when there is room. The lock is never taken: with it, the call
    /// can be shared although the future cannot.
    Waiting(Mutex<Waiting<R>>, Handle),
    Posted(Join<R>),
    Refused(Option<CallError>),
}

/// Posts the call when the mailbox has room.
type Waiting<R> = Pin<Box<dyn Future<Output = Result<Join<R>, CallError>> + Send>>;

impl<R> std::fmt::Debug for CallState<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            CallState::Waiting(..) => "Waiting",
            CallState::Posted(_) => "Posted",
            CallState::Refused(_) => "Refused",
        })
    }
}

// By hand: a panic of a user's leaves it whole: it runs none of a user's code while it changes.
impl<R> std::panic::UnwindSafe for Call<R> {}
impl<R> std::panic::RefUnwindSafe for Call<R> {}

impl<R> Unpin for Call<R> {}

impl<R> Call<R> {
    /// A call that was not posted.
    pub(crate) fn refused(error: CallError) -> Self {
        Call(CallState::Refused(Some(error)))
    }
}

impl<R: Send + 'static> Call<R> {
    /// Lets the call run without being awaited, also if it still waits for room. Its result is dropped on the
    /// core where it ran.
    pub fn detach(mut self) {
        let state = std::mem::replace(&mut self.0, CallState::Refused(None));
        if let CallState::Waiting(waiting, handle) = state {
            let waiting = waiting.into_inner();
            drop(handle.spawn(async move { drop(waiting.await) }));
        }
    }
}

impl<R> Future for Call<R> {
    type Output = Result<R, CallError>;

    #[track_caller]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let CallState::Waiting(waiting, _) = &mut self.0 {
            self.0 = match ready!(waiting.get_mut().as_mut().poll(cx)) {
                Ok(join) => CallState::Posted(join),
                Err(error) => CallState::Refused(Some(error)),
            };
        }
        if let CallState::Posted(join) = &mut self.0 {
            ready!(join.poll_complete(cx));
        }
        ready!(coop::allow(cx));
        Poll::Ready(match &mut self.0 {
            CallState::Waiting(..) => unreachable!("it was posted above"),
            CallState::Posted(join) => join.take().map_err(|error| match error {
                JoinError::Panicked(payload) => CallError::Panicked(payload),
                // A call is cancelled by its withdrawal or by the end of its worker, and this one was not
                // withdrawn.
                _ => CallError::RuntimeGone,
            }),
            CallState::Refused(error) => {
                let error = error.take();
                Err(error.expect("a call was polled again after it was ready"))
            }
        })
    }
}

impl<R> Drop for Call<R> {
    fn drop(&mut self) {
        if let CallState::Posted(join) = &self.0 {
            join.cancel();
        }
    }
}

/// Runs a closure on the Fair worker of a core of the current runtime, whatever the class of the caller.
/// [`call`](crate::call()) chooses another class.
///
/// The call is posted at once. Only if the core's mailbox has a [limit](crate::Builder::mailbox_limit) and is
/// full, it waits for room when it is awaited. The worker runs it after its current poll, before its tasks
/// and without a pass over its queues. So the closure should be short. Calls from one task or thread to one
/// core run in the order in which they were posted. The core is rung only if its worker sleeps.
///
/// Awaiting the call gives the closure's result, or an error with its panic. Dropping the call before the
/// closure has begun withdraws it.
///
/// # Errors
/// Awaiting the call returns [`CallError::NoSuchCore`], [`CallError::CoreOffline`],
/// [`CallError::RuntimeGone`] or [`CallError::Panicked`].
///
/// # Panics
/// If there is no runtime on this thread; [`Handle::call_on`] works anywhere.
///
/// Source: the kernel's `smp_call_function_single`, Seastar's `submit_to`.
#[doc(alias("submit_to", "smp_call_function"))]
#[track_caller]
pub fn call_on<F, R>(core: impl Into<CoreId>, f: F) -> Call<R>
where
    F: FnOnce() -> R + Send + 'static,
    R: Send + 'static,
{
    let core = core.into();
    boxed_if_large!(f: F, Box::new => post(ambient::expect_current().handle(), core, f))
}

/// As [`call_on`], but does not wait for room in the core's mailbox.
///
/// # Errors
/// [`CallError::Full`] if the mailbox has a [limit](crate::Builder::mailbox_limit) and is full;
/// [`CallError::NoSuchCore`] and [`CallError::CoreOffline`]. The closure has then been dropped on the calling
/// thread. Awaiting the call returns the errors of [`call_on`].
///
/// # Panics
/// If there is no runtime on this thread; [`Handle::try_call_on`] works anywhere.
#[track_caller]
pub fn try_call_on<F, R>(core: impl Into<CoreId>, f: F) -> Result<Call<R>, CallError>
where
    F: FnOnce() -> R + Send + 'static,
    R: Send + 'static,
{
    let core = core.into();
    boxed_if_large!(f: F, Box::new => try_post(ambient::expect_current().handle(), core, f))
}

pub(crate) fn check(handle: &Handle, core: CoreId) -> Result<usize, CallError> {
    let cores = handle.cores();
    if core.index() >= cores {
        Err(CallError::NoSuchCore { core, cores })
    } else if handle.inner().is_on(core.index()) {
        Ok(core.index())
    } else {
        Err(CallError::CoreOffline { core })
    }
}

#[inline]
pub(crate) fn post<F, R>(handle: &Handle, core: CoreId, f: F) -> Call<R>
where
    F: FnOnce() -> R + Send + 'static,
    R: Send + 'static,
{
    let core = match check(handle, core) {
        Ok(core) => core,
        Err(error) => return Call::refused(error),
    };
    match handle.inner().room(core) {
        None => Call(CallState::Posted(launch_call(
            handle,
            core,
            Class::FAIR,
            Once::new(f),
        ))),
        Some(room) => match room.try_acquire() {
            Some(place) => Call(CallState::Posted(launch_in(handle, core, place, f))),
            None => Call(wait_for_room(handle.clone(), Arc::clone(room), core, f)),
        },
    }
}

/// Runs a closure on the worker of a class that has been started, without heeding the mailbox limit.
pub(crate) fn post_to_class<F, R>(handle: &Handle, core: usize, class: Class, f: F) -> Call<R>
where
    F: FnOnce() -> R + Send + 'static,
    R: Send + 'static,
{
    let once = Once::new(f);
    Call(CallState::Posted(launch_call(handle, core, class, once)))
}

/// As [`post`], but does not wait for room.
pub(crate) fn try_post<F, R>(handle: &Handle, core: CoreId, f: F) -> Result<Call<R>, CallError>
where
    F: FnOnce() -> R + Send + 'static,
    R: Send + 'static,
{
    let number = check(handle, core)?;
    let join = match place(handle, core)? {
        None => launch_call(handle, number, Class::FAIR, Once::new(f)),
        Some(place) => launch_in(handle, number, place, f),
    };
    Ok(Call(CallState::Posted(join)))
}

/// A place in the core's mailbox; `None` if it has no limit. The runtime has the core.
pub(crate) fn place(handle: &Handle, core: CoreId) -> Result<Option<Place>, CallError> {
    match handle.inner().room(core.index()) {
        None => Ok(None),
        Some(room) => match room.try_acquire() {
            Some(place) => Ok(Some(place)),
            None => Err(CallError::Full { core }),
        },
    }
}

/// Launches a call that holds its place in the mailbox until the closure has run or is dropped.
fn launch_in<F, R>(handle: &Handle, core: usize, place: Place, f: F) -> Join<R>
where
    F: FnOnce() -> R + Send + 'static,
    R: Send + 'static,
{
    let f = move || {
        let _place = place;
        f()
    };
    launch_call(handle, core, Class::FAIR, Once::new(f))
}

fn wait_for_room<F, R>(handle: Handle, room: Arc<Room>, core: usize, f: F) -> CallState<R>
where
    F: FnOnce() -> R + Send + 'static,
    R: Send + 'static,
{
    let then = handle.clone();
    let waiting = async move {
        let place = room.acquire().await;
        // The core may have been taken off meanwhile.
        check(&then, CoreId::new(core))?;
        Ok(launch_in(&then, core, place, f))
    };
    CallState::Waiting(Mutex::new(Box::pin(waiting)), handle)
}

pub(crate) fn blocking<F, R>(handle: &Handle, core: CoreId, f: F) -> Result<R, CallError>
where
    F: FnOnce() -> R + Send,
    R: Send,
{
    let core = check(handle, core)?;
    if ambient::on_a_worker() {
        return Err(CallError::InsideWorker);
    }
    let mut waited = None;
    if let Some(room) = handle.inner().room(core) {
        let wait = async { waited = Some(Arc::clone(room).acquire().await) };
        let holds = ambient::holds_clock_of(handle);
        handle.inner().block_on(holds, std::pin::pin!(wait));
        // The core may have been taken off meanwhile.
        check(handle, CoreId::new(core))?;
    }
    // The place is kept until the closure has run.
    let _place = waited;
    wait_on(handle, core, ClassKind::Fair, f)
}

/// Runs a closure on a worker of this kind, and blocks until it has run, without heeding the mailbox limit.
/// The workers of this kind have been started. The caller is not a worker.
pub(crate) fn wait_on<F, R>(
    handle: &Handle,
    core: usize,
    workers: ClassKind,
    f: F,
) -> Result<R, CallError>
where
    F: FnOnce() -> R + Send,
    R: Send,
{
    // SAFETY: closure and result are Send, and the caller is not a worker.
    let post = |call: ErasedCall| unsafe { handle.inner().call_blocking(core, workers, &call) };
    // SAFETY: `call_blocking` is `wait_for`, and keeps nothing.
    let done = unsafe { core_call::blocking(f, post) };
    done.map_err(|failed| match failed {
        CallFailed::Gone(_) => CallError::RuntimeGone,
        CallFailed::Panicked(payload) => CallError::Panicked(payload),
    })
}
