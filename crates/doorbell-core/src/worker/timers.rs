//! When a worker fires its own timers. Those of sleepers: `pull.rs`; the wheel and the times of its next wakes:
//! `local/timers.rs`.

use super::Worker;
use doorbell_machine::{Bug, Counter, Machine};
use std::cell::Cell;

/// What decides whether a worker fires timers that may still wait.
#[derive(Debug)]
pub(super) struct Timers {
    /// The count of polls when the worker idled last.
    idle_polls: Cell<u64>,
}

impl Timers {
    pub(super) fn new() -> Self {
        Timers {
            idle_polls: Cell::new(u64::MAX),
        }
    }

    /// The worker was idle; it has made so many polls.
    pub(super) fn note_idle(&self, polls: u64) {
        self.idle_polls.set(polls);
    }
}

impl<M: Machine> Worker<M> {
    /// Fires the timers that are due, also those of sleepers that this worker looks after. A worker that has run nothing
    /// since it idled leaves its own ones that may still wait: fired now, a few at a time, they would make it wake
    /// others to help it. Under a paused clock it fires them: the task that advanced the clock waits for them. Returns
    /// whether it fired any.
    #[inline]
    pub(super) fn expire(&self) -> bool {
        let has_run = self.shared.tally.polls.get() != self.timers.idle_polls.get();
        let may_fire = has_run || self.local.needs_a_look() || self.shared.clock.is_frozen();
        let mut fired = 0;
        if may_fire || M::breaks(Bug::IdleWorkerFiresEarly) {
            fired = self.local.expire();
            if fired > 0 {
                self.shared.tally.timers_fired.add_owned(fired);
            }
        }
        self.pull_timers() || fired > 0
    }
}
