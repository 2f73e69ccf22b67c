//! The ways to sleep.

use std::hint::black_box;
use std::time::{Duration, Instant};

use doorbell::TimerPull;
use futures::StreamExt as _;

use super::{AsyncIoThreads, DoorbellWorkers, Host as _, Job, Ticks, Timers, TokioWorkers};
use crate::error::LabError;

/// Doorbell's timers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Doorbell {
    /// How much later periodic ticks may come.
    pub(crate) slack: Duration,
    /// Whether each task stays on the core that it is given.
    pub(crate) is_pinned: bool,
    /// The setting of that switch, if it is compared: else the runtime has its own.
    pub(crate) timer_pull: Option<TimerPull>,
}

impl Timers for Doorbell {
    type Host = DoorbellWorkers;
    type Sleep = doorbell::time::Sleep;
    type Ticks = doorbell::time::Interval;

    const NAME: &'static str = "doorbell";

    fn sleep(&self, duration: Duration) -> Self::Sleep {
        doorbell::time::sleep(duration)
    }

    fn ticks(&self, start: Instant, period: Duration) -> Self::Ticks {
        doorbell::time::interval_at(start.into(), period).slack(self.slack)
    }

    fn prepare(&self, host: &Self::Host) {
        if let Some(timer_pull) = self.timer_pull {
            host.turn(timer_pull);
        }
    }

    fn run(&self, host: &Self::Host, core: usize, jobs: Vec<Job>) -> Result<(), LabError> {
        if self.is_pinned {
            host.run_on(core, jobs)
        } else {
            host.run(core, jobs)
        }
    }

    fn read_clock() {
        black_box(doorbell::time::Instant::now());
    }
}

impl Ticks for doorbell::time::Interval {
    async fn tick(&mut self) {
        Self::tick(self).await;
    }
}

/// tokio's timers.
#[derive(Debug, Clone)]
pub(crate) struct Tokio;

impl Timers for Tokio {
    type Host = TokioWorkers;
    type Sleep = tokio::time::Sleep;
    type Ticks = tokio::time::Interval;

    const NAME: &'static str = "tokio";

    fn sleep(&self, duration: Duration) -> Self::Sleep {
        tokio::time::sleep(duration)
    }

    fn ticks(&self, start: Instant, period: Duration) -> Self::Ticks {
        tokio::time::interval_at(start.into(), period)
    }

    fn read_clock() {
        black_box(tokio::time::Instant::now());
    }

    // A tokio task has a budget of 128 operations per poll. Beyond that a sleep is pending but not armed.
    fn unbudgeted<F: Future<Output: Send> + Send>(
        future: F,
    ) -> impl Future<Output = F::Output> + Send {
        tokio::task::unconstrained(future)
    }
}

impl Ticks for tokio::time::Interval {
    async fn tick(&mut self) {
        Self::tick(self).await;
    }
}

/// async-io's timers, which smol uses too.
#[derive(Debug, Clone)]
pub(crate) struct AsyncIo;

impl Timers for AsyncIo {
    type Host = AsyncIoThreads;
    type Sleep = async_io::Timer;
    type Ticks = async_io::Timer;

    const NAME: &'static str = "async-io";

    fn sleep(&self, duration: Duration) -> Self::Sleep {
        async_io::Timer::after(duration)
    }

    fn ticks(&self, start: Instant, period: Duration) -> Self::Ticks {
        async_io::Timer::interval_at(start, period)
    }

    fn read_clock() {
        black_box(Instant::now());
    }
}

impl Ticks for async_io::Timer {
    async fn tick(&mut self) {
        // The stream is endless.
        self.next().await;
    }
}
