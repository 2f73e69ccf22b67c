//! Guards of a part of what a mutex guards.

use super::mutex::{MutexGuard, OwnedMutexGuard};
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Holds the lock until it is dropped, and gives a part of the value. See [`MutexGuard::map`].
#[must_use = "dropped at once, it guards nothing"]
pub struct MappedMutexGuard<'a, T: ?Sized, U: ?Sized> {
    part: NonNull<U>,
    /// Dropped last, as it lets go of the lock.
    guard: MutexGuard<'a, T>,
    part_of: PhantomData<&'a mut U>,
}

/// Holds the lock until it is dropped, owns a reference to the mutex, and gives a part of the value. See
/// [`OwnedMutexGuard::map`].
#[must_use = "dropped at once, it guards nothing"]
pub struct OwnedMappedMutexGuard<T: ?Sized, U: ?Sized> {
    part: NonNull<U>,
    guard: OwnedMutexGuard<T>,
    part_of: PhantomData<*mut U>,
}

macro_rules! mapped {
    ($mapped:ident, $guard:ty, $($life:lifetime)?) => {
        // SAFETY: the part is one of the value, to which the guard has exclusive access.
        unsafe impl<$($life,)? T: ?Sized, U: ?Sized + Send> Send for $mapped<$($life,)? T, U> where $guard: Send {}
        // SAFETY: a shared guard only gives out a shared reference to the part.
        unsafe impl<$($life,)? T: ?Sized, U: ?Sized + Sync> Sync for $mapped<$($life,)? T, U> where $guard: Sync {}

        impl<$($life,)? T: ?Sized, U: ?Sized> $mapped<$($life,)? T, U> {
            /// `part` is a part of the guard's value.
            pub(super) fn of(guard: $guard, part: NonNull<U>) -> Self {
                $mapped {
                    part,
                    guard,
                    part_of: PhantomData,
                }
            }

            /// A guard of a part of the part.
            pub fn map<V: ?Sized>(
                mut guard: Self,
                part: impl FnOnce(&mut U) -> &mut V,
            ) -> $mapped<$($life,)? T, V> {
                let part = NonNull::from(part(&mut guard));
                $mapped::of(guard.guard, part)
            }
        }

        impl<$($life,)? T: ?Sized, U: ?Sized> Deref for $mapped<$($life,)? T, U> {
            type Target = U;

            fn deref(&self) -> &U {
                // SAFETY: the guard has the lock, and does not give out the value, of which this is a part.
                unsafe { self.part.as_ref() }
            }
        }

        impl<$($life,)? T: ?Sized, U: ?Sized> DerefMut for $mapped<$($life,)? T, U> {
            fn deref_mut(&mut self) -> &mut U {
                // SAFETY: as above, and the guard is borrowed exclusively.
                unsafe { self.part.as_mut() }
            }
        }

        impl<$($life,)? T: ?Sized, U: ?Sized + fmt::Debug> fmt::Debug for $mapped<$($life,)? T, U> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&**self, f)
            }
        }

        impl<$($life,)? T: ?Sized, U: ?Sized + fmt::Display> fmt::Display for $mapped<$($life,)? T, U> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&**self, f)
            }
        }
    };
}

mapped!(MappedMutexGuard, MutexGuard<'a, T>, 'a);
mapped!(OwnedMappedMutexGuard, OwnedMutexGuard<T>,);
