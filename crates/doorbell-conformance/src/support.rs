//! What cases have in common.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// How long anything may take before it counts as hung.
pub(crate) const LONG: Duration = Duration::from_mins(1);

/// Set when something has happened.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flag(Arc<AtomicBool>);

impl Flag {
    pub(crate) fn set(&self) {
        self.0.store(true, SeqCst);
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(SeqCst)
    }

    /// Waits until it is set, on a thread that may block.
    pub(crate) fn wait(&self) {
        let until = Instant::now() + LONG;
        while !self.is_set() {
            assert!(Instant::now() < until, "it never happens");
            std::thread::sleep(Duration::from_micros(100));
        }
    }
}

/// Sets a flag when it is dropped.
pub(crate) struct SetsOnDrop(pub(crate) Flag);

impl Drop for SetsOnDrop {
    fn drop(&mut self) {
        self.0.set();
    }
}
