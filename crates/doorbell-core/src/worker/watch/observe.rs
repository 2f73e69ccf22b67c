//! What a worker sees of another one: its pulse, since when that has been so, and what waits there.

use super::limits::LONG_NS;
use crate::scheduler::Member;
use crate::worker::Worker;
use doorbell_machine::Machine;

/// What a worker saw of another one at its last look.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Observed {
    /// The number of its poll.
    pulse: u64,
    /// It was inside a poll or a call.
    is_inside: bool,
    /// The first look that saw it so.
    since_ns: u64,
}

/// What a look sees of another worker.
#[derive(Clone, Copy, Debug)]
pub(in crate::worker) struct Observation {
    /// It is inside a poll or a call.
    pub(in crate::worker) is_inside: bool,
    /// It was seen with the same pulse before, and inside or not as now. A worker that slept at the last look has only
    /// just woken, and is not stuck.
    pub(in crate::worker) stood_still: bool,
    /// How long it has been seen so.
    pub(super) stands_ns: u64,
}

impl Observation {
    /// Whether the worker is inside a poll or call that it was in at the last look too.
    pub(super) fn is_stuck(self) -> bool {
        self.stood_still && self.is_inside
    }

    /// A worker inside a poll, for tests.
    #[cfg(test)]
    pub(in crate::worker) fn inside(stood_still: bool) -> Self {
        Observation {
            is_inside: true,
            stood_still,
            stands_ns: 0,
        }
    }
}

impl<M: Machine> Worker<M> {
    /// Looks at another worker, and notes its pulse for the next look.
    pub(in crate::worker) fn observe(&self, of: &Member<M>, now_ns: u64) -> Observation {
        let (pulse, is_inside) = (of.pulse(), of.is_inside());
        let noted = &self.watch.observed[of.worker()];
        let before = noted.get();
        let stood_still = (before.pulse, before.is_inside) == (pulse, is_inside);
        if !stood_still {
            noted.set(Observed {
                pulse,
                is_inside,
                since_ns: now_ns,
            });
        }
        Observation {
            is_inside,
            stood_still,
            stands_ns: now_ns.saturating_sub(noted.get().since_ns),
        }
    }

    /// Whether another worker's poll under way is long, as far as is known: it has lasted for long since this worker
    /// saw it first, or its task's last poll was long.
    pub(super) fn is_in_long_poll(&self, other: &Member<M>, now_ns: u64) -> bool {
        let noted = self.watch.observed[other.worker()].get();
        let has_stood = noted.is_inside
            && noted.pulse == other.pulse()
            && now_ns.saturating_sub(noted.since_ns) >= LONG_NS;
        other.expects_long() || has_stood
    }

    /// When the first timer of another worker, or of the sleepers that it looks after, is due that this worker may fire;
    /// `None` if there is none.
    pub(super) fn timer_at(&self, other: &Member<M>) -> Option<u64> {
        let due_ns = self.next_for(other);
        (due_ns != u64::MAX && !self.shared.clock.is_frozen()).then_some(due_ns)
    }
}
