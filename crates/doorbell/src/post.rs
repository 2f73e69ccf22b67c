//! Closures sent to a named core that nobody waits for.

use crate::call::{CallError, check, place};
use crate::handle::Handle;
use crate::{CoreId, ambient};
use doorbell_core::call::{Gone, posting};

/// Runs a closure on the lane of a core of the current runtime, soon; nobody waits for it.
///
/// It runs when a call would ([`call_on`](crate::call_on())), in order with the calls of the
/// same task or thread to that core, and before the runtime ends. Nothing is allocated for a
/// closure of up to 48 bytes. A panic in it ends nothing, and is counted
/// ([`LaneCounts::posts_panicked`](crate::LaneCounts)).
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
    ambient::with_current(|frame| match frame {
        Some(frame) => post(frame.handle(), core, f),
        None => panic!("{}", crate::NoRuntime),
    })
}

#[inline]
pub(crate) fn post<F>(handle: &Handle, core: CoreId, f: F) -> Result<(), CallError>
where
    F: FnOnce() + Send + 'static,
{
    let number = check(handle, core)?;
    let Some(place) = place(handle, core)? else {
        return post_unlimited(handle, number, f);
    };
    post_unlimited(handle, number, move || {
        let _place = place;
        f();
    })
}

#[inline]
fn post_unlimited<F>(handle: &Handle, core: usize, f: F) -> Result<(), CallError>
where
    F: FnOnce() + Send + 'static,
{
    // SAFETY: the closure is Send and borrows nothing; `post` posts it or returns an error.
    let posted = unsafe { posting(f, |erased| handle.inner().post(core, erased)) };
    posted.map_err(|(_f, Gone)| CallError::RuntimeGone)
}
