//! How long polls take, and how long tasks wait for them: [`Builder::poll_times`], and where it is
//! read.

use crate::{Builder, ClassKind, CoreId, Metrics, Times};
use std::time::Duration;

/// From when on a poll is long, unless told otherwise.
pub(crate) const LONG_POLL: Duration = Duration::from_micros(500);

/// A poll that was long: see [`Metrics::long_polls`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LongPoll {
    core: CoreId,
    class: ClassKind,
    poll: doorbell_core::worker::LongPoll,
}

impl LongPoll {
    pub(crate) fn new(
        core: CoreId,
        class: ClassKind,
        poll: doorbell_core::worker::LongPoll,
    ) -> Self {
        LongPoll { core, class, poll }
    }

    /// The first 32 bytes of the name of the task, or `unnamed`.
    ///
    /// ```
    /// # fn show(poll: &doorbell::LongPoll) {
    /// println!("{} took {:?} on core {}", poll.name(), poll.duration(), poll.core());
    /// # }
    /// ```
    pub fn name(&self) -> &str {
        self.poll.name()
    }

    /// How long it took; [`LongPoll::name`] has an example.
    pub fn duration(&self) -> Duration {
        self.poll.duration()
    }

    /// On which core; [`LongPoll::name`] has an example.
    pub fn core(&self) -> CoreId {
        self.core
    }

    /// On a worker of which class.
    ///
    /// ```
    /// use doorbell::{ClassKind, LongPoll};
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

/// What the worker of a core and a class has recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Recording {
    pub(crate) core: CoreId,
    pub(crate) class: ClassKind,
    pub(crate) polls: Times,
    pub(crate) waits: Times,
}

/// What a runtime has recorded: with [`Builder::poll_times`] one entry per worker that has begun.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Recorded {
    /// Class by class, core by core.
    pub(crate) times: Vec<Recording>,
    /// In the same order, oldest first.
    pub(crate) long: Vec<LongPoll>,
    pub(crate) hook_panics: u64,
}

impl Recorded {
    /// Those of some workers together; `None` if there are none.
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
    /// Whether the runtime records how long each poll takes, and how long each task waits from its
    /// wake to its poll. Off unless told; then it costs nothing but a branch per poll and per wake.
    /// On, it costs three looks at the clock per poll, and a few words per task: about 100 ns more
    /// for each poll, whether or not it is long (`cargo bench -p doorbell --bench poll_times`: a yield
    /// 42 and 140 ns, a task spawned and joined 196 and 422, medians on a machine of two CPUs).
    ///
    /// ```
    /// let runtime = doorbell::Builder::new().cores(1).poll_times(true).build()?;
    /// runtime.block_on(runtime.spawn(doorbell::yield_now()))?;
    /// let metrics = runtime.metrics();
    /// assert_eq!((metrics.poll_times().count(), metrics.wake_times().count()), (2, 2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn poll_times(mut self, on: bool) -> Self {
        self.telemetry.poll_times = on;
        self
    }

    /// From when on a poll is a long one, that [`Metrics::long_polls`] shows: 500 µs unless told.
    /// Only with [`Builder::poll_times`].
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
    /// How long polls took, on all cores and in all classes. Empty without [`Builder::poll_times`],
    /// which has an example.
    pub fn poll_times(&self) -> Times {
        let all = self.recorded.together(|_| true, |worker| &worker.polls);
        all.unwrap_or_default()
    }

    /// How long polls took on one core, in all classes; `None` if there is no such core, or without
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

    /// How long the polls of one class took, on all cores; `None` if its workers have not begun, or
    /// without [`Builder::poll_times`].
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

    /// How long tasks waited from their wake, or spawn, to their poll, on all cores and in all classes.
    /// A task that is woken while it is polled waits from the end of that poll. Empty without
    /// [`Builder::poll_times`], which has an example.
    pub fn wake_times(&self) -> Times {
        let all = self.recorded.together(|_| true, |worker| &worker.waits);
        all.unwrap_or_default()
    }

    /// The same of the polls of one core; `None` if there is no such core, or without
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

    /// The same of the polls of one class; `None` if its workers have not begun, or without
    /// [`Builder::poll_times`]. [`Metrics::poll_times_of`] has an example.
    pub fn wake_times_of(&self, class: ClassKind) -> Option<Times> {
        let mine = |worker: &Recording| worker.class == class;
        self.recorded.together(mine, |worker| &worker.waits)
    }

    /// The last eight long polls of each worker, class by class, core by core, oldest first. A poll that
    /// still goes on is in [`WorkerMetrics::current_poll`](crate::WorkerMetrics::current_poll) instead.
    /// [`Builder::long_poll`] has an example.
    pub fn long_polls(&self) -> &[LongPoll] {
        &self.recorded.long
    }
}
