//! [`Ending`]: a body that has ended has its connection polled once more.

use std::task::{Context, Poll, Waker};

/// What a body keeps to wake its connection with when it is dropped, if it was ever `Pending`.
///
/// hyper 1.10 to 1.12 asks a body twice in one poll of a connection of HTTP/1. If that was `Pending` at first and
/// has ended by the second time, in a task of another thread, the next request may be in hyper's buffer
/// already, and hyper does not look there before it is polled for another reason: the client
/// waits for ever. (What was left in the buffer of writes the same way is flushed since hyper's pull request 4143.)
#[derive(Debug, Default)]
pub(crate) struct Ending(Option<Waker>);

impl Ending {
    /// The body was polled, and came to that.
    pub(crate) fn note<T>(&mut self, polled: Poll<T>, cx: &Context<'_>) -> Poll<T> {
        let known = self.0.as_ref();
        if polled.is_pending() && !known.is_some_and(|it| it.will_wake(cx.waker())) {
            self.0 = Some(cx.waker().clone());
        }
        polled
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        if let Some(waker) = self.0.take() {
            waker.wake();
        }
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_types, reason = "tests play the outside world")]
pub(crate) mod tests {
    use super::Ending;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::task::{Context, Poll, Wake};

    /// Counts its wakes.
    #[derive(Default)]
    pub(crate) struct Wakes(AtomicUsize);

    impl Wakes {
        pub(crate) fn count(&self) -> usize {
            self.0.load(SeqCst)
        }
    }

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, SeqCst);
        }
    }

    #[test]
    fn who_polled_last_is_woken_once_and_only_where_it_had_to_wait() {
        let (earlier, last) = (Arc::<Wakes>::default(), Arc::<Wakes>::default());
        let wakers = [&earlier, &last, &last].map(|it| Arc::clone(it).into());
        let mut ending = Ending::default();
        for waker in &wakers {
            let polled: Poll<()> = Poll::Pending;
            assert!(
                ending
                    .note(polled, &Context::from_waker(waker))
                    .is_pending()
            );
        }
        drop(ending);
        assert_eq!((earlier.count(), last.count()), (0, 1));

        let mut ending = Ending::default();
        assert!(
            ending
                .note(Poll::Ready(()), &Context::from_waker(&wakers[0]))
                .is_ready()
        );
        drop(ending);
        assert_eq!(earlier.count(), 0);
    }
}
