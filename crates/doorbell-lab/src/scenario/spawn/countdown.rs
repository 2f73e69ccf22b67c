//! A countdown: the last of many tasks signals.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures::channel::oneshot;

/// Counts tasks that have ended. The channel needs no runtime, so it is the same for all contestants.
#[derive(Debug)]
pub(super) struct Countdown {
    left: AtomicU32,
    signal: Mutex<Option<oneshot::Sender<()>>>,
}

impl Countdown {
    /// A countdown of `count` tasks, and the receiver that is ready when the last one has ended.
    pub(super) fn of(count: u32) -> (Arc<Self>, oneshot::Receiver<()>) {
        let (signal, ended) = oneshot::channel();
        let countdown = Self {
            left: AtomicU32::new(count),
            signal: Mutex::new(Some(signal)),
        };
        (Arc::new(countdown), ended)
    }

    /// Records that a task has ended.
    pub(super) fn one_ended(&self) {
        // ORDER: AcqRel: the Release of every other task pairs with the Acquire of the last one, which
        // passes on what they did to the receiver of the signal.
        if self.left.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        // Only the last task comes here, so the lock is free.
        let mut signal = self.signal.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(signal) = signal.take() {
            // The receiver is gone only if the waiting thread has panicked.
            let _ = signal.send(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_signals() {
        let (countdown, mut ended) = Countdown::of(2);
        countdown.one_ended();
        assert_eq!(ended.try_recv(), Ok(None));
        countdown.one_ended();
        assert_eq!(ended.try_recv(), Ok(Some(())));
    }

    #[test]
    fn tasks_that_are_lost_are_noticed() {
        let (countdown, mut ended) = Countdown::of(2);
        countdown.one_ended();
        drop(countdown);
        assert!(ended.try_recv().is_err());
    }
}
