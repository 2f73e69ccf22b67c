//! Telemetry: what a scheduler records of its tasks for observers. By default it records nothing.

mod current_poll;
mod histogram;
mod hooks;
mod long_polls;
mod stalls;

use current_poll::CurrentPoll;
pub(crate) use current_poll::Polled;
use doorbell_machine::{Counter, Line, Machine};
pub use histogram::{Histogram, Times};
pub use hooks::{Hooks, TaskEvent, TaskHook, WorkerHook};
pub use long_polls::LongPoll;
use long_polls::LongPolls;
pub use stalls::{
    PollStall, QUEUED_MIN_NS, STALLS_PER_SECOND, StallEvent, StallHook, StallPlan, StallReporter,
};
use std::sync::Arc;
use std::time::Duration;

/// What a scheduler records. The default is nothing.
///
/// ```
/// use doorbell_core::scheduler::telemetry::TelemetryPlan;
///
/// assert!(TelemetryPlan::default().is_nothing());
/// let plan = TelemetryPlan { long_poll_ns: Some(500_000), ..TelemetryPlan::default() };
/// assert!(!plan.is_nothing());
/// ```
#[derive(Clone, Debug, Default)]
pub struct TelemetryPlan {
    /// Record the times of polls. A poll longer than this is a long poll.
    pub long_poll_ns: Option<u64>,
    /// Hooks to call.
    pub hooks: Hooks,
}

impl TelemetryPlan {
    /// Whether there is nothing to record.
    pub fn is_nothing(&self) -> bool {
        self.long_poll_ns.is_none() && self.hooks.is_empty()
    }
}

/// What a scheduler records.
pub struct Telemetry<M: Machine> {
    pub(super) plan: TelemetryPlan,
    pub(super) hook_panics: M::Counter,
    /// One entry per worker if times are recorded, else none.
    workers: Box<[M::Line<WorkerTimes<M>>]>,
    /// One entry per worker if stalls are reported, else none.
    current: Box<[M::Line<CurrentPoll<M>>]>,
    /// Looks at the entries of `current`.
    stalls: Option<Arc<StallReporter<M>>>,
}

impl<M: Machine> std::fmt::Debug for Telemetry<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Telemetry")
            .field("plan", &self.plan)
            .finish_non_exhaustive()
    }
}

impl<M: Machine> Telemetry<M> {
    /// For a scheduler of `workers` workers. `stalls` is the reporter made from the hooks of the same plan, if they
    /// include a stall hook.
    pub fn new(
        plan: TelemetryPlan,
        workers: usize,
        stalls: Option<&Arc<StallReporter<M>>>,
    ) -> Self {
        let if_wanted = |is_wanted| 0..if is_wanted { workers } else { 0 };
        Telemetry {
            workers: if_wanted(plan.long_poll_ns.is_some())
                .map(|_| M::Line::new(WorkerTimes::default))
                .collect(),
            current: if_wanted(stalls.is_some())
                .map(|_| M::Line::new(CurrentPoll::default))
                .collect(),
            stalls: stalls.cloned(),
            hook_panics: M::Counter::default(),
            plan,
        }
    }

    /// Whether times are recorded.
    #[inline]
    pub fn records_times(&self) -> bool {
        self.plan.long_poll_ns.is_some()
    }

    /// Whether something is recorded for each task.
    #[inline]
    pub(crate) fn is_of_tasks(&self) -> bool {
        self.plan.is_of_tasks()
    }

    /// The times of that worker's polls, if they are recorded.
    #[inline]
    pub fn worker(&self, worker: usize) -> Option<&WorkerTimes<M>> {
        self.workers.get(worker).map(|worker| &**worker)
    }

    /// The poll that the worker is inside, if stalls are reported.
    #[inline]
    pub(crate) fn current_poll(&self, worker: usize) -> Option<&CurrentPoll<M>> {
        self.current.get(worker).map(|worker| &**worker)
    }

    /// If stalls are reported, notes that the worker begins the poll with this number. The caller must
    /// [end](CurrentPoll::end) it.
    pub(crate) fn begin_poll(
        &self,
        worker: usize,
        number: u64,
        polled: Polled,
    ) -> Option<&CurrentPoll<M>> {
        let stalls = self.stalls.as_ref()?;
        let current = self.current_poll(worker)?;
        current.begin(number, polled);
        stalls.note_poll();
        Some(current)
    }

    /// Polls a task on this worker, and records the times. `woken_ns` is when the task was last spawned or woken; 0
    /// if that is not recorded.
    #[inline]
    pub(crate) fn time_poll<'a, R>(
        &self,
        worker: usize,
        woken_ns: u64,
        name: impl FnOnce() -> Option<&'a str>,
        poll: impl FnOnce() -> R,
    ) -> R {
        let (Some(times), Some(long_ns)) = (self.worker(worker), self.plan.long_poll_ns) else {
            return poll();
        };
        let began_ns = M::now_ns();
        if woken_ns != 0 {
            times.waits.record(began_ns.saturating_sub(woken_ns));
        }
        times.began_ns.set(began_ns.max(1));
        let polled = poll();
        times.began_ns.set(0);
        let took_ns = M::now_ns().saturating_sub(began_ns);
        times.polls.record(took_ns);
        if took_ns > long_ns {
            times.long.note(name(), took_ns);
        }
        polled
    }
}

/// The times of one worker's polls. The worker writes, any thread reads.
pub struct WorkerTimes<M: Machine> {
    polls: Histogram<M::Counter>,
    waits: Histogram<M::Counter>,
    /// When the current poll began; 0 if there is none.
    began_ns: M::Counter,
    long: LongPolls<M>,
}

impl<M: Machine> Default for WorkerTimes<M> {
    fn default() -> Self {
        WorkerTimes {
            polls: Histogram::default(),
            waits: Histogram::default(),
            began_ns: M::Counter::default(),
            long: LongPolls::default(),
        }
    }
}

impl<M: Machine> std::fmt::Debug for WorkerTimes<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkerTimes")
            .field("polls", &self.polls())
            .field("waits", &self.waits())
            .finish_non_exhaustive()
    }
}

impl<M: Machine> WorkerTimes<M> {
    /// How long polls took.
    pub fn polls(&self) -> Times {
        self.polls.times()
    }

    /// How long tasks waited from their spawn or wake to their poll.
    pub fn waits(&self) -> Times {
        self.waits.times()
    }

    /// How long the current poll has lasted, if there is one.
    pub fn current_poll(&self) -> Option<Duration> {
        let began_ns = self.began_ns.get();
        (began_ns != 0).then(|| Duration::from_nanos(M::now_ns().saturating_sub(began_ns)))
    }

    /// The number of long polls.
    pub fn long_count(&self) -> u64 {
        self.long.count()
    }

    /// The last eight long polls, oldest first.
    pub fn long_polls(&self) -> Vec<LongPoll> {
        self.long.last()
    }
}
