//! smol's executor on as many threads, and its timers.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use async_executor::Executor;
use futures::AsyncReadExt as _;
use futures::channel::oneshot;

use super::async_io::start_async_io;
use super::{Host, Net, Peer, Role, Workers, join, thread_on};
use crate::error::LabError;
use crate::scenario::busy::NetTask;

const THREAD: &str = "smol-worker";

#[derive(Debug)]
pub(crate) struct Smol {
    executor: Arc<Executor<'static>>,
    threads: Vec<(oneshot::Sender<()>, JoinHandle<()>)>,
}

impl Host for Smol {
    const NAME: &'static str = "smol";

    fn start(workers: &Workers) -> Result<Self, LabError> {
        start_async_io()?;
        let executor = Arc::new(Executor::new());
        let mut threads = Vec::new();
        for place in 0..workers.count() {
            let (stop, stopped) = oneshot::channel::<()>();
            let executor = Arc::clone(&executor);
            let run = move || {
                // Ends when the sender is dropped.
                let _ = async_io::block_on(executor.run(stopped));
            };
            threads.push((stop, thread_on(THREAD, workers.cpu(place), run)?));
        }
        Ok(Self { executor, threads })
    }

    fn stop(self) -> Result<(), LabError> {
        let mut result = Ok(());
        for (stop, thread) in self.threads {
            drop(stop);
            result = result.and(join(thread, THREAD));
        }
        result
    }
}

impl Peer for Smol {
    fn spawn_as(
        &mut self,
        _: Role,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), LabError> {
        self.executor.spawn(task).detach();
        Ok(())
    }

    async fn sleep_until(due: Instant) {
        async_io::Timer::at(due).await;
    }
}

impl Net for Smol {
    type Stream = async_io::Async<TcpStream>;

    fn launch(&mut self, task: NetTask) -> Result<(), LabError> {
        self.spawn(task.run::<Self>())
    }

    async fn sleep_for(length: Duration) {
        async_io::Timer::after(length).await;
    }

    async fn connect(address: SocketAddr) -> io::Result<Self::Stream> {
        async_io::Async::<TcpStream>::connect(address).await
    }

    async fn read(stream: &mut Self::Stream, bytes: &mut [u8]) -> io::Result<usize> {
        stream.read(bytes).await
    }
}
