//! Tasks that start at the same time on different threads.

use std::future::poll_fn;
use std::hint;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

/// How long a task waits before it yields: another task of its thread may be the one that it waits for.
const PATIENCE: Duration = Duration::from_micros(200);

/// A point that tasks leave together.
#[derive(Debug)]
pub(crate) struct Meeting {
    expected: u32,
    here: AtomicU32,
}

impl Meeting {
    /// A meeting of this many tasks.
    pub(crate) fn of(expected: u32) -> Self {
        Self {
            expected,
            here: AtomicU32::new(0),
        }
    }

    /// Waits until all are here at once. That is possible only on different threads.
    pub(crate) async fn arrive(&self) {
        loop {
            // ORDER: Relaxed, here and below; a count that publishes nothing else.
            self.here.fetch_add(1, Ordering::Relaxed);
            let since = Instant::now();
            while since.elapsed() < PATIENCE {
                if self.all_are_here() {
                    return;
                }
                hint::spin_loop();
            }
            let left = self
                .here
                .try_update(Ordering::Relaxed, Ordering::Relaxed, |here| {
                    (here < self.expected).then(|| here - 1)
                });
            if left.is_err() {
                return;
            }
            let_others_run().await;
        }
    }

    fn all_are_here(&self) -> bool {
        self.here.load(Ordering::Relaxed) == self.expected
    }
}

/// Yields once.
pub(crate) async fn let_others_run() {
    let mut waited = false;
    poll_fn(|cx| {
        if waited {
            return Poll::Ready(());
        }
        waited = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
