//! Posts: closures sent to a named core, without a result.

use crate::CoreId;
use crate::ambient::{self, Limit};
use crate::call_on::{CallError, check, place};
use crate::handle::Handle;
use crate::large::boxed_if_large;
use doorbell_core::mailbox::Gone;
use doorbell_core::parcel::posting;

/// Runs a closure on the Fair worker of a core of the current runtime, whatever the class of the caller.
/// There is no result to await.
///
/// The closure runs when a call of [`call_on`](crate::call_on()) would, in order with the calls of the same
/// task or thread to that core, and before the runtime ends. A closure of up to 48 bytes needs no allocation
/// of its own. A panic in the closure is caught and counted
/// ([`WorkerCounts::posts_panicked`](crate::metrics::raw::WorkerCounts)).
///
/// ```
/// # #[doorbell::main(cores = 2)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::atomic::{AtomicU64, Ordering};
/// static HITS: AtomicU64 = AtomicU64::new(0);
///
/// doorbell::post_on(1, || {
///     HITS.fetch_add(1, Ordering::Relaxed);
/// })?;
/// // After it in the order of this task's calls.
/// let hits = doorbell::call_on(1, || HITS.load(Ordering::Relaxed)).await?;
/// assert_eq!(hits, 1);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`CallError::NoSuchCore`], [`CallError::CoreOffline`], [`CallError::Full`] and [`CallError::RuntimeGone`].
/// The closure has then been dropped on the calling thread.
///
/// # Panics
/// If there is no runtime on this thread; [`Handle::post_on`] works anywhere.
#[track_caller]
pub fn post_on<F>(core: impl Into<CoreId>, f: F) -> Result<(), CallError>
where
    F: FnOnce() + Send + 'static,
{
    let core = core.into();
    boxed_if_large!(f: F, Box::new => post(ambient::expect_current().handle(), core, f))
}

/// Why a closure was not posted.
enum Back {
    /// The core cannot be called, or its mailbox has a limit to heed: `post_limited` finds out which.
    Refused,
    Gone,
}

#[inline]
pub(crate) fn post<F>(handle: &Handle, core: CoreId, f: F) -> Result<(), CallError>
where
    F: FnOnce() + Send + 'static,
{
    match launch(handle, core, Limit::Heed, f) {
        Ok(()) => Ok(()),
        Err((_f, Back::Gone)) => Err(CallError::RuntimeGone),
        Err((f, Back::Refused)) => post_limited(handle, core, f),
    }
}

#[cold]
fn post_limited<F>(handle: &Handle, core: CoreId, f: F) -> Result<(), CallError>
where
    F: FnOnce() + Send + 'static,
{
    check(handle, core)?;
    let posted = match place(handle, core)? {
        // Without a limit the first attempt failed because the core was off; it has just been put back.
        None => launch(handle, core, Limit::Settled, f).map_err(|(_f, back)| back),
        Some(place) => {
            let f = move || {
                let _place = place;
                f();
            };
            launch(handle, core, Limit::Settled, f).map_err(|(_f, back)| back)
        }
    };
    posted.map_err(|back| match back {
        Back::Gone => CallError::RuntimeGone,
        Back::Refused => CallError::CoreOffline { core },
    })
}

#[inline]
fn launch<F>(handle: &Handle, core: CoreId, limit: Limit, f: F) -> Result<(), (F, Back)>
where
    F: FnOnce() + Send + 'static,
{
    let (runtime, core) = (handle.inner(), core.index());
    let draw = |room| runtime.draw(core, room, limit).ok_or(Back::Refused);
    // SAFETY: the parcel was drawn for this core of this runtime, and has been filled since.
    let send = |drawn, run| unsafe { runtime.send(core, drawn, run) }.map_err(|Gone| Back::Gone);
    // SAFETY: the closure is Send and borrows nothing; `send` posts it or returns an error.
    unsafe { posting(f, draw, send) }
}
