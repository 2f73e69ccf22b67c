//! The peers: runtimes, and what takes their place, one file each.

mod doorbell;
mod smol;
mod threads;
mod tokio;

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use anyhow::Result;

pub(crate) use self::doorbell::{Doorbell, with_setting};
pub(crate) use self::smol::Smol;
pub(crate) use self::threads::{
    IdlePool, Loops, Orders, Stopped, Team, Threads, Want, give_up_privileges, in_idle_pool, join,
    join_all, refused, shortest_slack, sleep_until, thread_on,
};
pub(crate) use self::tokio::{Tokio, Tokios, current_thread};

/// What a peer can spawn.
pub(crate) trait Task: Future<Output = ()> + Send + 'static {}
impl<F: Future<Output = ()> + Send + 'static> Task for F {}

/// A task in a box.
pub(crate) type Job = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The worker threads of a runtime. Worker or core number n is the nth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Workers {
    /// This many, which run where the OS puts them.
    Free(usize),
    /// One bound to each of these CPUs.
    Bound(Vec<usize>),
}

impl Workers {
    /// One bound to each of these CPUs.
    pub(crate) fn on(cpus: impl Into<Vec<usize>>) -> Self {
        Self::Bound(cpus.into())
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        match self {
            Workers::Free(count) => *count,
            Workers::Bound(cpus) => cpus.len(),
        }
    }

    /// The CPU to which thread number `place` is bound. Threads beyond the number of workers take turns.
    pub(crate) fn cpu(&self, place: usize) -> Option<usize> {
        match self {
            Workers::Free(_) => None,
            Workers::Bound(cpus) => Some(cpus[place % cpus.len()]),
        }
    }
}

/// How urgent a task is, and where it runs. A peer without ranks or without named cores ignores them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Role {
    /// 1 to 99, the most urgent; 0 for an ordinary task.
    pub(crate) rank: u8,
    /// The core on which it begins.
    pub(crate) core: Option<usize>,
    /// A runtime that can move it may do so.
    pub(crate) is_movable: bool,
}

impl Role {
    /// A task of this rank that may run on every core.
    pub(crate) const fn of_rank(rank: u8) -> Self {
        Self {
            rank,
            core: None,
            is_movable: true,
        }
    }

    /// The same of this rank.
    pub(crate) const fn ranked(self, rank: u8) -> Self {
        Self { rank, ..self }
    }

    /// An ordinary task that stays on a core.
    pub(crate) const fn on(core: usize) -> Self {
        Self {
            rank: 0,
            core: Some(core),
            is_movable: false,
        }
    }

    /// An ordinary task that begins on a core, if the peer distributes nothing by itself.
    pub(crate) const fn from(core: usize) -> Self {
        Self {
            is_movable: true,
            ..Self::on(core)
        }
    }
}

/// A runtime, or what takes its place.
pub(crate) trait Host: Sized + fmt::Debug + Send + 'static {
    /// Its name.
    const NAME: &'static str;

    fn start(workers: &Workers) -> Result<Self>;

    /// Ends it. No task is left.
    fn stop(self) -> Result<()> {
        Ok(())
    }
}

/// A peer that is given tasks from outside.
pub(crate) trait Peer: Host {
    /// Spawns a task from outside.
    fn spawn_as(&mut self, role: Role, task: impl Task) -> Result<()>;

    fn spawn(&mut self, task: impl Task) -> Result<()> {
        self.spawn_as(Role::default(), task)
    }

    /// Sleeps as its tasks do.
    fn sleep_until(due: Instant) -> impl Future<Output = ()> + Send;

    /// Ends the current poll. The task can run again at once.
    fn yield_now() -> impl Future<Output = ()> + Send {
        // As futures-lite does, which smol exports.
        let_others_run()
    }

    /// The rings, stacked wakes and lost claims so far; `None` where they are not counted.
    fn counts(&self) -> Option<[u64; 3]> {
        None
    }
}

/// A peer with timers of its own.
pub(crate) trait Timers: Peer {
    type Sleep: Future<Output: Send> + Send;
    type Ticks: Send + 'static;

    fn sleep(length: Duration) -> Self::Sleep;

    /// A periodic timer. A peer without slack has none.
    fn ticks(start: Instant, period: Duration, slack: Duration) -> Self::Ticks;

    fn tick(ticks: &mut Self::Ticks) -> impl Future<Output = ()> + Send;

    /// Reads the clock that its sleeps read.
    fn read_clock();

    /// Without a budget of polls, if the peer has one.
    fn unbudgeted<F: Future<Output: Send> + Send>(
        future: F,
    ) -> impl Future<Output = F::Output> + Send {
        future
    }
}

/// A peer with sockets.
pub(crate) trait Net: Peer {
    type Stream: Send;

    fn connect(address: SocketAddr) -> impl Future<Output = io::Result<Self::Stream>> + Send;

    fn read(
        stream: &mut Self::Stream,
        bytes: &mut [u8],
    ) -> impl Future<Output = io::Result<usize>> + Send;
}

/// A peer whose tasks spawn tasks.
pub(crate) trait Spawns: Peer {
    type Join: Future<Output = Result<(), Self::JoinError>>;
    type JoinError;

    fn block_on<F: Future>(&self, future: F) -> F::Output;

    fn spawn_remote(&self, task: impl Task) -> Self::Join;

    /// Spawns a task from one of its tasks.
    fn spawn_here(task: impl Task);

    /// The core on which the calling task runs; 0 if that is not known.
    fn here() -> usize;
}

/// Is pending once.
pub(crate) async fn let_others_run() {
    let mut waited = false;
    poll_fn(|cx| {
        if waited {
            return Poll::Ready(());
        }
        waited = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests;
