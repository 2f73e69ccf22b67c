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
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Wake, Waker};

    #[test]
    fn one_value_has_room_and_the_end_comes_after_it() {
        let slot = Slot::default();
        assert!(slot.put(1) && !slot.put(2));
        slot.close();
        assert_eq!(slot.take().now_or_never(), Some(Some(1)));
        assert_eq!(slot.take().now_or_never(), Some(None));
    }

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            // ORDER: Relaxed; there is one thread.
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_value_and_the_end_wake_the_taker() {
        let slot = Slot::default();
        let count = Arc::new(Count::default());
        let waker = Waker::from(Arc::clone(&count));
        let mut cx = Context::from_waker(&waker);
        for (tell, expected) in [(0, Some(7)), (1, None)] {
            let mut taking = pin!(slot.take());
            assert_eq!(taking.as_mut().poll(&mut cx), Poll::Pending);
            assert_eq!(count.0.load(Ordering::Relaxed), tell);
            if tell == 0 {
                slot.put(7);
            } else {
                slot.close();
            }
            assert_eq!(count.0.load(Ordering::Relaxed), tell + 1);
            assert_eq!(taking.poll(&mut cx), Poll::Ready(expected));
        }
    }
}
