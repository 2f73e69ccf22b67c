//! A visit: while a worker sleeps or is stuck in a long poll, another worker of its scheduler expires its timers.

use super::entry::Entry;
use super::gate::{Gate, Stands};
use super::levels::WheelLevels;
use super::{TimerReleased, VISIT_AGAIN_NS, VISIT_LOOKS, VISIT_MAX, Wheel};
use doorbell_machine::{Machine, Mark};

/// How many rounds one visit makes at most, while something is due that it has not seen.
const VISIT_ROUNDS: usize = 16;

/// What a visit took out.
pub(super) type Taken = [Option<TimerReleased>; VISIT_MAX];

/// What a visit did.
#[must_use]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Expired {
    /// How many timers it fired.
    pub(crate) fired: u64,
    /// Whether the wheel was lent, so that the visit needed no heavy fence.
    pub(crate) was_lent: bool,
}

/// What one round did.
struct Round {
    taken: Taken,
    stands: Stands,
    /// Whether something is due that the visit has not seen.
    has_more: bool,
}

/// What a visitor knows of the worker that it visits.
pub(crate) trait Visited<M: Machine> {
    /// The worker's parker.
    fn parker(&self) -> &M::Parker;

    /// The worker's count of polls, as a thread sees it that is not the worker.
    fn polls(&self) -> u64;

    /// Publishes by when a thread must wake for the worker's global timers.
    fn publish_next_global(&self, when_ns: u64);
}

impl<M: Machine, O> Gate<M, O> {
    /// Fires global timers of the gate's worker that are due at `now_ns`; returns how many. `None` if it could not get
    /// in: the worker has ended or touches its wheel, or another visitor is there.
    ///
    /// Timers that were armed or polled in the poll under way are left to the worker. They belong to the
    /// very task that it polls, which no other worker can run, and their wakers hold references that the
    /// task's word does not count until the poll ends.
    pub(crate) fn expire(&self, worker: &impl Visited<M>, now_ns: u64) -> Option<Expired> {
        let mut expired = None;
        for _ in 0..VISIT_ROUNDS {
            let Some(round) = self.expire_some(worker, now_ns) else {
                break;
            };
            let it = expired.get_or_insert(Expired::default());
            it.was_lent = round.stands == Stands::Lent;
            it.fired += round
                .taken
                .into_iter()
                .flatten()
                .map(TimerReleased::end::<M>)
                .sum::<u64>();
            if !round.has_more {
                break;
            }
        }
        if expired.is_some_and(|it| it.fired > 0) {
            M::mark(Mark::WheelVisit);
        }
        expired
    }

    /// One round. The gate is closed for the worker only during this.
    fn expire_some(&self, worker: &impl Visited<M>, now_ns: u64) -> Option<Round> {
        self.visit(worker.parker(), |wheel, stands| {
            let polls = match stands {
                Stands::Lent => None,
                Stands::Unused => Some(Entry::<M, O>::tag(worker.polls())),
            };
            // SAFETY: the worker is its visitor's, as this is called.
            let (taken, next_ns, has_more) = unsafe {
                wheel.with_global(|base| {
                    let (taken, next_ns) = base.take(now_ns, polls);
                    (taken, next_ns, base.has_unseen())
                })
            };
            // Still inside the gate: after it the worker might have published an earlier one.
            worker.publish_next_global(next_ns);
            Round {
                taken,
                stands,
                has_more,
            }
        })
    }
}

impl<M: Machine, O> WheelLevels<M, O> {
    /// Looks at up to [`VISIT_LOOKS`] timers that are due, and takes them out, except for those with the tag of the poll
    /// under way. Returns them, and the base's next wake.
    pub(super) fn take(&mut self, now_ns: u64, polls: Option<u16>) -> (Taken, u64) {
        let mut taken = [const { None }; VISIT_MAX];
        let mut fired = 0;
        self.advance(now_ns);
        self.look_anew();
        for _ in 0..VISIT_LOOKS {
            let Some(entry) = self.pop_unseen() else {
                break;
            };
            // SAFETY: it hung in the wheel until now, so it is alive.
            if Some(unsafe { entry.as_ref() }.polls.get()) == polls {
                // SAFETY: as above, and its link is the visitor's.
                let window = unsafe { Entry::with_link(entry.as_ptr(), |link| link.window) };
                // SAFETY: as above; it hangs nowhere, and is due.
                unsafe { self.leave(entry.as_ptr(), window) };
                continue;
            }
            // SAFETY: as in `Wheel::expire`; the visitor stands in for the worker.
            taken[fired] = Some(unsafe { Wheel::release(entry, Entry::fire) });
            fired += 1;
            if fired == VISIT_MAX {
                break;
            }
        }
        let again_ns = now_ns.saturating_add(VISIT_AGAIN_NS);
        (taken, self.next_behind_visit_ns(again_ns))
    }
}
