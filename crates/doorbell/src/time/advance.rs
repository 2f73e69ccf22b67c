//! [`advance`]: moves a paused clock on by hand.

use super::instant::ns_of;
use crate::ambient;
use crate::wakers::contained;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::time::Duration;

/// Moves the clock of the current runtime on by `duration`, in one step, and waits until the runtime is
/// quiescent: all timers that were due have fired, and everything that they woke has run, on all cores. Only
/// with [`Builder::start_paused`](crate::Builder::start_paused).
///
/// All timers that the step passes are due together, and see the time at the end of the step, as after a
/// machine was suspended. To fire them one by one, use [`sleep`](super::sleep()) instead.
///
/// A step beyond the range of the clock (584 years) ends just before the end of the range, at which no timer fires.
///
/// A runtime can be quiescent only while a thread is inside its `block_on`. If there is none, this waits for
/// one.
///
/// # Panics
/// If the clock of the runtime is not paused, or on a thread without a runtime.
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
    let quiescent = {
        let current = ambient::expect_current();
        current.handle().inner().advance(ns_of(duration))
    };
    let Some(quiescent) = quiescent else {
        panic!(
            "the clock of this runtime runs by itself; build it with start_paused(true) to advance it by hand"
        );
    };
    let mut quiescent = pin!(quiescent);
    poll_fn(|cx| contained(cx, |cx| quiescent.as_mut().poll(cx))).await;
}
