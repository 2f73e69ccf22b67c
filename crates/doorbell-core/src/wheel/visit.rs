//! A visit: while a worker is stuck in a long poll, another worker of its scheduler expires its overdue
//! timers.

use super::entry::Entry;
use super::gate::Gate;
use super::levels::WheelLevels;
use super::{Base, TimerReleased, VISIT_AGAIN_NS, VISIT_LOOKS, VISIT_MAX, Wheel, WheelInner};
use doorbell_machine::{Machine, Mark};
use std::ptr::NonNull;

/// How many rounds one visit makes at most, while there is more to fire.
const VISIT_ROUNDS: usize = 16;

/// What a visit took out.
pub(super) type Taken = [Option<TimerReleased>; VISIT_MAX];

/// What a visitor knows of the worker that it visits.
pub(crate) trait Visited<M: Machine> {
    /// The worker's parker.
    fn parker(&self) -> &M::Parker;

    /// The worker's count of polls, as a thread sees it that is not the worker.
    fn polls(&self) -> u64;

    /// Publishes when the worker's nearest global timer is due.
    fn publish_next_global(&self, when_ns: u64);
}

impl<M: Machine, O> Gate<M, O> {
    /// Fires global timers of the gate's worker that are due at `now_ns`; returns how many. Fires none if
    /// the worker has ended or touches its wheel, or if another visitor is there.
    ///
    /// Timers that were armed or polled in the poll under way are left to the worker. They belong to the
    /// very task that it polls, which no other worker can run, and their wakers hold references that the
    /// task's word does not count until the poll ends.
    pub(crate) fn expire(&self, worker: &impl Visited<M>, now_ns: u64) -> u64 {
        let mut fired = 0;
        for _ in 0..VISIT_ROUNDS {
            let round = self.expire_some(worker, now_ns);
            fired += round;
            if round < VISIT_MAX as u64 {
                break;
            }
        }
        if fired > 0 {
            M::mark(Mark::WheelVisit);
        }
        fired
    }

    /// One round. The gate is closed for the worker only during this.
    fn expire_some(&self, worker: &impl Visited<M>, now_ns: u64) -> u64 {
        let visited = self.visit(worker.parker(), |wheel| {
            let polls = Entry::<M, O>::tag(worker.polls());
            // SAFETY: the worker is its visitor's, as this is called.
            let (taken, next_ns) = unsafe { wheel.with_inner(|inner| inner.take(now_ns, polls)) };
            // Still inside the gate: after it the worker might have published an earlier one.
            worker.publish_next_global(next_ns);
            taken
        });
        let taken = visited.into_iter().flatten().flatten();
        taken.map(TimerReleased::end).sum()
    }
}

impl<M: Machine, O> WheelInner<M, O> {
    /// Takes what is due out of the global base, and says when the next look is due.
    pub(super) fn take(&mut self, now_ns: u64, polls: u16) -> (Taken, u64) {
        let mut taken = [const { None }; VISIT_MAX];
        let mut left = [None; VISIT_LOOKS];
        let mut fired = 0;
        let base: &mut WheelLevels<M, O> = &mut self.bases[Base::Global as usize];
        base.advance(now_ns);
        for left in &mut left {
            let Some(entry) = base.pop_due() else { break };
            // SAFETY: it hung in the wheel until now, so it is alive.
            if unsafe { entry.as_ref() }.polls.get() == polls {
                *left = Some(entry);
                continue;
            }
            // SAFETY: as in `Wheel::expire`; the visitor stands in for the worker.
            taken[fired] = Some(unsafe { Wheel::release(entry, Entry::fire) });
            fired += 1;
            if fired == VISIT_MAX {
                break;
            }
        }
        let mut next_ns = base.next_ns().unwrap_or(u64::MAX);
        if left.iter().any(Option::is_some) {
            next_ns = next_ns.min(now_ns.saturating_add(VISIT_AGAIN_NS));
        }
        for entry in left.into_iter().flatten() {
            // SAFETY: taken out above, so it hangs nowhere. It is still alive.
            unsafe { base.insert(NonNull::as_ptr(entry), now_ns) };
        }
        (taken, next_ns)
    }
}
