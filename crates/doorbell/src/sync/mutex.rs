//! [`Mutex`]: a lock whose holder is run by the class of who waits for it.

use crate::{Class, ambient, coop};
use doorbell_core::lock::{RawLock, TryLock, Wait};
use doorbell_machine::Host;
use std::cell::UnsafeCell;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// A lock that may be held across `.await`, for tasks of several classes.
///
/// Whoever lets go hands it to the most urgent one that waits: the highest class, in it the highest
/// number, of equals the one that came first. While a task of a higher class waits, the task that
/// holds the lock is run by the workers of that class too, as one whose
/// [`JoinHandle`](crate::JoinHandle) is awaited: it does not wait behind tasks of its own class.
///
/// The task that holds it is the one that first polled the future of [`Mutex::lock`]. A guard that goes to another
/// task, or that is locked outside of tasks, guards as well, but that task is not run earlier; nor is one that is
/// pinned. To take a lock that is free, and to let go while nobody waits, is one compare-exchange each, and for a Fair
/// or Batch task also a count of its own. One that waits is one allocation.
///
/// A panic while it is locked unlocks it, and nothing else: there is no poison, as in
/// `tokio::sync::Mutex`. For short sections without `.await` in it `std::sync::Mutex` is the better
/// one, where all who use it have one class.
///
/// ```
/// use doorbell::sync::Mutex;
/// use std::sync::Arc;
///
/// # doorbell::Builder::new().cores(2).build().unwrap().block_on(async {
/// let total = Arc::new(Mutex::new(0));
/// let tasks = (1..=4).map(|n| {
///     let total = Arc::clone(&total);
///     doorbell::spawn(async move { *total.lock().await += n })
/// });
/// for task in tasks.collect::<Vec<_>>() {
///     task.await?;
/// }
/// assert_eq!(*total.lock().await, 10);
/// # Ok::<(), doorbell::JoinError>(())
/// # }).unwrap();
/// ```
pub struct Mutex<T: ?Sized> {
    raw: RawLock<Host>,
    value: UnsafeCell<T>,
}

// SAFETY: whoever has the lock has the value alone, on whichever thread.
unsafe impl<T: ?Sized + Send> Send for Mutex<T> {}
// SAFETY: as for Send.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}

/// Somebody has the lock, or waits for it: [`Mutex::lock`] waits too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the mutex is locked; use lock().await to wait for it")]
pub struct TryLockError(());

impl<T> Mutex<T> {
    /// A lock that is free.
    pub fn new(value: T) -> Self {
        Mutex {
            raw: RawLock::default(),
            value: UnsafeCell::new(value),
        }
    }

    /// What it guards.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Locks, as soon as it is this one's turn. Dropped before, it does not, and leaves the line.
    pub fn lock(&self) -> Lock<'_, T> {
        Lock {
            mutex: self,
            locking: Locking::new(&self.raw),
        }
    }

    /// As [`Mutex::lock`]; the guard keeps the mutex, and may go where that may.
    pub async fn lock_owned(self: Arc<Self>) -> OwnedMutexGuard<T> {
        Locking::new(&self.raw).await;
        OwnedMutexGuard { mutex: self }
    }

    /// Locks if it is free and nobody waits.
    ///
    /// # Errors
    /// [`TryLockError`] if somebody has it, or waits for it.
    pub fn try_lock(&self) -> Result<MutexGuard<'_, T>, TryLockError> {
        match self.raw.try_lock() {
            TryLock::Locked => Ok(MutexGuard { mutex: self }),
            TryLock::Busy => Err(TryLockError(())),
        }
    }

    /// As [`Mutex::try_lock`]; the guard keeps the mutex.
    ///
    /// # Errors
    /// As for [`Mutex::try_lock`].
    pub fn try_lock_owned(self: Arc<Self>) -> Result<OwnedMutexGuard<T>, TryLockError> {
        match self.raw.try_lock() {
            TryLock::Locked => Ok(OwnedMutexGuard { mutex: self }),
            TryLock::Busy => Err(TryLockError(())),
        }
    }

    /// What it guards: whoever has the mutex alone need not lock.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Mutex::new(T::default())
    }
}

impl<T> From<T> for Mutex<T> {
    fn from(value: T) -> Self {
        Mutex::new(value)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Mutex");
        match self.try_lock() {
            Ok(guard) => shown.field("value", &&*guard),
            Err(_) => shown.field("value", &format_args!("(locked)")),
        };
        shown.finish()
    }
}

/// Until the lock is the caller's.
#[derive(Debug)]
struct Locking<'a> {
    raw: &'a RawLock<Host>,
    wait: Wait<Host>,
}

impl<'a> Locking<'a> {
    fn new(raw: &'a RawLock<Host>) -> Self {
        let wait = Wait::default();
        Locking { raw, wait }
    }
}

impl Future for Locking<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        coop::poll(cx, |cx| this.raw.poll_lock(&mut this.wait, urgency(), cx))
    }
}

impl Drop for Locking<'_> {
    fn drop(&mut self) {
        self.raw.withdraw(&mut self.wait);
    }
}

/// How urgent the caller is: as its class, or as the worker that runs it if that is more.
fn urgency() -> u8 {
    let worker = ambient::with_worker(|worker| worker.map(ambient::Frame::urgency));
    worker.unwrap_or(Class::FAIR).rank()
}

/// The future of [`Mutex::lock`].
#[derive(Debug)]
#[must_use = "nothing is locked before it is awaited"]
pub struct Lock<'a, T: ?Sized> {
    mutex: &'a Mutex<T>,
    locking: Locking<'a>,
}

impl<T: ?Sized> Unpin for Lock<'_, T> {}

impl<'a, T: ?Sized> Future for Lock<'a, T> {
    type Output = MutexGuard<'a, T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mutex = self.mutex;
        let locking = Pin::new(&mut self.locking);
        locking.poll(cx).map(|()| MutexGuard { mutex })
    }
}

/// Whoever has this has the lock, until it is dropped.
#[must_use = "dropped at once, it guards nothing"]
pub struct MutexGuard<'a, T: ?Sized> {
    mutex: &'a Mutex<T>,
}

/// Whoever has this has the lock, until it is dropped. It keeps the mutex.
#[must_use = "dropped at once, it guards nothing"]
pub struct OwnedMutexGuard<T: ?Sized> {
    mutex: Arc<Mutex<T>>,
}

// SAFETY: a shared guard gives out a shared value, and nothing else.
unsafe impl<T: ?Sized + Send + Sync> Sync for MutexGuard<'_, T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Send + Sync> Sync for OwnedMutexGuard<T> {}

impl<'a, T: ?Sized> MutexGuard<'a, T> {
    /// The mutex that it locks.
    pub fn mutex(guard: &Self) -> &'a Mutex<T> {
        guard.mutex
    }
}

macro_rules! guard {
    ($guard:ty, $($life:lifetime)?) => {
        impl<$($life,)? T: ?Sized> Deref for $guard {
            type Target = T;

            fn deref(&self) -> &T {
                // SAFETY: the guard has the lock, so nobody else has the value.
                unsafe { &*self.mutex.value.get() }
            }
        }

        impl<$($life,)? T: ?Sized> DerefMut for $guard {
            fn deref_mut(&mut self) -> &mut T {
                // SAFETY: as above, and the guard is borrowed alone.
                unsafe { &mut *self.mutex.value.get() }
            }
        }

        impl<$($life,)? T: ?Sized> Drop for $guard {
            fn drop(&mut self) {
                // SAFETY: the guard has the lock, and nobody uses the value by it any more.
                unsafe { self.mutex.raw.unlock() };
            }
        }

        impl<$($life,)? T: ?Sized + fmt::Debug> fmt::Debug for $guard {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&**self, f)
            }
        }

        impl<$($life,)? T: ?Sized + fmt::Display> fmt::Display for $guard {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&**self, f)
            }
        }
    };
}

guard!(MutexGuard<'a, T>, 'a);
guard!(OwnedMutexGuard<T>,);
