//! The last of many tasks signals.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures::channel::oneshot;

/// Counts tasks that have ended. The channel needs no runtime, so it is the same for everybody.
#[derive(Debug)]
pub(super) struct Countdown {
    left: AtomicU32,
    signal: Mutex<Option<oneshot::Sender<()>>>,
}

impl Countdown {
    /// Of so many tasks, and what becomes ready when the last of them has ended.
    pub(super) fn of(count: u32) -> (Arc<Self>, oneshot::Receiver<()>) {
        let (signal, ended) = oneshot::channel();
        let countdown = Self {
            left: AtomicU32::new(count),
            signal: Mutex::new(Some(signal)),
        };
        (Arc::new(countdown), ended)
    }

    /// One of them has.
    pub(super) fn one_ended(&self) {
        // ORDER: Release, so that what each did is seen by whoever is signalled; Acquire, as the
        // last passes on what the others did.
        if self.left.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        // Only the last comes here, so nobody waits for the lock.
        let mut signal = self.signal.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(signal) = signal.take() {
            // Nobody listens only if the waiting thread has panicked.
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
