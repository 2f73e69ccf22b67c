//! async-io without an executor: a thread for each worker, which is in `block_on` for the futures of its core.

use std::hint::black_box;
use std::sync::{Once, mpsc};
use std::task::{Context, Waker};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use futures::future::join_all;

use super::{Host, Job, Peer, Role, Timers, Workers, join, thread_on};
use crate::error::LabError;

const THREAD: &str = "async-io-worker";

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

#[derive(Debug)]
pub(crate) struct AsyncIo {
    threads: Vec<(mpsc::Sender<Order>, JoinHandle<()>)>,
}

impl AsyncIo {
    fn order(&self, core: usize, order: Order) -> Result<(), LabError> {
        let sent = self.threads[core].0.send(order);
        sent.map_err(|_| LabError::ThreadPanicked { thread: THREAD })
    }
}

impl Host for AsyncIo {
    const NAME: &'static str = "async-io";

    fn start(workers: &Workers) -> Result<Self, LabError> {
        start_async_io()?;
        let start_one = |place| {
            let (orders, inject) = mpsc::channel();
            let thread = thread_on(THREAD, workers.cpu(place), move || follow(&inject))?;
            Ok((orders, thread))
        };
        let threads: Result<Vec<_>, LabError> = (0..workers.count()).map(start_one).collect();
        Ok(Self { threads: threads? })
    }

    fn stop(self) -> Result<(), LabError> {
        for (orders, thread) in self.threads {
            drop(orders);
            join(thread, THREAD)?;
        }
        Ok(())
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
        self.order(role.core.unwrap_or(0), Order::Run(jobs))
    }

    fn keep(&mut self, core: usize, job: Job) -> Result<(), LabError> {
        self.order(core, Order::Keep(job))
    }

    async fn sleep_until(due: Instant) {
        async_io::Timer::at(due).await;
    }
}

fn follow(inject: &mpsc::Receiver<Order>) {
    let mut kept = Vec::new();
    while let Ok(order) = inject.recv() {
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
