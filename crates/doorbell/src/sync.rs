//! Synchronization of tasks.
//!
//! Channels, locks and other types that need no runtime of their own work here unchanged: `tokio::sync`,
//! `async-channel`, `futures::channel`. This module adds what they lack: a [`Mutex`] with class inheritance.

mod mapped;
mod mutex;
mod raw;

pub use mapped::{MappedMutexGuard, OwnedMappedMutexGuard};
pub use mutex::{Lock, Mutex, MutexGuard, OwnedMutexGuard, TryLockError};

/// Asks many tasks to end. Each task ends where it checks the token or waits for it.
///
/// Cancelling a token wakes each task that waits for it, and cancels its child tokens. Cancelling a child
/// does not cancel its parent. This is the type of `tokio-util`; it needs no tokio runtime. Feature `cancel`.
///
/// ```
/// use doorbell::sync::CancellationToken;
/// use doorbell::time::{Duration, sleep};
///
/// # doorbell::Builder::new().cores(2).build().unwrap().block_on(async {
/// let token = CancellationToken::new();
/// let mine = token.child_token();
/// let worker = doorbell::spawn(async move {
///     // The future is dropped when the token is cancelled.
///     mine.run_until_cancelled(sleep(Duration::from_secs(60))).await
/// });
/// token.cancel();
/// assert_eq!(worker.await?, None);
/// # Ok::<(), doorbell::JoinError>(())
/// # }).unwrap();
/// ```
#[cfg(feature = "cancel")]
pub use tokio_util::sync::CancellationToken;
