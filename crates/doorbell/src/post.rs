//! Closures sent to a named core that nobody waits for.

use crate::CoreId;
use crate::ambient::{self, Limit};
use crate::call::{CallError, check, place};
use crate::handle::Handle;
use crate::large::boxed_if_large;
use doorbell_core::call::posting;
use doorbell_core::mailbox::Gone;

/// Runs a closure on the worker of a core of the current runtime, soon; nobody waits for it. That is its
/// worker of class Fair, whoever posts.
///
/// It runs when a call would ([`call_on`](crate::call_on())), in order with the calls of the
/// same task or thread to that core, and before the runtime ends. Nothing is allocated for a
/// closure of up to 48 bytes. A panic in it ends nothing, and is counted
/// ([`WorkerCounts::posts_panicked`](crate::WorkerCounts)).
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
/// // Behind it in the order of this task's calls.
/// let hits = doorbell::call_on(1, || HITS.load(Ordering::Relaxed)).await?;
/// assert_eq!(hits, 1);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`CallError::NoSuchCore`], [`CallError::CoreOffline`], [`CallError::Full`] and
/// [`CallError::RuntimeGone`]; the closure was dropped here.
///
/// # Panics
/// If there is no runtime on this thread; [`Handle::post_on`] works anywhere.
#[track_caller]
pub fn post_on<F>(core: impl Into<CoreId>, f: F) -> Result<(), CallError>
where
    F: FnOnce() + Send + 'static,
{
    let core = core.into();
    boxed_if_large!(f: F, Box::new => ambient::with_current(|frame| match frame {
        Some(frame) => post(frame.handle(), core, f),
        None => panic!("{}", crate::NoRuntime),
    }))
}

/// Why a closure came back.
enum Back {
    /// There is something to be said or to be heeded.
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
        // The core came back on just now.
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
    // SAFETY: drawn for this core of this runtime, and filled since.
    let send = |drawn, run| unsafe { runtime.send(core, drawn, run) }.map_err(|Gone| Back::Gone);
    // SAFETY: the closure is Send and borrows nothing; `send` posts it or returns an error.
    unsafe { posting(f, draw, send) }
}
