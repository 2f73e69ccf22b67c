//! What tasks meet at.
//!
//! Channels, locks and the like that need no runtime of their own work here as they are:
//! `tokio::sync`, `async-channel`, `futures::channel`. Only what those lack is here: a [`Mutex`] that
//! knows of classes.

mod mutex;

pub use mutex::{Lock, Mutex, MutexGuard, OwnedMutexGuard, TryLockError};

/// Tells many tasks that they are to end, which they do where they look.
///
/// Cancelling is a store and a wake of each that waits; children of a token are cancelled with it,
/// and not the other way round. This is the type of `tokio-util`, without its runtime; feature
/// `cancel`.
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
