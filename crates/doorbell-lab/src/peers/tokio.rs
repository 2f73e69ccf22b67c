//! tokio: its multi-thread runtime with all its drivers, and a current-thread runtime for each core.

use std::hint::black_box;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use tokio::io::AsyncReadExt as _;
use tokio::runtime::{Builder, Handle, Runtime};

use super::{Host, Loops, Net, Peer, Role, Spawns, Stopped, Task, Timers, Workers, shortest_slack};
use crate::measure::Pin;

/// It knows neither ranks nor cores.
#[derive(Debug)]
pub(crate) struct Tokio(pub(crate) Runtime);

const BUILDING: &str = "building a tokio runtime";

/// A runtime of one thread, which has to run it.
pub(crate) fn current_thread() -> Result<Runtime> {
    let built = Builder::new_current_thread().enable_all().build();
    built.context(BUILDING)
}

impl Tokio {
    /// With further settings. Its threads have the timer slack of doorbell's workers, and its blocking threads take
    /// turns on the CPUs.
    pub(crate) fn with(workers: &Workers, set: impl FnOnce(&mut Builder)) -> Result<Self> {
        let (workers, next) = (workers.clone(), AtomicUsize::new(0));
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(workers.count()).enable_all();
        builder.on_thread_start(move || {
            // ORDER: Relaxed; a number for each thread, which publishes nothing.
            let place = next.fetch_add(1, Ordering::Relaxed);
            if let Some(cpu) = workers.cpu(place) {
                // Pinning works if the process may use the CPU; else the worker runs anywhere. The former mask
                // is not restored, as the thread belongs to the runtime.
                std::mem::forget(Pin::to(cpu));
            }
            shortest_slack();
        });
        set(&mut builder);
        builder.build().map(Self).context(BUILDING)
    }
}

impl Host for Tokio {
    const NAME: &'static str = "tokio";

    fn start(workers: &Workers) -> Result<Self> {
        Self::with(workers, |_| ())
    }
}

impl Peer for Tokio {
    fn spawn_as(&mut self, _: Role, task: impl Task) -> Result<()> {
        drop(self.0.spawn(task));
        Ok(())
    }

    async fn sleep_until(due: Instant) {
        tokio::time::sleep_until(due.into()).await;
    }

    async fn yield_now() {
        tokio::task::yield_now().await;
    }
}

impl Timers for Tokio {
    type Sleep = tokio::time::Sleep;
    type Ticks = tokio::time::Interval;

    fn sleep(length: Duration) -> Self::Sleep {
        tokio::time::sleep(length)
    }

    fn ticks(start: Instant, period: Duration, _: Duration) -> Self::Ticks {
        tokio::time::interval_at(start.into(), period)
    }

    async fn tick(ticks: &mut Self::Ticks) {
        ticks.tick().await;
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

impl Net for Tokio {
    type Stream = tokio::net::TcpStream;

    async fn connect(address: SocketAddr) -> io::Result<Self::Stream> {
        tokio::net::TcpStream::connect(address).await
    }

    async fn read(stream: &mut Self::Stream, bytes: &mut [u8]) -> io::Result<usize> {
        stream.read(bytes).await
    }
}

impl Spawns for Tokio {
    type Join = tokio::task::JoinHandle<()>;
    type JoinError = tokio::task::JoinError;

    fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.0.block_on(future)
    }

    fn spawn_remote(&self, task: impl Task) -> Self::Join {
        self.0.handle().spawn(task)
    }

    fn spawn_here(task: impl Task) {
        drop(tokio::spawn(task));
    }

    fn here() -> usize {
        0
    }
}

/// A current-thread runtime for each core, among which the tasks are distributed in turn.
#[derive(Debug)]
pub(crate) struct Tokios {
    handles: Vec<Handle>,
    threads: Loops,
    next: usize,
}

impl Host for Tokios {
    const NAME: &'static str = "tokio, one a core";

    fn start(workers: &Workers) -> Result<Self> {
        let mut handles = Vec::new();
        let threads = Loops::start("tokio-one-a-core", workers, || {
            let runtime = current_thread()?;
            handles.push(runtime.handle().clone());
            Ok(move |stopped: Stopped| {
                // Ends when the sender is dropped.
                let _ = runtime.block_on(stopped);
            })
        })?;
        Ok(Self {
            handles,
            threads,
            next: 0,
        })
    }

    fn stop(self) -> Result<()> {
        self.threads.stop()
    }
}

impl Peer for Tokios {
    fn spawn_as(&mut self, _: Role, task: impl Task) -> Result<()> {
        drop(self.handles[self.next % self.handles.len()].spawn(task));
        self.next += 1;
        Ok(())
    }

    async fn sleep_until(due: Instant) {
        Tokio::sleep_until(due).await;
    }

    async fn yield_now() {
        Tokio::yield_now().await;
    }
}

impl Net for Tokios {
    type Stream = tokio::net::TcpStream;

    async fn connect(address: SocketAddr) -> io::Result<Self::Stream> {
        Tokio::connect(address).await
    }

    async fn read(stream: &mut Self::Stream, bytes: &mut [u8]) -> io::Result<usize> {
        Tokio::read(stream, bytes).await
    }
}
