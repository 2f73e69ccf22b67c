//! smol's executor on as many threads, and its timers.

use std::hint::black_box;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Once};
use std::time::{Duration, Instant};

use anyhow::Result;
use async_executor::Executor;
use futures::{AsyncReadExt as _, StreamExt as _};

use super::{Host, Loops, Net, Peer, Role, Stopped, Task, Timers, Workers, join, thread_on};

/// Starts async-io's own thread, which inherits CPUs and timer slack from the thread that uses async-io
/// first. Call it from a thread that is not pinned.
pub(super) fn start_async_io() -> Result<()> {
    static ONCE: Once = Once::new();
    if ONCE.is_completed() {
        return Ok(());
    }
    let first = thread_on("async-io-first", None, || {
        ONCE.call_once(|| async_io::block_on(async {}));
    })?;
    join(first)
}

#[derive(Debug)]
pub(crate) struct Smol {
    executor: Arc<Executor<'static>>,
    threads: Loops,
}

impl Host for Smol {
    const NAME: &'static str = "smol";

    fn start(workers: &Workers) -> Result<Self> {
        start_async_io()?;
        let executor = Arc::new(Executor::new());
        let threads = Loops::start("smol-worker", workers, || {
            let executor = Arc::clone(&executor);
            Ok(move |stopped: Stopped| {
                // Ends when the sender is dropped.
                let _ = async_io::block_on(executor.run(stopped));
            })
        })?;
        Ok(Self { executor, threads })
    }

    fn stop(self) -> Result<()> {
        self.threads.stop()
    }
}

impl Peer for Smol {
    fn spawn_as(&mut self, _: Role, task: impl Task) -> Result<()> {
        self.executor.spawn(task).detach();
        Ok(())
    }

    async fn sleep_until(due: Instant) {
        async_io::Timer::at(due).await;
    }
}

impl Timers for Smol {
    type Sleep = async_io::Timer;
    type Ticks = async_io::Timer;

    fn sleep(length: Duration) -> Self::Sleep {
        async_io::Timer::after(length)
    }

    fn ticks(start: Instant, period: Duration, _: Duration) -> Self::Ticks {
        async_io::Timer::interval_at(start, period)
    }

    async fn tick(ticks: &mut Self::Ticks) {
        ticks.next().await;
    }

    fn read_clock() {
        black_box(Instant::now());
    }
}

impl Net for Smol {
    type Stream = async_io::Async<TcpStream>;

    async fn connect(address: SocketAddr) -> io::Result<Self::Stream> {
        async_io::Async::<TcpStream>::connect(address).await
    }

    async fn read(stream: &mut Self::Stream, bytes: &mut [u8]) -> io::Result<usize> {
        stream.read(bytes).await
    }
}
