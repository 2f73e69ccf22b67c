//! What keeps every core busy: 64 jobs that compute for 10 ms and then let the next one go on.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::super::steps::{compute, steps_for};

/// How many jobs there are.
pub(super) const JOBS: usize = 64;
/// How long a job computes in one poll, on a core that it has for itself.
const POLL: Duration = Duration::from_millis(10);

/// The jobs' work, and how much of it was done. It is the same amount of work in each poll: one that
/// is interrupted takes longer, and fewer of them are done.
#[derive(Debug, Default)]
pub(super) struct Load {
    polls: AtomicU64,
    ends: AtomicBool,
}

impl Load {
    /// One poll. Whether another one follows.
    pub(super) fn poll(&self) -> bool {
        compute(steps());
        // ORDER: a count; who reads it has waited for nothing of it.
        self.polls.fetch_add(1, Ordering::Relaxed);
        // ORDER: seen some time; nothing else hangs on it.
        !self.ends.load(Ordering::Relaxed)
    }

    /// How many polls were done.
    pub(super) fn polls(&self) -> u64 {
        // ORDER: as above.
        self.polls.load(Ordering::Relaxed)
    }

    /// Has every job end after its poll.
    pub(super) fn end(&self) {
        // ORDER: as above.
        self.ends.store(true, Ordering::Relaxed);
    }
}

/// How many steps a poll has, measured once, before anything else runs.
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
