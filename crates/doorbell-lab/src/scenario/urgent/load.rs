//! The load on every core: 64 jobs. Each job computes for 10 ms and then yields.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::super::steps::{compute, steps_for};

/// The number of jobs.
pub(super) const JOBS: usize = 64;
/// The time of one poll of a job on an otherwise idle core.
const POLL: Duration = Duration::from_millis(10);

/// The work of the jobs, and how much of it was done. Each poll is the same amount of work: if it is
/// interrupted, it takes longer, and fewer polls are done.
#[derive(Debug, Default)]
pub(super) struct Load {
    polls: AtomicU64,
    ends: AtomicBool,
}

impl Load {
    /// Runs one poll. Returns whether another one follows.
    pub(super) fn poll(&self) -> bool {
        compute(steps());
        // ORDER: Relaxed; a count, whose reader needs nothing else from it.
        self.polls.fetch_add(1, Ordering::Relaxed);
        // ORDER: Relaxed; a flag that publishes nothing and may be seen late.
        !self.ends.load(Ordering::Relaxed)
    }

    /// How many polls were done.
    pub(super) fn polls(&self) -> u64 {
        // ORDER: as above.
        self.polls.load(Ordering::Relaxed)
    }

    /// Tells every job to end after its poll.
    pub(super) fn end(&self) {
        // ORDER: as above.
        self.ends.store(true, Ordering::Relaxed);
    }
}

/// The steps of a poll, measured once before anything else runs.
pub(super) fn steps() -> u64 {
    static STEPS: OnceLock<u64> = OnceLock::new();
    *STEPS.get_or_init(|| steps_for(POLL))
}

#[cfg(test)]
mod tests {
    use super::{Load, steps};

    #[test]
    fn polls_are_counted_until_the_end() {
        let load = Load::default();
        assert!(steps() > 1);
        assert!(load.poll());
        load.end();
        assert!(!load.poll());
        assert_eq!(load.polls(), 2);
    }
}
