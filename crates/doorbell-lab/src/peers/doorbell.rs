//! doorbell: ordinary tasks are of class Fair, those with a rank of class Rt.

use std::hint::black_box;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::Result;
use doorbell::{Builder, Class, Runtime, metrics::raw::WorkerCounts};

use super::{Host, Net, Peer, Role, Spawns, Task, Timers, Workers};

#[derive(Debug)]
pub(crate) struct Doorbell(pub(crate) Runtime);

impl Doorbell {
    /// With further settings.
    pub(crate) fn with(workers: &Workers, set: impl FnOnce(Builder) -> Builder) -> Result<Self> {
        let builder = match workers {
            Workers::Free(count) => Builder::new().cores(*count).pin(false),
            Workers::Bound(cpus) => Builder::new().core_list(cpus.iter().copied()),
        };
        Ok(Self(set(builder.name("lab")).build()?))
    }

    /// With one setting of a switch, such as `idle_claim=off`; without any, as it starts by itself.
    pub(crate) fn switched(workers: &Workers, setting: &str) -> Result<Self> {
        Self::with(workers, |builder| with_setting(builder, setting))
    }
}

/// The setting is one of the lab's own, so it is known.
pub(crate) fn with_setting(builder: Builder, setting: &str) -> Builder {
    if setting.is_empty() {
        return builder;
    }
    builder.switches(setting.parse().unwrap_or_else(|error| panic!("{error}")))
}

impl Host for Doorbell {
    const NAME: &'static str = "doorbell";

    fn start(workers: &Workers) -> Result<Self> {
        Self::with(workers, |builder| builder)
    }
}

impl Peer for Doorbell {
    fn spawn_as(&mut self, role: Role, task: impl Task) -> Result<()> {
        let mut builder = self.0.task();
        if role.rank > 0 {
            builder = builder.class(Class::rt(role.rank));
        }
        if let Some(core) = role.core.filter(|_| !role.is_movable) {
            builder = builder.on(core);
        }
        drop(builder.spawn(task));
        Ok(())
    }

    async fn sleep_until(due: Instant) {
        doorbell::time::sleep_until(due.into()).await;
    }

    async fn yield_now() {
        doorbell::yield_now().await;
    }

    fn counts(&self) -> Option<[u64; 3]> {
        let workers = self.0.metrics().workers;
        let all =
            |count: fn(&WorkerCounts) -> u64| workers.iter().map(|one| count(&one.raw())).sum();
        Some([
            all(|one| one.rings),
            all(|one| one.stacked),
            all(|one| one.claims_lost),
        ])
    }
}

impl Timers for Doorbell {
    type Sleep = doorbell::time::Sleep;
    type Ticks = doorbell::time::Interval;

    fn sleep(length: Duration) -> Self::Sleep {
        doorbell::time::sleep(length)
    }

    fn ticks(start: Instant, period: Duration, slack: Duration) -> Self::Ticks {
        doorbell::time::interval_at(start.into(), period).slack(slack)
    }

    async fn tick(ticks: &mut Self::Ticks) {
        ticks.tick().await;
    }

    fn read_clock() {
        black_box(doorbell::time::Instant::now());
    }
}

impl Net for Doorbell {
    type Stream = doorbell::net::TcpStream;

    async fn connect(address: SocketAddr) -> io::Result<Self::Stream> {
        doorbell::net::TcpStream::connect(address).await
    }

    async fn read(stream: &mut Self::Stream, bytes: &mut [u8]) -> io::Result<usize> {
        // By its type: with all features it has the traits of others too.
        doorbell::net::TcpStream::read(stream, bytes).await
    }
}

impl Spawns for Doorbell {
    type Join = doorbell::JoinHandle<()>;
    type JoinError = doorbell::JoinError;

    fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.0.block_on(future)
    }

    fn spawn_remote(&self, task: impl Task) -> Self::Join {
        self.0.handle().spawn(task)
    }

    fn spawn_here(task: impl Task) {
        drop(doorbell::spawn(task));
    }

    fn here() -> usize {
        doorbell::current_core().map_or(0, doorbell::CoreId::index)
    }
}
