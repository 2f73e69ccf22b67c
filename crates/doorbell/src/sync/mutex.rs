//! [`Mutex`]: a lock whose holder inherits the class of the tasks that wait for it.

use super::mapped::{MappedMutexGuard, OwnedMappedMutexGuard};
use super::raw::{RawLock, Wait, wait_of};
use crate::here::on_its_machine;
use crate::{Class, ambient, coop};
use doorbell_core::call::SPIN_NS;
use doorbell_core::lock::TryLock;
use std::cell::UnsafeCell;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// A lock that may be held across `.await`, for tasks of several classes.
///
/// Unlocking hands the lock to the most urgent task that waits: the highest class first, then the highest Rt
/// number, then the order of arrival. While a task of a higher class waits, the holder inherits that class:
/// the workers of that class run it too, as they run a task whose [`JoinHandle`](crate::JoinHandle) is
/// awaited. So it does not wait behind tasks of its own class.
///
/// The holder is the task that first polled the future of [`Mutex::lock`]. If the guard is sent to another
/// task, or if it was locked outside of tasks, the lock works, but no task inherits. Nor does a pinned
/// holder.
///
/// Locking a free mutex and unlocking one that no task waits for are one compare-exchange each. A Fair or
/// Batch task also updates a count of its own. A task that has to wait makes one allocation.
///
/// A panic while the mutex is locked unlocks it. There is no poisoning, as in `tokio::sync::Mutex`. For short
/// sections without `.await`, `std::sync::Mutex` is better, if all tasks that use it have the same class.
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
    raw: RawLock,
    value: UnsafeCell<T>,
}

// SAFETY: the holder of the lock has exclusive access to the value, on whichever thread.
unsafe impl<T: ?Sized + Send> Send for Mutex<T> {}
// SAFETY: as for Send.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}

/// The mutex is locked, or a task waits for it. [`Mutex::lock`] waits for its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the mutex is locked; use lock().await to wait for it")]
pub struct TryLockError(());

// By hand: the queue is whole after a panic. A shared mutex is not unwind safe: a task that panics lets go of the
// lock, and what that guards may be half-changed.
impl<T: ?Sized + std::panic::UnwindSafe> std::panic::UnwindSafe for Mutex<T> {}

impl<T> Mutex<T> {
    /// An unlocked mutex.
    pub fn new(value: T) -> Self {
        Mutex {
            raw: RawLock::default(),
            value: UnsafeCell::new(value),
        }
    }

    /// Returns the value.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Locks the mutex, when it is the caller's turn. Dropping the future before that gives up the turn.
    pub fn lock(&self) -> Lock<'_, T> {
        Lock {
            mutex: self,
            locking: Locking::new(&self.raw),
        }
    }

    /// As [`Mutex::lock`], but the guard owns a reference to the mutex instead of borrowing it.
    pub async fn lock_owned(self: Arc<Self>) -> OwnedMutexGuard<T> {
        Locking::new(&self.raw).await;
        OwnedMutexGuard { mutex: self }
    }

    /// Locks the mutex, and blocks the calling thread until it is the caller's turn. For threads that are not
    /// workers.
    ///
    /// # Panics
    /// If the caller is a worker: its tasks would all wait, maybe also the one that has the lock.
    ///
    /// ```
    /// use doorbell::sync::Mutex;
    ///
    /// let mutex = Mutex::new(1);
    /// *mutex.blocking_lock() += 1;
    /// assert_eq!(mutex.into_inner(), 2);
    /// ```
    #[track_caller]
    pub fn blocking_lock(&self) -> MutexGuard<'_, T> {
        wait_for(self.lock())
    }

    /// As [`Mutex::blocking_lock`], but the guard owns a reference to the mutex.
    ///
    /// # Panics
    /// If the caller is a worker.
    #[track_caller]
    pub fn blocking_lock_owned(self: Arc<Self>) -> OwnedMutexGuard<T> {
        wait_for(self.lock_owned())
    }

    /// Locks the mutex if it is free and no task waits for it.
    ///
    /// # Errors
    /// [`TryLockError`] if it is locked, or if a task waits for it.
    pub fn try_lock(&self) -> Result<MutexGuard<'_, T>, TryLockError> {
        match self.raw.try_lock() {
            TryLock::Locked => Ok(MutexGuard { mutex: self }),
            TryLock::Busy => Err(TryLockError(())),
        }
    }

    /// As [`Mutex::try_lock`], but the guard owns a reference to the mutex.
    ///
    /// # Errors
    /// As for [`Mutex::try_lock`].
    pub fn try_lock_owned(self: Arc<Self>) -> Result<OwnedMutexGuard<T>, TryLockError> {
        match self.raw.try_lock() {
            TryLock::Locked => Ok(OwnedMutexGuard { mutex: self }),
            TryLock::Busy => Err(TryLockError(())),
        }
    }

    /// The value. An exclusive reference to the mutex needs no lock.
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

/// Waits until the caller has the lock.
#[derive(Debug)]
struct Locking<'a> {
    raw: &'a RawLock,
    wait: Wait,
    /// Whether the caller has the lock, and is ready when the budget of a poll allows it.
    is_locked: bool,
}

impl<'a> Locking<'a> {
    fn new(raw: &'a RawLock) -> Self {
        Locking {
            raw,
            wait: wait_of(raw),
            is_locked: false,
        }
    }
}

impl Future for Locking<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        if !this.is_locked {
            ready!(this.raw.poll_lock(&mut this.wait, urgency(), cx));
            this.is_locked = true;
        }
        ready!(coop::allow(cx));
        this.is_locked = false;
        Poll::Ready(())
    }
}

impl Drop for Locking<'_> {
    fn drop(&mut self) {
        if self.is_locked {
            // SAFETY: the lock is this future's, which has not passed it on.
            unsafe { self.raw.unlock() };
        } else {
            self.raw.withdraw(&mut self.wait);
        }
    }
}

/// Blocks the thread, which is not a worker, until the future is ready.
#[track_caller]
fn wait_for<F: Future>(future: F) -> F::Output {
    assert!(
        !ambient::on_a_worker(),
        "a mutex was locked by blocking_lock on a worker, whose tasks would all wait; use lock().await"
    );
    on_its_machine!(M => doorbell_core::wait::block_on::<M, _>(future, SPIN_NS))
}

/// How urgent the caller is: by its class, or by the class of the worker that runs it, if that is higher.
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

/// Holds the lock until it is dropped. See [`Mutex::lock`].
#[must_use = "dropped at once, it guards nothing"]
pub struct MutexGuard<'a, T: ?Sized> {
    mutex: &'a Mutex<T>,
}

/// Holds the lock until it is dropped, and owns a reference to the mutex. See [`Mutex::lock_owned`].
#[must_use = "dropped at once, it guards nothing"]
pub struct OwnedMutexGuard<T: ?Sized> {
    mutex: Arc<Mutex<T>>,
}

// SAFETY: a shared guard only gives out a shared reference to the value.
unsafe impl<T: ?Sized + Send + Sync> Sync for MutexGuard<'_, T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Send + Sync> Sync for OwnedMutexGuard<T> {}

impl<'a, T: ?Sized> MutexGuard<'a, T> {
    /// The mutex that the guard locks.
    pub fn mutex(guard: &Self) -> &'a Mutex<T> {
        guard.mutex
    }

    /// A guard of a part of the value. The mutex stays locked until it is dropped.
    ///
    /// ```
    /// use doorbell::sync::{Mutex, MutexGuard};
    ///
    /// let mutex = Mutex::new((1, "text"));
    /// let mut number = MutexGuard::map(mutex.try_lock().unwrap(), |both| &mut both.0);
    /// *number += 1;
    /// assert!(mutex.try_lock().is_err());
    /// drop(number);
    /// assert_eq!(mutex.into_inner(), (2, "text"));
    /// ```
    pub fn map<U: ?Sized>(
        mut guard: Self,
        part: impl FnOnce(&mut T) -> &mut U,
    ) -> MappedMutexGuard<'a, T, U> {
        let part = NonNull::from(part(&mut guard));
        MappedMutexGuard::of(guard, part)
    }

    /// As [`MutexGuard::map`], for a part that may not be there.
    ///
    /// # Errors
    /// The guard, if there is no such part.
    #[doc(alias = "try_map")]
    pub fn filter_map<U: ?Sized>(
        mut guard: Self,
        part: impl FnOnce(&mut T) -> Option<&mut U>,
    ) -> Result<MappedMutexGuard<'a, T, U>, Self> {
        match part(&mut guard).map(NonNull::from) {
            Some(part) => Ok(MappedMutexGuard::of(guard, part)),
            None => Err(guard),
        }
    }
}

impl<T: ?Sized> OwnedMutexGuard<T> {
    /// A guard of a part of the value, as [`MutexGuard::map`].
    pub fn map<U: ?Sized>(
        mut guard: Self,
        part: impl FnOnce(&mut T) -> &mut U,
    ) -> OwnedMappedMutexGuard<T, U> {
        let part = NonNull::from(part(&mut guard));
        OwnedMappedMutexGuard::of(guard, part)
    }

    /// As [`OwnedMutexGuard::map`], for a part that may not be there.
    ///
    /// # Errors
    /// The guard, if there is no such part.
    pub fn filter_map<U: ?Sized>(
        mut guard: Self,
        part: impl FnOnce(&mut T) -> Option<&mut U>,
    ) -> Result<OwnedMappedMutexGuard<T, U>, Self> {
        match part(&mut guard).map(NonNull::from) {
            Some(part) => Ok(OwnedMappedMutexGuard::of(guard, part)),
            None => Err(guard),
        }
    }
}

macro_rules! guard {
    ($guard:ty, $($life:lifetime)?) => {
        impl<$($life,)? T: ?Sized> Deref for $guard {
            type Target = T;

            fn deref(&self) -> &T {
                // SAFETY: the guard has the lock, so no other guard gives out the value.
                unsafe { &*self.mutex.value.get() }
            }
        }

        impl<$($life,)? T: ?Sized> DerefMut for $guard {
            fn deref_mut(&mut self) -> &mut T {
                // SAFETY: as above, and the guard is borrowed exclusively.
                unsafe { &mut *self.mutex.value.get() }
            }
        }

        impl<$($life,)? T: ?Sized> Drop for $guard {
            fn drop(&mut self) {
                // SAFETY: the guard has the lock, and its value is not used any more.
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
