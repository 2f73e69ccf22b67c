//! [`advance`]: sets a paused clock on.

use super::instant::ns_of;
use crate::ambient;
use crate::wakers::contained;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::time::Duration;

/// Sets the clock of the current runtime on by so much, in one step, and waits until the runtime
/// has come to rest: what was due has run, on all cores, and so has what that has woken. Only with
/// [`Builder::start_paused`](crate::Builder::start_paused).
///
/// All timers that were passed are due at once and see the time at the end of the step, as after
/// a machine was suspended. To pass them one by one, [`sleep`](super::sleep()) instead.
///
/// A runtime is quiescent only while a thread is inside its `block_on`; without one this waits for the
/// next.
///
/// # Panics
/// If the clock of the runtime runs by itself, or on a thread without a runtime.
///
/// ```
/// use doorbell::time::{Instant, advance, sleep};
/// use std::time::Duration;
///
/// let runtime = doorbell::Builder::new().cores(2).start_paused(true).build()?;
/// runtime.block_on(async {
///     let minute = doorbell::spawn(sleep(Duration::from_secs(60)));
///     advance(Duration::from_secs(59)).await;
///     assert!(!minute.is_finished());
///     advance(Duration::from_secs(1)).await;
///     assert!(minute.is_finished());
/// });
/// # Ok::<(), doorbell::BuildError>(())
/// ```
pub async fn advance(duration: Duration) {
    let quiescent = ambient::with_current(|frame| match frame {
        Some(frame) => frame.handle().inner().advance(ns_of(duration)),
        None => panic!("{}", crate::NoRuntime),
    });
    let Some(quiescent) = quiescent else {
        panic!(
            "the clock of this runtime runs by itself; build it with start_paused(true) to advance it by hand"
        );
    };
    let mut quiescent = pin!(quiescent);
    poll_fn(|cx| contained(cx, |cx| quiescent.as_mut().poll(cx))).await;
}
