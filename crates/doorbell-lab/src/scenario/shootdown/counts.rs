//! The calls that ran on each core, and the signal to go on calling.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use doorbell::CoreId;

/// A count in a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Count(AtomicU64);

/// Counts the calls that ran, per core.
#[derive(Debug)]
pub(super) struct Counts {
    ran: Box<[Count]>,
    goes_on: AtomicBool,
}

impl Counts {
    /// Counts that live as long as the program, so that calls can refer to them without counting
    /// references.
    pub(super) fn leaked(cores: usize) -> &'static Self {
        Box::leak(Box::new(Self {
            ran: (0..cores).map(|_| Count::default()).collect(),
            goes_on: AtomicBool::new(false),
        }))
    }

    /// The work of a call. Called only by the worker of that core.
    #[inline]
    pub(super) fn one_ran(&self, core: CoreId) {
        let count = &self.ran[core.index()].0;
        // ORDER: Relaxed; only this worker writes, so it reads its own last value.
        let ran = count.load(Ordering::Relaxed);
        // ORDER: Relaxed; a reader has waited for the call.
        count.store(ran + 1, Ordering::Relaxed);
    }

    /// How many calls ran on each core.
    pub(super) fn ran(&self) -> Vec<u64> {
        // ORDER: Relaxed; the reader has received the results of all callers.
        let counts = self.ran.iter().map(|one| one.0.load(Ordering::Relaxed));
        counts.collect()
    }

    /// Whether to call again.
    #[inline]
    pub(super) fn goes_on(&self) -> bool {
        // ORDER: Relaxed; one call more or less does not matter.
        self.goes_on.load(Ordering::Relaxed)
    }

    /// Tells all callers to call, or to stop.
    pub(super) fn go_on(&self, goes_on: bool) {
        // ORDER: Relaxed; callers are started, and report, through channels and tasks.
        self.goes_on.store(goes_on, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_counted_apart() {
        let counts = Counts::leaked(3);
        for core in [2, 0, 2] {
            counts.one_ran(CoreId::new(core));
        }
        assert_eq!(counts.ran(), [1, 0, 2]);
        assert!(!counts.goes_on());
        counts.go_on(true);
        assert!(counts.goes_on());
    }
}
