//! What a runtime tells of itself: counts at one moment ([`Metrics`]), how long polls take ([`Times`], [`LongPoll`]), what
//! tasks do ([`TaskDump`]), polls that go on for long ([`Stall`]), and what the OS granted ([`WorkerPolicy`]).

pub use crate::blocking::BlockingMetrics;
pub use crate::class_workers::WorkerPolicy;
pub use crate::dump::{TaskDump, TaskState};
pub use crate::hooks::{TaskInfo, WorkerInfo};
pub use crate::poll_times::LongPoll;
pub use crate::stalls::{Stall, StallKind};
pub use doorbell_core::bell::WorkerState;
pub use doorbell_core::scheduler::telemetry::Times;
pub use doorbell_machine::Policy;

/// Counts of mechanisms of this version: for measurements of the runtime itself. They come and go with the mechanisms.
pub mod raw {
    pub use doorbell_core::worker::WorkerCounts;
}

use crate::poll_times::{Recorded, Recording};
use crate::{ClassKind, CoreId};
use doorbell_core::scheduler::telemetry::{Telemetry, WorkerTimes};
use doorbell_machine::Machine;
use std::time::Duration;

/// The counts of all workers at one moment. Counts only grow: take two and subtract them with
/// [`WorkerCounts::since`] to see what happened in between.
#[doc(alias = "RuntimeMetrics")]
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metrics {
    /// One entry per worker: the Fair workers in the order of their cores, then those of the other classes
    /// that have been started, class by class.
    pub workers: Vec<WorkerMetrics>,
    blocking: BlockingMetrics,
    pub(crate) recorded: Recorded,
}

/// One worker at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerMetrics {
    /// The core of the worker.
    pub core: CoreId,
    /// The class of the tasks that the worker runs.
    pub class: ClassKind,
    /// What the worker was doing.
    pub state: WorkerState,
    /// What the worker has done.
    pub counts: WorkerCounts,
    raw: raw::WorkerCounts,
    current_poll: Option<Duration>,
    long_polls: u64,
}

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        /// What a worker has done since it began. [`WorkerMetrics::raw`] has more.
        ///
        /// ```
        /// let runtime = doorbell::Builder::new().cores(1).build()?;
        /// let before = runtime.metrics();
        /// runtime.block_on(runtime.spawn(doorbell::yield_now()))?;
        /// let done = runtime.metrics().workers[0].counts.since(&before.workers[0].counts);
        /// // The poll that ended the task may not be counted yet.
        /// assert!((1..=2).contains(&done.polls));
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct WorkerCounts {
            $($(#[$doc])* pub $name: u64,)+
        }

        impl WorkerCounts {
            fn of(raw: &raw::WorkerCounts) -> Self {
                WorkerCounts { $($name: raw.$name,)+ }
            }

            /// What was counted since `earlier`.
            #[must_use]
            pub fn since(&self, earlier: &WorkerCounts) -> WorkerCounts {
                WorkerCounts { $($name: self.$name.wrapping_sub(earlier.$name),)+ }
            }
        }
    };
}

counts! {
    /// Polls of tasks.
    polls,
    /// Calls, wakes and tasks that other threads posted to it.
    delivered,
    /// Tasks that it took from other workers.
    stolen,
    /// Timers that fired.
    timers_fired,
    /// Times that its thread went to sleep.
    parks,
    /// Syscalls that other threads made to wake it.
    rings,
    /// Nanoseconds that it spun, waiting for work that did not come.
    spun_vain_ns,
    /// Times that it noticed, while it spun, that the OS had given its CPU to another thread.
    preemptions,
    /// Times that it slept although it had something to do, because
    /// [`Builder::rt_budget`](crate::Builder::rt_budget) was used up.
    throttles,
    /// Nanoseconds of those sleeps.
    throttled_ns,
    /// Closures of [`post_on`](crate::post_on()) that panicked.
    posts_panicked,
}

impl Metrics {
    pub(crate) fn new(blocking: BlockingMetrics) -> Self {
        Metrics {
            workers: Vec::new(),
            blocking,
            recorded: Recorded::default(),
        }
    }

    /// Adds the workers of a class, and their recordings, if there are any.
    pub(crate) fn add<M: Machine>(
        &mut self,
        workers: impl Iterator<Item = WorkerMetrics>,
        telemetry: Option<&Telemetry<M>>,
    ) {
        self.recorded.hook_panics += telemetry.map_or(0, Telemetry::hook_panics);
        for mut worker in workers {
            let (core, class) = (worker.core, worker.class);
            if let Some(times) = telemetry.and_then(|telemetry| telemetry.worker(core.index())) {
                worker.look_at(times);
                self.recorded.times.push(Recording {
                    core,
                    class,
                    polls: times.polls(),
                    waits: times.waits(),
                });
                let long = times.long_polls().into_iter();
                let long = long.map(|poll| LongPoll::new(core, class, poll));
                self.recorded.long.extend(long);
            }
            self.workers.push(worker);
        }
    }

    /// The threads and the queue of [`spawn_blocking`](crate::spawn_blocking()).
    ///
    /// ```
    /// let runtime = doorbell::Builder::new().cores(1).build()?;
    /// assert_eq!(runtime.metrics().blocking().threads, 0);
    /// # Ok::<(), doorbell::BuildError>(())
    /// ```
    pub fn blocking(&self) -> BlockingMetrics {
        self.blocking
    }
}

impl WorkerMetrics {
    pub(crate) fn new(
        core: CoreId,
        class: ClassKind,
        state: WorkerState,
        counts: &raw::WorkerCounts,
    ) -> Self {
        WorkerMetrics {
            core,
            class,
            state,
            counts: WorkerCounts::of(counts),
            raw: *counts,
            current_poll: None,
            long_polls: 0,
        }
    }

    fn look_at<M: Machine>(&mut self, times: &WorkerTimes<M>) {
        self.current_poll = times.current_poll();
        self.long_polls = times.long_count();
    }

    /// All counts of the worker and of the threads that posted to it.
    pub fn raw(&self) -> raw::WorkerCounts {
        self.raw
    }

    /// How long the worker's current poll has lasted. `None` if it polls nothing, or without
    /// [`Builder::poll_times`](crate::Builder::poll_times).
    ///
    /// ```
    /// let runtime = doorbell::Builder::new().cores(1).poll_times(true).build()?;
    /// let age = runtime.block_on(runtime.spawn(async {
    ///     doorbell::Handle::current().metrics().workers[0].current_poll()
    /// }));
    /// assert!(age?.is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn current_poll(&self) -> Option<Duration> {
        self.current_poll
    }

    /// Number of polls of this worker that were long: see [`Builder::long_poll`](crate::Builder::long_poll).
    /// 0 without [`Builder::poll_times`](crate::Builder::poll_times).
    ///
    /// ```
    /// let runtime = doorbell::Builder::new().cores(1).build()?;
    /// assert_eq!(runtime.metrics().workers[0].long_polls(), 0);
    /// # Ok::<(), doorbell::BuildError>(())
    /// ```
    pub fn long_polls(&self) -> u64 {
        self.long_polls
    }
}
