//! A place for one value, by which one task or thread wakes another. It belongs to no runtime, so it is the
//! same for all contestants.

use std::future::poll_fn;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use futures::task::AtomicWaker;

/// One value at most, with one taker.
#[derive(Debug)]
pub(super) struct Slot<T> {
    inside: Mutex<Inside<T>>,
    taker: AtomicWaker,
}

#[derive(Debug)]
struct Inside<T> {
    value: Option<T>,
    is_closed: bool,
}

impl<T> Default for Slot<T> {
    fn default() -> Self {
        let inside = Inside {
            value: None,
            is_closed: false,
        };
        Self {
            inside: Mutex::new(inside),
            taker: AtomicWaker::new(),
        }
    }
}

impl<T> Slot<T> {
    /// A panic elsewhere leaves the value complete.
    fn locked(&self) -> MutexGuard<'_, Inside<T>> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a value in and wakes the taker. Returns whether there was room; a value without room is dropped.
    pub(super) fn put(&self, value: T) -> bool {
        let mut inside = self.locked();
        let has_room = inside.value.is_none();
        if has_room {
            inside.value = Some(value);
        }
        drop(inside);
        self.taker.wake();
        has_room
    }

    /// Tells the taker that nothing else comes. A value that is in here can still be taken.
    pub(super) fn close(&self) {
        self.locked().is_closed = true;
        self.taker.wake();
    }

    /// Waits for a value and takes it; `None` once the slot is closed and empty.
    pub(super) async fn take(&self) -> Option<T> {
        poll_fn(|cx| {
            // Registered before it looks, so that a value that comes after the look wakes it.
            self.taker.register(cx.waker());
            let mut inside = self.locked();
            match inside.value.take() {
                Some(value) => Poll::Ready(Some(value)),
                None if inside.is_closed => Poll::Ready(None),
                None => Poll::Pending,
            }
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;
    use futures::executor::block_on;

    #[test]
    fn one_value_has_room_and_the_end_comes_after_it() {
        let slot = Slot::default();
        assert!(slot.put(1) && !slot.put(2));
        slot.close();
        assert_eq!(block_on(slot.take()), Some(1));
        assert_eq!(block_on(slot.take()), None);
    }

    #[test]
    fn a_taker_waits_and_is_woken() {
        let slot = Slot::default();
        assert_eq!(slot.take().now_or_never(), None);
        std::thread::scope(|scope| {
            let taker = scope.spawn(|| block_on(slot.take()));
            assert!(slot.put(7));
            assert_eq!(taker.join().expect("it does not panic"), Some(7));
        });
    }
}
