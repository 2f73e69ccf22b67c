//! Stalls: polls that go on for long, of which a hook is told while they do.
//!
//! A thread of its own looks at all lanes, so a stall is found also where every lane is inside a poll that never ends.
//! Lanes read no clock for it: they number their polls, and the thread measures for how long it has seen the same number.

use super::Hooks;
use super::current_poll::Polled;
use crate::class::Class;
use crate::crew::{Crew, FrontRef};
use doorbell_machine::{Bug, Machine, Ordering, ParkEnd, Seat, Word};
use std::fmt;
use std::panic::Location;
use std::sync::Arc;

/// How many stalls of one lane are told in a second.
pub const STALLS_PER_SECOND: u32 = 10;

const SECOND_NS: u64 = 1_000_000_000;

/// So often the thread looks at a poll until that is long.
const LOOKS: u64 = 2;

/// It does not look more often than that.
const LOOK_MIN_NS: u64 = 500_000;

/// A poll that goes on.
#[derive(Clone, Copy, Debug)]
pub struct StallEvent {
    /// The number of the task.
    pub task: u64,
    /// Where the task was launched.
    pub spawned_at: &'static Location<'static>,
    /// The class of the task, as whoever launched it writes it.
    pub rank: u8,
    /// The class of the lane's crew.
    pub class: Class,
    /// The number of the lane in its crew.
    pub lane: usize,
    /// For how long the poll has lasted at least.
    pub lasted_ns: u64,
    /// How many stalls of this lane were left out since the last one that was told.
    pub left_out: u64,
}

/// Called with a poll that goes on.
pub type StallHook = Arc<dyn Fn(&StallEvent) + Send + Sync>;

/// Who is told of stalls.
#[derive(Clone)]
pub struct StallPlan {
    /// From when on a poll is one.
    pub after_ns: u64,
    /// Who is told.
    pub hook: StallHook,
}

impl fmt::Debug for StallPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StallPlan")
            .field("after_ns", &self.after_ns)
            .finish_non_exhaustive()
    }
}

/// The poll that a lane was inside of when the thread looked last.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// Its number; 0 before the first.
    number: u64,
    /// When it was seen first.
    since_ns: u64,
    /// Told once it has lasted for so long.
    tell_ns: u64,
}

impl Seen {
    /// The lane is in the poll with that number. For how long that has lasted, if it is to be told.
    fn look<M: Machine>(&mut self, number: u64, now_ns: u64, after_ns: u64) -> Option<u64> {
        let is_new = self.number != number;
        if is_new && (self.number == 0 || !M::breaks(Bug::LaneStallOfAnyPoll)) {
            *self = Seen {
                number,
                since_ns: now_ns,
                tell_ns: after_ns,
            };
            return None;
        }
        let lasted_ns = now_ns.saturating_sub(self.since_ns);
        if lasted_ns < self.tell_ns {
            return None;
        }
        self.tell_ns = lasted_ns.saturating_mul(2);
        Some(lasted_ns)
    }
}

/// How many stalls of a lane were told within a second.
#[derive(Clone, Copy, Debug, Default)]
struct Limit {
    since_ns: u64,
    told: u32,
    left_out: u64,
}

impl Limit {
    /// Whether one more is told, and then how many were left out since the last.
    fn admit(&mut self, now_ns: u64) -> Option<u64> {
        if now_ns.saturating_sub(self.since_ns) >= SECOND_NS {
            self.since_ns = now_ns;
            self.told = 0;
        }
        if self.told == STALLS_PER_SECOND {
            self.left_out += 1;
            return None;
        }
        self.told += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

/// What the thread keeps of a lane.
#[derive(Clone, Copy, Debug, Default)]
struct Ward {
    seen: Seen,
    limit: Limit,
}

/// Looks for stalls, on a thread that is no lane.
pub struct StallWatch<M: Machine> {
    /// A lane of each crew.
    crews: Vec<FrontRef<M>>,
    after_ns: u64,
    /// 1 once it is to end.
    ended: M::U32,
    seat: M::Seat,
}

impl<M: Machine> fmt::Debug for StallWatch<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StallWatch")
            .field("after_ns", &self.after_ns)
            .finish_non_exhaustive()
    }
}

impl<M: Machine> StallWatch<M> {
    /// That of the crews which have these lanes, one of each. `None` if nobody is to be told.
    pub fn new(hooks: &Hooks, crews: Vec<FrontRef<M>>) -> Option<Self> {
        let plan = hooks.stall.as_ref()?;
        Some(StallWatch {
            crews,
            after_ns: plan.after_ns,
            ended: M::U32::new(0),
            seat: M::Seat::new(),
        })
    }

    /// Looks until it is told to end.
    pub fn run(&self) {
        let lanes = |front: &FrontRef<M>| vec![Ward::default(); front.crew().fronts().len()];
        let mut wards: Vec<Vec<Ward>> = self.crews.iter().map(lanes).collect();
        let every_ns = self.after_ns.div_ceil(LOOKS).max(LOOK_MIN_NS);
        loop {
            let until_ns = M::now_ns().saturating_add(every_ns);
            match self.seat.park(&self.ended, 0, Some(until_ns)) {
                ParkEnd::Deadline => {}
                ParkEnd::Changed | ParkEnd::Rung | ParkEnd::Spurious => {
                    // ORDER: Relaxed; nothing else is read by it.
                    if self.ended.load(Ordering::Relaxed) != 0 {
                        return;
                    }
                }
            }
            let now_ns = M::now_ns();
            for (front, wards) in self.crews.iter().zip(&mut wards) {
                self.look(front.crew(), wards, now_ns);
            }
        }
    }

    /// Tells the thread to end. A hook that it is inside of is not waited for.
    pub fn end(&self) {
        // ORDER: Relaxed; nothing else is read by it.
        self.ended.store(1, Ordering::Relaxed);
        self.seat.ring(&self.ended);
    }

    fn look(&self, crew: &Crew<M>, wards: &mut [Ward], now_ns: u64) {
        let Some(watchers) = crew.watchers() else {
            return;
        };
        for (lane, ward) in wards.iter_mut().enumerate() {
            let current = watchers.current_poll(lane);
            let Some((number, polled)) = current.and_then(super::current_poll::CurrentPoll::read)
            else {
                continue;
            };
            let Some(lasted_ns) = ward.seen.look::<M>(number, now_ns, self.after_ns) else {
                continue;
            };
            let Some(left_out) = ward.limit.admit(now_ns) else {
                continue;
            };
            let Polled {
                task,
                rank,
                spawned_at,
            } = polled;
            watchers.stalled(&StallEvent {
                task,
                spawned_at,
                rank,
                class: crew.class(),
                lane,
                lasted_ns,
                left_out,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Limit, SECOND_NS, STALLS_PER_SECOND, Seen};
    use doorbell_machine::Host;

    #[test]
    fn a_poll_is_told_when_it_is_long_and_each_time_it_is_twice_as_long() {
        let mut seen = Seen::default();
        let told: Vec<u64> = (0..=200)
            .filter_map(|at| seen.look::<Host>(1, 1_000 + 5 * at, 10))
            .collect();
        assert_eq!(told, [10, 20, 40, 80, 160, 320, 640]);
        assert_eq!(seen.look::<Host>(3, 5_000, 10), None, "another poll");
        assert_eq!(seen.look::<Host>(3, 5_009, 10), None, "which is short");
        assert_eq!(
            seen.look::<Host>(3, 4_000, 10),
            None,
            "a clock that leapt back"
        );
        assert_eq!(seen.look::<Host>(3, 5_012, 10), Some(12));
    }

    #[test]
    fn so_many_are_told_in_a_second_and_the_next_says_how_many_were_left_out() {
        let mut limit = Limit::default();
        for round in 1..=3_u64 {
            let began_ns = round * 2 * SECOND_NS;
            let told = (0..STALLS_PER_SECOND).map(|_| limit.admit(began_ns));
            let left_out = if round == 1 { 0 } else { round - 1 };
            let first = std::iter::once(Some(left_out)).chain(std::iter::repeat(Some(0)));
            assert!(told.eq(first.take(STALLS_PER_SECOND as usize)));
            for _ in 0..round {
                assert_eq!(limit.admit(began_ns + SECOND_NS - 1), None);
            }
        }
    }
}
