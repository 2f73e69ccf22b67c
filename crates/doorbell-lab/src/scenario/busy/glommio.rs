//! glommio: an executor on a thread for each core, on `io_uring`. Tasks take turns among them.

use std::io;
use std::net::SocketAddr;
use std::sync::OnceLock;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use futures::channel::mpsc::{UnboundedSender, unbounded};
use futures::{AsyncReadExt as _, StreamExt as _};
use glommio::{ExecutorJoinHandle, GlommioError, LocalExecutorBuilder};

use super::super::common::shortest_slack;
use super::jobs::Job;
use super::peers::Peer;
use crate::error::LabError;

const THREAD: &str = "glommio";

/// Executors, each with a task that spawns what it is sent.
#[derive(Debug)]
pub(super) struct Glommio {
    executors: Vec<(UnboundedSender<Job>, ExecutorJoinHandle<()>)>,
    next: usize,
}

impl Glommio {
    /// Whether it can be started: it needs `io_uring`, which the OS may refuse.
    pub(super) fn can_start() -> bool {
        static CAN: OnceLock<bool> = OnceLock::new();
        *CAN.get_or_init(|| Self::start(1).and_then(Self::stop).is_ok())
    }
}

fn refused(error: GlommioError<()>) -> LabError {
    LabError::System {
        what: "starting an executor of glommio",
        source: error.into(),
    }
}

impl Peer for Glommio {
    const NAME: &'static str = "glommio";
    const SPAWNS_FROM_OUTSIDE: bool = false;
    type Stream = glommio::net::TcpStream;

    fn start(workers: usize) -> Result<Self, LabError> {
        let mut executors = Vec::new();
        for _ in 0..workers {
            let (jobs, mut sent) = unbounded::<Job>();
            let (ready, started) = sync_channel(1);
            let run = move || async move {
                shortest_slack();
                // The receiver waits for it.
                let _ = ready.send(());
                while let Some(job) = sent.next().await {
                    glommio::spawn_local(job.run::<Self>()).detach();
                }
            };
            let builder = LocalExecutorBuilder::default().name(THREAD);
            let executor = builder.spawn(run).map_err(refused)?;
            if started.recv().is_err() {
                return match executor.join() {
                    Ok(()) => Err(LabError::ThreadPanicked { thread: THREAD }),
                    Err(error) => Err(refused(error)),
                };
            }
            executors.push((jobs, executor));
        }
        Ok(Self { executors, next: 0 })
    }

    fn launch(&mut self, job: Job) -> Result<(), LabError> {
        let (jobs, _) = &self.executors[self.next % self.executors.len()];
        self.next += 1;
        let ended = |_| LabError::ThreadPanicked { thread: THREAD };
        jobs.unbounded_send(job).map_err(ended)
    }

    async fn sleep(length: Duration) {
        glommio::timer::sleep(length).await;
    }

    async fn yield_now() {
        // Others yield each time, so this does too; `yield_if_needed` does when its preemption timer is over.
        glommio::executor().yield_now().await;
    }

    async fn connect(address: SocketAddr) -> io::Result<Self::Stream> {
        Ok(glommio::net::TcpStream::connect(address).await?)
    }

    async fn read(stream: &mut Self::Stream, bytes: &mut [u8]) -> io::Result<usize> {
        stream.read(bytes).await
    }

    fn stop(self) -> Result<(), LabError> {
        let mut result = Ok(());
        for (jobs, executor) in self.executors {
            drop(jobs);
            result = result.and(executor.join().map_err(refused));
        }
        result
    }
}
