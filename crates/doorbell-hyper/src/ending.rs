//! [`Ending`]: wakes a connection when a body of its ends.

use std::task::{Context, Poll, Waker};

/// A body has one of these. If the body was ever `Pending`, the drop wakes the connection that polled it
/// last.
///
/// Without it a client could wait for ever, with hyper 1.10 to 1.12 and HTTP/1. hyper may poll a body twice
/// in one poll of the connection. The body can be `Pending` at the first, then end in a task on another
/// thread, and be complete at the second. If the next request is already in hyper's read buffer, hyper does
/// not look at it until something else wakes the connection. (hyper's pull request 4143 fixed the same for
/// its write buffer.)
#[derive(Debug, Default)]
pub(crate) struct Ending(Option<Waker>);

impl Ending {
    /// Notes the result of a poll of the body, and returns it.
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
