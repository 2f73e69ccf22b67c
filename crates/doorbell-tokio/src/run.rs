//! [`run`]: a whole future on the helper.

use tokio::runtime::Handle;
use tokio_util::task::AbortOnDropHandle;

/// Runs a future as a task of tokio, on the helper of the current runtime, and returns a future of its result. Dropping
/// that future aborts the task.
///
/// For a future of another crate that needs more than tokio's context: its budget, `block_in_place`, or a loop over
/// sockets of tokio. The task has no class. From a task of class Rt it runs on the urgent helper, if there is one.
///
/// # Errors
/// Awaiting it gives tokio's `JoinError`: the future has panicked, or the runtime has ended.
///
/// # Panics
/// If the calling thread has no runtime with a bridge.
///
/// ```
/// # doorbell_tokio::builder().cores(1).build()?.block_on(async {
/// let answer = doorbell_tokio::run(async { tokio::task::block_in_place(|| 42) }).await;
/// assert_eq!(answer?, 42);
/// # Ok::<(), tokio::task::JoinError>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn run<F>(future: F) -> AbortOnDropHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let Ok(helper) = Handle::try_current() else {
        panic!(
            "there is no helper of doorbell-tokio on this thread; install it on the Builder, and call this from a task, from spawn_blocking or inside block_on"
        );
    };
    AbortOnDropHandle::new(helper.spawn(future))
}
