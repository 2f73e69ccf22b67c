//! glommio: an executor on a thread for each core, on `io_uring`. Tasks take turns among them.

use std::io;
use std::net::SocketAddr;
use std::sync::OnceLock;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use anyhow::{Error, Result, anyhow};
use futures::channel::mpsc::{UnboundedSender, unbounded};
use futures::{AsyncReadExt as _, StreamExt as _};
use glommio::{ExecutorJoinHandle, GlommioError, LocalExecutorBuilder};

use super::{Host, Net, Workers, shortest_slack};
use crate::error::panicked;
use crate::scenario::busy::NetTask;

const THREAD: &str = "glommio";

#[derive(Debug)]
pub(crate) struct Glommio {
    executors: Vec<(UnboundedSender<NetTask>, ExecutorJoinHandle<()>)>,
    next: usize,
}

impl Glommio {
    /// Whether the kernel allows it.
    pub(crate) fn can_start() -> bool {
        static CAN: OnceLock<bool> = OnceLock::new();
        *CAN.get_or_init(|| Self::start(&Workers::Free(1)).and_then(Self::stop).is_ok())
    }
}

fn refused(error: GlommioError<()>) -> Error {
    anyhow!("starting an executor of glommio: {error}")
}

impl Host for Glommio {
    const NAME: &'static str = "glommio";

    fn start(workers: &Workers) -> Result<Self> {
        let mut executors = Vec::new();
        for _ in 0..workers.count() {
            let (tasks, mut sent) = unbounded::<NetTask>();
            let (ready, started) = sync_channel(1);
            let run = move || async move {
                shortest_slack();
                // The receiver waits for it.
                let _ = ready.send(());
                while let Some(task) = sent.next().await {
                    glommio::spawn_local(task.run::<Self>()).detach();
                }
            };
            let builder = LocalExecutorBuilder::default().name(THREAD);
            let executor = builder.spawn(run).map_err(refused)?;
            if started.recv().is_err() {
                return match executor.join() {
                    Ok(()) => Err(panicked(THREAD)),
                    Err(error) => Err(refused(error)),
                };
            }
            executors.push((tasks, executor));
        }
        Ok(Self { executors, next: 0 })
    }

    fn stop(self) -> Result<()> {
        let mut result = Ok(());
        for (tasks, executor) in self.executors {
            drop(tasks);
            result = result.and(executor.join().map_err(refused));
        }
        result
    }
}

impl Net for Glommio {
    const SPAWNS_FROM_OUTSIDE: bool = false;
    type Stream = glommio::net::TcpStream;

    fn launch(&mut self, task: NetTask) -> Result<()> {
        let (tasks, _) = &self.executors[self.next % self.executors.len()];
        self.next += 1;
        let sent = tasks.unbounded_send(task);
        sent.map_err(|_| panicked(THREAD))
    }

    async fn sleep_for(length: Duration) {
        glommio::timer::sleep(length).await;
    }

    async fn yield_here() {
        // Others yield each time, so this does too; `yield_if_needed` does when its preemption timer is over.
        glommio::executor().yield_now().await;
    }

    async fn connect(address: SocketAddr) -> io::Result<Self::Stream> {
        Ok(glommio::net::TcpStream::connect(address).await?)
    }

    async fn read(stream: &mut Self::Stream, bytes: &mut [u8]) -> io::Result<usize> {
        stream.read(bytes).await
    }
}
