//! Stalls: a hook is called with a poll that takes long, while the poll goes on.
//!
//! A separate thread looks at all workers, so it finds a stall even if every worker is inside a poll that never ends.
//! Workers read no clock for this: they number their polls, and the thread measures for how long it has seen the same
//! number. It also looks at the queue of blocking closures: those that are under way may all wait for one that is queued.

use super::Hooks;
use super::current_poll::CurrentPoll;
use crate::class::Class;
use crate::scheduler::{RemoteRef, Scheduler};
use crate::wait::Waiter;
use doorbell_machine::{Bug, Fenced, Line, Machine, Ordering, Word};
use std::fmt;
use std::panic::Location;
use std::sync::Arc;

/// The most stalls of one worker that are reported in a one-second window. A window begins with the first stall
/// after the last window's end.
pub const STALLS_PER_SECOND: u32 = 10;

const SECOND_NS: u64 = 1_000_000_000;

/// Looks of the thread per threshold.
const LOOKS: u64 = 2;

/// The shortest interval between two looks.
const LOOK_MIN_NS: u64 = 500_000;

/// How long a closure is queued at least before it is reported. Shorter, and a pool that only has much to do would be
/// taken for one that waits for itself.
pub const QUEUED_MIN_NS: u64 = 500_000_000;

/// What takes long and still goes on.
#[derive(Clone, Copy, Debug)]
pub enum StallEvent {
    /// A poll.
    Poll(PollStall),
    /// The wait of a blocking closure for a thread.
    Queued {
        /// How long the oldest closure in the queue has waited.
        waited_ns: u64,
    },
}

impl StallEvent {
    /// How long it has lasted, at least.
    pub fn lasted_ns(&self) -> u64 {
        match self {
            StallEvent::Poll(poll) => poll.lasted_ns,
            StallEvent::Queued { waited_ns } => *waited_ns,
        }
    }
}

/// A long poll that still goes on.
#[derive(Clone, Copy, Debug)]
pub struct PollStall {
    /// The number of the task.
    pub task: u64,
    /// Where the task was launched.
    pub spawned_at: &'static Location<'static>,
    /// The rank that the task was launched with.
    pub rank: u8,
    /// The class of the worker's scheduler.
    pub class: Class,
    /// The number of the worker in its scheduler.
    pub worker: usize,
    /// How long the poll has lasted, at least.
    pub lasted_ns: u64,
    /// Number of stalls of this worker that were not reported since the last report.
    pub left_out: u64,
}

/// Called with what takes long and still goes on.
pub type StallHook = Arc<dyn Fn(&StallEvent) + Send + Sync>;

/// When a poll is a stall, and what is called then.
#[derive(Clone)]
pub struct StallPlan {
    /// A poll is a stall once it has lasted this long, and so is the wait of a closure, but not below
    /// [`QUEUED_MIN_NS`].
    pub after_ns: u64,
    /// Called for each stall.
    pub hook: StallHook,
}

impl fmt::Debug for StallPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StallPlan")
            .field("after_ns", &self.after_ns)
            .finish_non_exhaustive()
    }
}

/// The poll that a worker was inside at the last look of the thread.
#[derive(Clone, Copy, Debug, Default)]
struct StallSeen {
    /// Its number; 0 before the first.
    number: u64,
    /// When it was first seen.
    since_ns: u64,
    /// It is reported once it has lasted this long.
    tell_ns: u64,
}

impl StallSeen {
    /// Notes that the worker was inside this poll at some time between `before_ns` and `behind_ns`. If the stall is
    /// to be reported now, returns how long the poll has lasted at least.
    fn look<M: Machine>(
        &mut self,
        number: u64,
        [before_ns, behind_ns]: [u64; 2],
        after_ns: u64,
    ) -> Option<u64> {
        let is_new = self.number != number;
        if is_new && (self.number == 0 || !M::breaks(Bug::WorkerStallOfAnyPoll)) {
            *self = StallSeen {
                number,
                since_ns: behind_ns,
                tell_ns: after_ns,
            };
            return None;
        }
        let lasted_ns = before_ns.saturating_sub(self.since_ns);
        if lasted_ns < self.tell_ns {
            return None;
        }
        self.tell_ns = lasted_ns.saturating_mul(2);
        Some(lasted_ns)
    }
}

/// What the thread knows of the queue.
#[derive(Clone, Copy, Debug, Default)]
struct QueueSeen {
    /// The oldest entry is reported once it has waited this long.
    tell_ns: u64,
}

impl QueueSeen {
    /// If the wait of the oldest entry is to be reported now, returns it. It is reported again once it is twice as
    /// long. A queue whose oldest entry is young again begins anew.
    fn look(&mut self, waited_ns: Option<u64>, after_ns: u64) -> Option<u64> {
        let first_ns = after_ns.max(QUEUED_MIN_NS);
        let waited_ns = waited_ns.filter(|waited_ns| *waited_ns >= first_ns);
        self.tell_ns = match waited_ns {
            None => first_ns,
            Some(waited_ns) if waited_ns < self.tell_ns => return None,
            Some(waited_ns) => waited_ns.saturating_mul(2),
        };
        waited_ns
    }
}

/// Limits the reports of one worker to [`STALLS_PER_SECOND`].
#[derive(Clone, Copy, Debug, Default)]
struct ToldLimit {
    since_ns: u64,
    told: u32,
    left_out: u64,
}

impl ToldLimit {
    /// If one more stall may be reported, returns how many were left out since the last report.
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

/// What the thread keeps for each worker between two looks.
#[derive(Clone, Copy, Debug, Default)]
struct Looked {
    seen: StallSeen,
    limit: ToldLimit,
    /// The number of the worker's polls at the last look.
    polls: u64,
}

/// Looks for stalls, on a thread that is no worker. If no worker has polled anything between two looks, the thread
/// sleeps without a deadline, and the next poll wakes it.
pub struct StallReporter<M: Machine> {
    after_ns: u64,
    /// 1 while the thread sleeps until a worker polls something.
    sleeps: M::Line<M::U32>,
    waiter: Waiter<M>,
    /// 1 once the thread is asked to end.
    ended: M::U32,
}

impl<M: Machine> fmt::Debug for StallReporter<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StallReporter")
            .field("after_ns", &self.after_ns)
            .finish_non_exhaustive()
    }
}

impl<M: Machine> StallReporter<M> {
    /// `None` if there is no stall hook.
    pub fn new(hooks: &Hooks) -> Option<Self> {
        let after_ns = hooks.stall.iter().map(|plan| plan.after_ns).min()?;
        Some(StallReporter {
            after_ns,
            sleeps: M::Line::new(|| M::U32::new(0)),
            waiter: Waiter::default(),
            ended: M::U32::new(0),
        })
    }

    /// Looks at the schedulers of these workers, one worker of each, until [`StallReporter::end`] is called; and at a
    /// queue: `oldest` says for how many nanoseconds its oldest entry has waited, and `None` if it is empty. A
    /// thread that adds to it calls [`StallReporter::note_queued`] afterwards.
    pub fn run(&self, schedulers: &[RemoteRef<M>], oldest: &dyn Fn() -> Option<u64>) {
        let all =
            |remote: &RemoteRef<M>| vec![Looked::default(); remote.scheduler().remotes().len()];
        let mut workers: Vec<Vec<Looked>> = schedulers.iter().map(all).collect();
        let mut queue = QueueSeen::default();
        let mut are_busy = true;
        loop {
            if are_busy {
                self.pause();
            } else {
                self.sleep_if_quiet(schedulers, oldest);
            }
            // ORDER: Relaxed; no other data depends on it, and the wait acquires the notification.
            if self.ended.load(Ordering::Relaxed) != 0 {
                return;
            }
            are_busy = self.look(schedulers, &mut workers);
            let waited_ns = oldest();
            are_busy |= waited_ns.is_some();
            if let Some(waited_ns) = queue.look(waited_ns, self.after_ns) {
                Self::tell_queued(schedulers, waited_ns);
            }
        }
    }

    /// Asks the thread to end. Does not wait for a hook that it is inside.
    pub fn end(&self) {
        // ORDER: Relaxed; the notification brings it.
        self.ended.store(1, Ordering::Relaxed);
        self.waiter.notify();
    }

    /// Waits until the next look.
    fn pause(&self) {
        let every_ns = self.after_ns.div_ceil(LOOKS).max(LOOK_MIN_NS);
        let until_ns = M::now_ns().saturating_add(every_ns);
        self.waiter.wait_until(Some(until_ns));
    }

    fn tell_queued(schedulers: &[RemoteRef<M>], waited_ns: u64) {
        let mut telemetry = schedulers
            .iter()
            .filter_map(|it| it.scheduler().telemetry());
        if let Some(telemetry) = telemetry.next() {
            telemetry.stalled(&StallEvent::Queued { waited_ns });
        }
    }

    /// Waits until a worker polls something or something is queued. If that is so already, or the OS refuses the fence,
    /// waits only until the next look.
    pub(crate) fn sleep_if_quiet(
        &self,
        schedulers: &[RemoteRef<M>],
        oldest: &dyn Fn() -> Option<u64>,
    ) {
        // ORDER: Relaxed; in front of the fence, whose partner is the worker's.
        self.sleeps.store(1, Ordering::Relaxed);
        // Without the fence a poll may begin unseen.
        let is_seen = M::fence_heavy() == Fenced::Yes;
        let are_quiet = || schedulers.iter().all(|it| is_quiet(it.scheduler()));
        if is_seen && are_quiet() && oldest().is_none() {
            self.waiter.wait_until(None);
        } else {
            self.pause();
        }
        // ORDER: Relaxed; a worker that still sees the 1 notifies once more, which ends one wait early.
        self.sleeps.store(0, Ordering::Relaxed);
    }

    /// Wakes the thread if it sleeps. A worker calls this after it has stored the number of a poll that begins.
    #[inline]
    pub(super) fn note_poll(&self) {
        if !M::breaks(Bug::WorkerStallNoFence) {
            M::fence_light();
        }
        // ORDER: Relaxed; after the fence, whose partner is that of the thread.
        if self.sleeps.load(Ordering::Relaxed) != 0 {
            self.waiter.notify();
        }
    }

    /// Wakes the thread if it sleeps: something was queued.
    pub fn note_queued(&self) {
        self.note_poll();
    }

    /// Looks at every worker. Returns whether any of them is inside a poll, or has polled since the last look.
    fn look(&self, schedulers: &[RemoteRef<M>], workers: &mut [Vec<Looked>]) -> bool {
        let mut are_busy = false;
        for (remote, workers) in schedulers.iter().zip(workers) {
            let scheduler = remote.scheduler();
            for (remote, worker_seen) in scheduler.remotes().iter().zip(workers) {
                let polls = remote.pulse();
                if std::mem::replace(&mut worker_seen.polls, polls) != polls {
                    are_busy = true;
                }
                self.look_at(scheduler, remote.worker(), worker_seen);
            }
            if !is_quiet(scheduler) {
                are_busy = true;
            }
        }
        are_busy
    }

    fn look_at(&self, scheduler: &Scheduler<M>, worker: usize, worker_seen: &mut Looked) {
        let Some(telemetry) = scheduler.telemetry() else {
            return;
        };
        // Read for each worker: a hook may take long, and the thread may lose its CPU.
        let before_ns = M::now_ns();
        let current = telemetry.current_poll(worker).and_then(CurrentPoll::read);
        let Some((number, polled)) = current else {
            return;
        };
        let times = [before_ns, M::now_ns()];
        let Some(lasted_ns) = worker_seen.seen.look::<M>(number, times, self.after_ns) else {
            return;
        };
        // ORDER: Relaxed; a hook that is called a little after the end does no harm.
        if self.ended.load(Ordering::Relaxed) != 0 {
            return;
        }
        let Some(left_out) = worker_seen.limit.admit(before_ns) else {
            return;
        };
        telemetry.stalled(&StallEvent::Poll(PollStall {
            task: polled.task,
            spawned_at: polled.spawned_at,
            rank: polled.rank,
            class: scheduler.class(),
            worker,
            lasted_ns,
            left_out,
        }));
    }
}

/// Whether no worker of the scheduler is inside a poll.
fn is_quiet<M: Machine>(scheduler: &Scheduler<M>) -> bool {
    let workers = 0..scheduler.remotes().len();
    let mut current = workers.filter_map(|worker| scheduler.telemetry()?.current_poll(worker));
    !current.any(CurrentPoll::goes_on)
}

#[cfg(test)]
mod tests {
    use super::{QUEUED_MIN_NS, QueueSeen, SECOND_NS, STALLS_PER_SECOND, StallSeen, ToldLimit};
    use doorbell_machine::Host;

    #[test]
    fn a_poll_is_told_when_it_is_long_and_each_time_it_is_twice_as_long() {
        let mut seen = StallSeen::default();
        let told: Vec<u64> = (0..=200)
            .filter_map(|at| seen.look::<Host>(1, [1_000 + 5 * at; 2], 10))
            .collect();
        assert_eq!(told, [10, 20, 40, 80, 160, 320, 640]);
        let mut look = |times| seen.look::<Host>(3, times, 10);
        assert_eq!(look([4_000, 5_000]), None, "another poll");
        assert_eq!(look([5_009, 6_000]), None, "which is short");
        assert_eq!(look([4_000; 2]), None, "a clock that leapt back");
        assert_eq!(look([5_012, 6_000]), Some(12));
    }

    #[test]
    fn a_closure_that_waits_is_told_when_it_is_old_and_each_time_it_is_twice_as_old() {
        let mut seen = QueueSeen::default();
        let ages = [
            None,
            Some(0),
            Some(1),
            Some(2),
            Some(3),
            Some(4),
            Some(5),
            Some(2),
            Some(8),
        ];
        let look =
            |age: Option<u64>| seen.look(age.map(|age| age * QUEUED_MIN_NS), 2 * QUEUED_MIN_NS);
        let told: Vec<u64> = ages.into_iter().filter_map(look).collect();
        assert_eq!(told, [2, 4, 8].map(|age| age * QUEUED_MIN_NS));
        assert_eq!(seen.look(Some(0), 1), None, "younger ones");
        assert_eq!(seen.look(Some(QUEUED_MIN_NS - 1), 1), None);
        assert_eq!(seen.look(Some(QUEUED_MIN_NS), 1), Some(QUEUED_MIN_NS));
    }

    #[test]
    fn so_many_are_told_in_a_second_and_the_next_says_how_many_were_left_out() {
        let mut limit = ToldLimit::default();
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
