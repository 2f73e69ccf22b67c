//! Calls: a closure run on the lane of a named core.

use crate::handle::Handle;
use crate::task::launch;
use crate::{CoreId, JoinError, Payload, ambient};
use doorbell_core::call::{self as core_call, CallFailed, ErasedCall};
use doorbell_core::task::{Join, Kind, Once};
use std::any::Any;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A call without a result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The runtime has no core of that number. The closure did not run.
    #[error("there is no core {core}: the runtime has cores 0 to {last}", last = .cores - 1)]
    NoSuchCore {
        /// The core asked for.
        core: CoreId,
        /// How many there are.
        cores: usize,
    },
    /// A core was named twice in one call to many. The closure ran nowhere.
    #[error("core {core} is named twice in one call to many cores; name each core once")]
    DuplicateCore {
        /// The core that was named twice.
        core: CoreId,
    },
    /// The runtime is going away or gone. The closure did not run.
    #[error("the runtime is gone; the call was not run")]
    RuntimeGone,
    /// The blocking form was used on a lane. The closure did not run.
    #[error(
        "a blocking call was made on a lane, which could wait for itself; use call_on(core, f).await"
    )]
    InsideLane,
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

/// A call under way: a future of the closure's result. See [`call_on`].
///
/// Dropping it withdraws the call: if the closure has not begun by then, it never will, and is
/// dropped on the core it was posted to. [`Call::detach`] lets it run unobserved instead.
///
/// # Panics
/// If it is polled again after it was ready.
#[must_use = "dropping a call withdraws it; await it"]
#[derive(Debug)]
pub struct Call<R>(State<R>);

#[derive(Debug)]
enum State<R> {
    Posted(Join<R>),
    Refused(Option<CallError>),
}

impl<R> Unpin for Call<R> {}

impl<R> Call<R> {
    /// Lets the call run without anybody waiting for it. Its result is dropped where it ran.
    pub fn detach(mut self) {
        self.0 = State::Refused(None);
    }
}

impl<R> Future for Call<R> {
    type Output = Result<R, CallError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            State::Posted(join) => Pin::new(join).poll(cx).map_err(|error| match error {
                JoinError::Panicked(payload) => CallError::Panicked(payload),
                // Only a withdrawal or the end of the lane cancels a call, and who awaits it
                // has not withdrawn it.
                _ => CallError::RuntimeGone,
            }),
            State::Refused(error) => {
                let error = error
                    .take()
                    .expect("a call was polled again after it was ready");
                Poll::Ready(Err(error))
            }
        }
    }
}

impl<R> Drop for Call<R> {
    fn drop(&mut self) {
        if let State::Posted(join) = &self.0 {
            join.cancel();
        }
    }
}

/// Runs a closure on the lane of a core of the current runtime.
///
/// It is posted at once and runs as soon as the poll that the core may be in has ended, before
/// its tasks, without a pass of its scheduler; so it should be short. Calls from one task or
/// thread to one core run in the order they were posted. The core is rung only if it sleeps.
///
/// The result, or the panic, comes back by awaiting. A call that is dropped before it ran is
/// withdrawn.
///
/// # Errors
/// Awaiting it returns [`CallError::NoSuchCore`], [`CallError::RuntimeGone`] or
/// [`CallError::Panicked`].
///
/// # Panics
/// If there is no runtime on this thread; [`Handle::call_on`] works anywhere.
///
/// Source: the kernel's `smp_call_function_single`, Seastar's `submit_to`.
#[track_caller]
pub fn call_on<F, R>(core: impl Into<CoreId>, f: F) -> Call<R>
where
    F: FnOnce() -> R + Send + 'static,
    R: Send + 'static,
{
    let core = core.into();
    ambient::with_current(|frame| match frame {
        Some(frame) => post(frame.handle(), core, f),
        None => panic!("{}", crate::NoRuntime),
    })
}

#[inline]
pub(crate) fn check(handle: &Handle, core: CoreId) -> Result<usize, CallError> {
    let cores = handle.cores();
    if core.index() < cores {
        Ok(core.index())
    } else {
        Err(CallError::NoSuchCore { core, cores })
    }
}

pub(crate) fn post<F, R>(handle: &Handle, core: CoreId, f: F) -> Call<R>
where
    F: FnOnce() -> R + Send + 'static,
    R: Send + 'static,
{
    let core = match check(handle, core) {
        Ok(core) => core,
        Err(error) => return Call(State::Refused(Some(error))),
    };
    Call(State::Posted(launch(
        handle,
        core,
        Kind::Call,
        None,
        Once::new(f),
    )))
}

pub(crate) fn blocking<F, R>(handle: &Handle, core: CoreId, f: F) -> Result<R, CallError>
where
    F: FnOnce() -> R + Send,
    R: Send,
{
    let core = check(handle, core)?;
    if ambient::on_a_lane() {
        return Err(CallError::InsideLane);
    }
    // SAFETY: closure and result are Send, and the caller is no lane.
    let post = |call: ErasedCall| unsafe { handle.inner().call_blocking(core, &call) };
    // SAFETY: `call_blocking` is `wait_for`, and keeps nothing.
    let done = unsafe { core_call::blocking(f, post) };
    done.map_err(|failed| match failed {
        CallFailed::Gone(_) => CallError::RuntimeGone,
        CallFailed::Panicked(payload) => CallError::Panicked(payload),
    })
}
