//! [`Builder::poll_times`]: how long polls take and how long tasks wait for them, and the methods that read
//! it.

use crate::{
    Builder, ClassKind, CoreId,
    metrics::{Metrics, Times},
};
use std::time::Duration;

/// Default: a poll that takes longer than this is long.
pub(crate) const LONG_POLL: Duration = Duration::from_micros(500);

/// A poll that was long: see [`Metrics::long_polls`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LongPoll {
    core: CoreId,
    class: ClassKind,
    poll: doorbell_core::scheduler::telemetry::LongPoll,
}

impl LongPoll {
    pub(crate) fn new(
        core: CoreId,
        class: ClassKind,
        poll: doorbell_core::scheduler::telemetry::LongPoll,
    ) -> Self {
        LongPoll { core, class, poll }
    }

    /// The first 32 bytes of the name of the task, or `unnamed`.
    ///
    /// ```
    /// # fn show(poll: &doorbell::metrics::LongPoll) {
    /// println!("{} took {:?} on core {}", poll.name(), poll.duration(), poll.core());
    /// # }
    /// ```
    pub fn name(&self) -> &str {
        self.poll.name()
    }

    /// How long the poll took. [`LongPoll::name`] has an example.
    pub fn duration(&self) -> Duration {
        self.poll.duration()
    }

    /// The core of the worker. [`LongPoll::name`] has an example.
    pub fn core(&self) -> CoreId {
        self.core
    }

    /// The class of the worker.
    ///
    /// ```
    /// use doorbell::{ClassKind, metrics::LongPoll};
    ///
    /// fn delays_others(poll: &LongPoll) -> bool {
    ///     poll.class() != ClassKind::Batch
    /// }
    /// # let _ = delays_others;
    /// ```
    pub fn class(&self) -> ClassKind {
        self.class
    }
}

/// The recordings of one worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Recording {
    pub(crate) core: CoreId,
    pub(crate) class: ClassKind,
    pub(crate) polls: Times,
    pub(crate) waits: Times,
}

/// The recordings of a runtime. With [`Builder::poll_times`] there is one entry per worker that has been
/// started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Recorded {
    /// Class by class, core by core.
    pub(crate) times: Vec<Recording>,
    /// In the same order, oldest first.
    pub(crate) long: Vec<LongPoll>,
    pub(crate) hook_panics: u64,
}

impl Recorded {
    /// The sum of the times of some workers; `None` if there are no such workers.
    fn together(
        &self,
        which: impl Fn(&Recording) -> bool,
        times: impl Fn(&Recording) -> &Times,
    ) -> Option<Times> {
        let workers = self.times.iter().filter(|worker| which(worker));
        workers.fold(None, |sum: Option<Times>, worker| {
            let mut sum = sum.unwrap_or_default();
            sum.merge(times(worker));
            Some(sum)
        })
    }
}

impl Builder {
    /// Sets whether the runtime records how long each poll takes, and how long each task waits from its wake
    /// to its poll. The default is off, which costs one branch per poll and per wake.
    ///
    /// On, it costs three readings of the clock per poll, about 100 ns, and a few words per task. Measured by
    /// `cargo bench -p doorbell --bench poll_times` on a machine of two CPUs, medians, off and on: 42 and 140
    /// ns for a yield, 196 and 422 ns for a task that is spawned and joined.
    ///
    /// ```
    /// let runtime = doorbell::Builder::new().cores(1).poll_times(true).build()?;
    /// runtime.block_on(runtime.spawn(doorbell::yield_now()))?;
    /// let metrics = runtime.metrics();
    /// assert_eq!((metrics.poll_times().count(), metrics.wake_times().count()), (2, 2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "enable_metrics_poll_time_histogram")]
    #[must_use]
    pub fn poll_times(mut self, on: bool) -> Self {
        self.telemetry.poll_times = on;
        self
    }

    /// Sets the duration above which a poll is long, and shown by [`Metrics::long_polls`]. The default is
    /// 500 µs. Without [`Builder::poll_times`] this has no effect.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let runtime = doorbell::Builder::new()
    ///     .cores(1)
    ///     .poll_times(true)
    ///     .long_poll(Duration::from_millis(1))
    ///     .build()?;
    /// let task = runtime.task().name("hog").spawn(async {
    ///     let begin = doorbell::time::Instant::now();
    ///     while begin.elapsed() < Duration::from_millis(2) {}
    /// });
    /// runtime.block_on(task)?;
    /// let metrics = runtime.metrics();
    /// let long = &metrics.long_polls()[0];
    /// assert_eq!((long.name(), long.core().index()), ("hog", 0));
    /// assert!(long.duration() >= Duration::from_millis(2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn long_poll(mut self, from: Duration) -> Self {
        self.telemetry.long_poll = from;
        self
    }
}

impl Metrics {
    /// How long polls took, on all cores and in all classes. Empty without [`Builder::poll_times`], which has
    /// an example.
    pub fn poll_times(&self) -> Times {
        let all = self.recorded.together(|_| true, |worker| &worker.polls);
        all.unwrap_or_default()
    }

    /// How long polls took on one core, in all classes. `None` if there is no such core, or without
    /// [`Builder::poll_times`].
    ///
    /// ```
    /// let runtime = doorbell::Builder::new().cores(1).poll_times(true).build()?;
    /// assert!(runtime.metrics().poll_times_on(0).is_some_and(|times| times.is_empty()));
    /// assert!(runtime.metrics().poll_times_on(1).is_none());
    /// # Ok::<(), doorbell::BuildError>(())
    /// ```
    pub fn poll_times_on(&self, core: impl Into<CoreId>) -> Option<Times> {
        let core = core.into();
        let mine = |worker: &Recording| worker.core == core;
        self.recorded.together(mine, |worker| &worker.polls)
    }

    /// How long polls took on the workers of one class, on all cores. `None` if these workers have not been
    /// started, or without [`Builder::poll_times`].
    ///
    /// ```
    /// use doorbell::{Class, ClassKind};
    ///
    /// let runtime = doorbell::Builder::new().cores(1).poll_times(true).build()?;
    /// runtime.block_on(runtime.task().class(Class::rt(50)).spawn(async {}))?;
    /// let metrics = runtime.metrics();
    /// assert_eq!(metrics.poll_times_of(ClassKind::Rt).unwrap().count(), 1);
    /// assert_eq!(metrics.wake_times_of(ClassKind::Fair).unwrap().count(), 0);
    /// assert!(metrics.poll_times_of(ClassKind::Batch).is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn poll_times_of(&self, class: ClassKind) -> Option<Times> {
        let mine = |worker: &Recording| worker.class == class;
        self.recorded.together(mine, |worker| &worker.polls)
    }

    /// How long tasks waited from their wake or spawn to their poll, on all cores and in all classes. The
    /// wait of a task that is woken during its own poll begins at the end of that poll. Empty without
    /// [`Builder::poll_times`], which has an example.
    pub fn wake_times(&self) -> Times {
        let all = self.recorded.together(|_| true, |worker| &worker.waits);
        all.unwrap_or_default()
    }

    /// As [`Metrics::wake_times`], for polls on one core. `None` if there is no such core, or without
    /// [`Builder::poll_times`].
    ///
    /// ```
    /// let runtime = doorbell::Builder::new().cores(1).build()?;
    /// assert_eq!(runtime.metrics().wake_times_on(0), None);
    /// # Ok::<(), doorbell::BuildError>(())
    /// ```
    pub fn wake_times_on(&self, core: impl Into<CoreId>) -> Option<Times> {
        let core = core.into();
        let mine = |worker: &Recording| worker.core == core;
        self.recorded.together(mine, |worker| &worker.waits)
    }

    /// As [`Metrics::wake_times`], for polls on the workers of one class. `None` if these workers have not
    /// been started, or without [`Builder::poll_times`]. [`Metrics::poll_times_of`] has an example.
    pub fn wake_times_of(&self, class: ClassKind) -> Option<Times> {
        let mine = |worker: &Recording| worker.class == class;
        self.recorded.together(mine, |worker| &worker.waits)
    }

    /// The last eight long polls of each worker, class by class, core by core, oldest first. A poll that
    /// still goes on is shown by [`WorkerMetrics::current_poll`](crate::metrics::WorkerMetrics::current_poll) instead.
    /// [`Builder::long_poll`] has an example.
    pub fn long_polls(&self) -> &[LongPoll] {
        &self.recorded.long
    }
}
