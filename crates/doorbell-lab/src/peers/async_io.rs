//! async-io without an executor: a thread for each worker, which is in `block_on` for the futures of its core.

use std::fmt;
use std::hint::black_box;
use std::sync::Once;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use futures::future::join_all;

use super::{Host, Job, Peer, Role, Team, Timers, Workers, join, thread_on};
use crate::error::LabError;

/// Starts async-io's own thread, which inherits CPUs and timer slack from the thread that uses async-io
/// first. Call it from a thread that is not pinned.
pub(super) fn start_async_io() -> Result<(), LabError> {
    static ONCE: Once = Once::new();
    if ONCE.is_completed() {
        return Ok(());
    }
    let first = thread_on("async-io-first", None, || {
        ONCE.call_once(|| async_io::block_on(async {}));
    })?;
    join(first, "async-io-first")
}

/// What a thread is told.
enum Order {
    Run(Vec<Job>),
    Keep(Job),
}

pub(crate) struct AsyncIo(Team<Order>);

impl fmt::Debug for AsyncIo {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(Self::NAME)
    }
}

impl Host for AsyncIo {
    const NAME: &'static str = "async-io";

    fn start(workers: &Workers) -> Result<Self, LabError> {
        start_async_io()?;
        let mut team = Team::new("async-io-worker");
        for place in 0..workers.count() {
            team.add(workers.cpu(place), || {
                let mut kept = Vec::new();
                move |order| follow(order, &mut kept)
            })?;
        }
        Ok(Self(team))
    }

    fn stop(self) -> Result<(), LabError> {
        self.0.end()
    }
}

impl Peer for AsyncIo {
    fn spawn_as(
        &mut self,
        role: Role,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), LabError> {
        self.spawn_all(role, vec![Box::pin(task)])
    }

    fn spawn_all(&mut self, role: Role, jobs: Vec<Job>) -> Result<(), LabError> {
        self.0.order(role.core.unwrap_or(0), Order::Run(jobs))
    }

    fn keep(&mut self, core: usize, job: Job) -> Result<(), LabError> {
        self.0.order(core, Order::Keep(job))
    }

    async fn sleep_until(due: Instant) {
        async_io::Timer::at(due).await;
    }
}

fn follow(order: Order, kept: &mut Vec<Job>) {
    match order {
        Order::Run(jobs) => drop(async_io::block_on(join_all(jobs))),
        Order::Keep(mut job) => {
            let mut context = Context::from_waker(Waker::noop());
            if job.as_mut().poll(&mut context).is_pending() {
                kept.push(job);
            }
        }
    }
}

impl Timers for AsyncIo {
    type Sleep = async_io::Timer;
    type Ticks = async_io::Timer;

    fn sleep(length: Duration) -> Self::Sleep {
        async_io::Timer::after(length)
    }

    fn ticks(start: Instant, period: Duration, _: Duration) -> Self::Ticks {
        async_io::Timer::interval_at(start, period)
    }

    async fn tick(ticks: &mut Self::Ticks) {
        // The stream is endless.
        ticks.next().await;
    }

    fn read_clock() {
        black_box(Instant::now());
    }
}
