//! The runtimes, and what the scenario's tasks need of each.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use futures::AsyncReadExt as _;
use futures::channel::oneshot;
use tokio::io::AsyncReadExt as _;
use tokio::runtime::Handle;

use super::super::common::{join, thread_on, tokio_error};
use super::super::hosts::{Doorbell, Host, Smol, Tokio, Workers};
use super::super::timers::let_others_run;
use super::jobs::Job;
use crate::error::LabError;

const THREAD: &str = "tokio-one-a-core";

/// A runtime. Its futures need not be `Send`, as those of a runtime that keeps tasks on their thread are not.
pub(super) trait Peer: Sized + fmt::Debug + Send + 'static {
    /// Its name.
    const NAME: &'static str;
    /// Whether a thread outside of it can spawn a task.
    const SPAWNS_FROM_OUTSIDE: bool = true;
    /// Its socket.
    type Stream;

    /// Starts it with this many workers, which run where the OS puts them.
    fn start(workers: usize) -> Result<Self, LabError>;

    /// Spawns the task of a job, from a thread outside.
    fn launch(&mut self, job: Job) -> Result<(), LabError>;

    /// Sleeps.
    fn sleep(length: Duration) -> impl Future<Output = ()>;

    /// Ends the current poll. The task can run again at once.
    fn yield_now() -> impl Future<Output = ()>;

    /// Connects.
    fn connect(address: SocketAddr) -> impl Future<Output = io::Result<Self::Stream>>;

    /// Reads what there is, at least one byte; 0 at the end.
    fn read(stream: &mut Self::Stream, bytes: &mut [u8])
    -> impl Future<Output = io::Result<usize>>;

    /// Ends it. No task is left.
    fn stop(self) -> Result<(), LabError>;
}

impl Peer for Doorbell {
    const NAME: &'static str = <Self as Host>::NAME;
    type Stream = doorbell::net::TcpStream;

    fn start(workers: usize) -> Result<Self, LabError> {
        Host::start(Workers::Free(workers))
    }

    fn launch(&mut self, job: Job) -> Result<(), LabError> {
        self.spawn(job.run::<Self>())
    }

    async fn sleep(length: Duration) {
        doorbell::time::sleep(length).await;
    }

    async fn yield_now() {
        doorbell::yield_now().await;
    }

    async fn connect(address: SocketAddr) -> io::Result<Self::Stream> {
        doorbell::net::TcpStream::connect(address).await
    }

    async fn read(stream: &mut Self::Stream, bytes: &mut [u8]) -> io::Result<usize> {
        // By its type: with all features it has the traits of others too.
        doorbell::net::TcpStream::read(stream, bytes).await
    }

    fn stop(self) -> Result<(), LabError> {
        Host::stop(self)
    }
}

impl Peer for Tokio {
    const NAME: &'static str = <Self as Host>::NAME;
    type Stream = tokio::net::TcpStream;

    fn start(workers: usize) -> Result<Self, LabError> {
        Host::start(Workers::Free(workers))
    }

    fn launch(&mut self, job: Job) -> Result<(), LabError> {
        self.spawn(job.run::<Self>())
    }

    async fn sleep(length: Duration) {
        tokio::time::sleep(length).await;
    }

    async fn yield_now() {
        tokio::task::yield_now().await;
    }

    async fn connect(address: SocketAddr) -> io::Result<Self::Stream> {
        tokio::net::TcpStream::connect(address).await
    }

    async fn read(stream: &mut Self::Stream, bytes: &mut [u8]) -> io::Result<usize> {
        stream.read(bytes).await
    }

    fn stop(self) -> Result<(), LabError> {
        Host::stop(self)
    }
}

/// tokio's current-thread runtime, one on a thread for each core. Tasks take turns among them.
#[derive(Debug)]
pub(super) struct Tokios {
    threads: Vec<(Handle, oneshot::Sender<()>, JoinHandle<()>)>,
    next: usize,
}

impl Peer for Tokios {
    const NAME: &'static str = "tokio, one a core";
    type Stream = tokio::net::TcpStream;

    fn start(workers: usize) -> Result<Self, LabError> {
        let mut threads = Vec::new();
        for _ in 0..workers {
            let built = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            let runtime = built.map_err(tokio_error)?;
            let handle = runtime.handle().clone();
            let (stop, stopped) = oneshot::channel::<()>();
            let run = move || {
                // Ends when the sender is dropped.
                let _ = runtime.block_on(stopped);
            };
            threads.push((handle, stop, thread_on(THREAD, None, run)?));
        }
        Ok(Self { threads, next: 0 })
    }

    fn launch(&mut self, job: Job) -> Result<(), LabError> {
        let (handle, ..) = &self.threads[self.next % self.threads.len()];
        drop(handle.spawn(job.run::<Self>()));
        self.next += 1;
        Ok(())
    }

    async fn sleep(length: Duration) {
        <Tokio as Peer>::sleep(length).await;
    }

    async fn yield_now() {
        Tokio::yield_now().await;
    }

    async fn connect(address: SocketAddr) -> io::Result<Self::Stream> {
        Tokio::connect(address).await
    }

    async fn read(stream: &mut Self::Stream, bytes: &mut [u8]) -> io::Result<usize> {
        Tokio::read(stream, bytes).await
    }

    fn stop(self) -> Result<(), LabError> {
        let mut result = Ok(());
        for (_, stop, thread) in self.threads {
            drop(stop);
            result = result.and(join(thread, THREAD));
        }
        result
    }
}

impl Peer for Smol {
    const NAME: &'static str = <Self as Host>::NAME;
    type Stream = async_io::Async<TcpStream>;

    fn start(workers: usize) -> Result<Self, LabError> {
        Host::start(Workers::Free(workers))
    }

    fn launch(&mut self, job: Job) -> Result<(), LabError> {
        self.spawn(job.run::<Self>())
    }

    async fn sleep(length: Duration) {
        async_io::Timer::at(Instant::now() + length).await;
    }

    async fn yield_now() {
        // As futures-lite does, which smol exports.
        let_others_run().await;
    }

    async fn connect(address: SocketAddr) -> io::Result<Self::Stream> {
        async_io::Async::<TcpStream>::connect(address).await
    }

    async fn read(stream: &mut Self::Stream, bytes: &mut [u8]) -> io::Result<usize> {
        stream.read(bytes).await
    }

    fn stop(self) -> Result<(), LabError> {
        Host::stop(self)
    }
}
