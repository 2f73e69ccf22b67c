//! How long polls take, and how long tasks wait for them: [`Builder::poll_times`], and where it is
//! read.

use crate::{Builder, CoreId, Metrics, Times};
use std::time::Duration;

/// From when on a poll is long, unless told otherwise.
pub(crate) const LONG_POLL: Duration = Duration::from_micros(500);

/// A poll that was long: see [`Metrics::long_polls`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LongPoll {
    core: CoreId,
    poll: doorbell_core::lane::LongPoll,
}

impl LongPoll {
    pub(crate) fn new(core: CoreId, poll: doorbell_core::lane::LongPoll) -> Self {
        LongPoll { core, poll }
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
}

/// What a runtime has recorded: with [`Builder::poll_times`] one entry per core, else none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Recorded {
    pub(crate) polls: Vec<Times>,
    pub(crate) waits: Vec<Times>,
    /// Core by core, oldest first.
    pub(crate) long: Vec<LongPoll>,
    pub(crate) hook_panics: u64,
}

fn merged(lanes: &[Times]) -> Times {
    lanes.iter().fold(Times::default(), |mut sum, lane| {
        sum.merge(lane);
        sum
    })
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
        self.watch.poll_times = on;
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
        self.watch.long_poll = from;
        self
    }
}

impl Metrics {
    /// How long polls took, on all cores. Empty without [`Builder::poll_times`], which has an
    /// example.
    pub fn poll_times(&self) -> Times {
        merged(&self.recorded.polls)
    }

    /// How long polls took on one core; `None` if there is no such core, or without
    /// [`Builder::poll_times`].
    ///
    /// ```
    /// let runtime = doorbell::Builder::new().cores(1).poll_times(true).build()?;
    /// assert!(runtime.metrics().poll_times_on(0).is_some_and(|times| times.is_empty()));
    /// assert!(runtime.metrics().poll_times_on(1).is_none());
    /// # Ok::<(), doorbell::BuildError>(())
    /// ```
    pub fn poll_times_on(&self, core: impl Into<CoreId>) -> Option<&Times> {
        self.recorded.polls.get(core.into().index())
    }

    /// How long tasks waited from their wake, or spawn, to their poll, on all cores. A task that is
    /// woken while it is polled waits from the end of that poll. Empty without
    /// [`Builder::poll_times`], which has an example.
    pub fn wake_times(&self) -> Times {
        merged(&self.recorded.waits)
    }

    /// The same of the polls of one core; `None` if there is no such core, or without
    /// [`Builder::poll_times`].
    ///
    /// ```
    /// let runtime = doorbell::Builder::new().cores(1).build()?;
    /// assert_eq!(runtime.metrics().wake_times_on(0), None);
    /// # Ok::<(), doorbell::BuildError>(())
    /// ```
    pub fn wake_times_on(&self, core: impl Into<CoreId>) -> Option<&Times> {
        self.recorded.waits.get(core.into().index())
    }

    /// The last eight long polls of each core, core by core, oldest first. A poll that still goes on
    /// is in [`LaneMetrics::current_poll`](crate::LaneMetrics::current_poll) instead.
    /// [`Builder::long_poll`] has an example.
    pub fn long_polls(&self) -> &[LongPoll] {
        &self.recorded.long
    }
}
