//! Code of the user's that runs beside a worker's own: a panic of it goes no further.

use doorbell_machine::Machine;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;

/// Wakes somebody else's waker, whose panic must not end the worker.
pub(crate) fn wake_quietly<M: Machine>(waker: Waker) {
    let woken = catch_unwind(AssertUnwindSafe(|| M::user(|| waker.wake())));
    if let Err(payload) = woken {
        drop_quietly(payload);
    }
}

/// Drops a value that belongs to a user and may panic in doing so. The panic goes no further,
/// and neither does one in the drop of its payload.
pub fn drop_quietly<T>(value: T) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(value)))
        && let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload)))
    {
        std::mem::forget(again);
    }
}

/// A value of a user's whose drop may panic: the panic goes no further.
#[derive(Debug)]
pub struct Quiet<T>(Option<T>);

impl<T> Quiet<T> {
    /// That value.
    pub fn of(value: T) -> Self {
        Quiet(Some(value))
    }

    /// The value, to be dropped like any other.
    ///
    /// # Panics
    /// Never: it is taken once.
    pub fn take(mut self) -> T {
        self.0.take().expect("taken by value, so once")
    }
}

impl<T> std::ops::Deref for Quiet<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect("there until it is taken or dropped")
    }
}

impl<T> Drop for Quiet<T> {
    fn drop(&mut self) {
        if let Some(value) = self.0.take() {
            drop_quietly(value);
        }
    }
}
