//! The shapes: what is spawned from where, and one execution of each.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::channel::oneshot;

use super::busy::{Busy, Work};
use super::countdown::Countdown;
use super::peers::Peer;
use crate::error::LabError;

/// Tasks of the shapes that spawn many.
const MANY: u32 = 10_000;
/// Tasks of the shapes that spawn some.
const SOME: u32 = 1_000;
/// The number of yielding tasks.
const YIELDERS: u32 = 200;
/// How often each of them yields.
const YIELDS: u32 = 1_000;

/// A way to use a runtime's tasks. The shapes are those of tokio's own benchmark of its multi-thread
/// scheduler, `benches/rt_multi_threaded.rs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    SpawnManyLocal,
    SpawnManyRemoteIdle,
    SpawnManyRemoteBusy1,
    SpawnManyRemoteBusy2,
    ChainedSpawn,
    PingPong,
    YieldMany,
}

impl Shape {
    /// In the order of the table.
    pub(super) const ALL: [Self; 7] = [
        Self::SpawnManyLocal,
        Self::SpawnManyRemoteIdle,
        Self::SpawnManyRemoteBusy1,
        Self::SpawnManyRemoteBusy2,
        Self::ChainedSpawn,
        Self::PingPong,
        Self::YieldMany,
    ];

    /// Its name in tokio's benchmark.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::SpawnManyLocal => "spawn_many_local",
            Self::SpawnManyRemoteIdle => "spawn_many_remote_idle",
            Self::SpawnManyRemoteBusy1 => "spawn_many_remote_busy1",
            Self::SpawnManyRemoteBusy2 => "spawn_many_remote_busy2",
            Self::ChainedSpawn => "chained_spawn",
            Self::PingPong => "ping_pong",
            Self::YieldMany => "yield_many",
        }
    }

    /// The operation that its figure is for.
    pub(super) fn operation(self) -> &'static str {
        match self {
            Self::PingPong => "pair",
            Self::YieldMany => "yield",
            _ => "task",
        }
    }

    /// The number of operations in one execution.
    pub(super) fn operations(self) -> u32 {
        match self {
            Self::SpawnManyLocal | Self::SpawnManyRemoteIdle | Self::SpawnManyRemoteBusy1 => MANY,
            Self::SpawnManyRemoteBusy2 | Self::ChainedSpawn | Self::PingPong => SOME,
            Self::YieldMany => YIELDERS * YIELDS,
        }
    }

    /// The executions of a full pass: enough that starting up does not matter.
    pub(super) fn times(self) -> u32 {
        match self {
            Self::SpawnManyLocal | Self::SpawnManyRemoteIdle => 50,
            Self::SpawnManyRemoteBusy1 | Self::YieldMany => 10,
            Self::SpawnManyRemoteBusy2 => 30,
            Self::ChainedSpawn => 500,
            Self::PingPong => 200,
        }
    }

    /// Executes it `times` times. Returns how long that took, without the tasks that keep workers busy
    /// before and after.
    ///
    /// # Errors
    /// [`LabError::TaskLost`] if a task ended without having run.
    pub(super) fn drive<P: Peer>(self, peer: &P, times: u32) -> Result<Duration, LabError> {
        match self {
            Self::SpawnManyLocal => repeat(times, || peer.block_on(many_local::<P>())),
            Self::SpawnManyRemoteIdle => repeat(times, || many_remote(peer, MANY)),
            Self::SpawnManyRemoteBusy1 => beside(peer, Work::Yields, times, MANY),
            Self::SpawnManyRemoteBusy2 => beside(peer, Work::Respawns, times, SOME),
            Self::ChainedSpawn => repeat(times, || peer.block_on(chained::<P>())),
            Self::PingPong => repeat(times, || peer.block_on(ping_pong::<P>())),
            Self::YieldMany => repeat(times, || peer.block_on(yield_many::<P>())),
        }
    }
}

fn repeat(times: u32, once: impl Fn() -> Result<(), LabError>) -> Result<Duration, LabError> {
    let begin = Instant::now();
    for _ in 0..times {
        once()?;
    }
    Ok(begin.elapsed())
}

fn beside<P: Peer>(peer: &P, work: Work, times: u32, count: u32) -> Result<Duration, LabError> {
    let busy = Busy::begin(peer, work);
    let span = repeat(times, || many_remote(peer, count));
    busy.end(peer)?;
    span
}

async fn until(ended: oneshot::Receiver<()>) -> Result<(), LabError> {
    ended.await.map_err(|_| LabError::TaskLost)
}

async fn many_local<P: Peer>() -> Result<(), LabError> {
    let (countdown, ended) = Countdown::of(MANY);
    for _ in 0..MANY {
        let countdown = Arc::clone(&countdown);
        P::spawn(async move { countdown.one_ended() });
    }
    drop(countdown);
    until(ended).await
}

fn many_remote<P: Peer>(peer: &P, count: u32) -> Result<(), LabError> {
    let tasks: Vec<P::Join> = (0..count).map(|_| peer.spawn_remote(async {})).collect();
    peer.block_on(async {
        for task in tasks {
            task.await.map_err(|_| LabError::TaskLost)?;
        }
        Ok(())
    })
}

async fn chained<P: Peer>() -> Result<(), LabError> {
    let (signal, ended) = oneshot::channel();
    P::spawn(link::<P>(SOME, signal));
    until(ended).await
}

/// A task with `left - 1` others behind it.
// The compiler cannot infer `Send` for a future that spawns its own kind.
#[expect(
    clippy::manual_async_fn,
    reason = "an async fn cannot say that it is Send"
)]
fn link<P: Peer>(left: u32, signal: oneshot::Sender<()>) -> impl Future<Output = ()> + Send {
    async move {
        if left > 1 {
            P::spawn(link::<P>(left - 1, signal));
        } else {
            // The receiver is gone only if the waiting thread has panicked.
            let _ = signal.send(());
        }
    }
}

async fn ping_pong<P: Peer>() -> Result<(), LabError> {
    let (countdown, ended) = Countdown::of(SOME);
    P::spawn(async move {
        for _ in 0..SOME {
            P::spawn(ping::<P>(Arc::clone(&countdown)));
        }
    });
    until(ended).await
}

async fn ping<P: Peer>(countdown: Arc<Countdown>) {
    let (there, at_other) = oneshot::channel();
    let (back, answer) = oneshot::channel();
    P::spawn(async move {
        if at_other.await.is_ok() {
            // The receiver is gone only if the other task is being dropped.
            let _ = back.send(());
        }
    });
    // If the other task is gone, there is no answer and the countdown never ends, which is noticed.
    let _ = there.send(());
    if answer.await.is_ok() {
        countdown.one_ended();
    }
}

async fn yield_many<P: Peer>() -> Result<(), LabError> {
    let (countdown, ended) = Countdown::of(YIELDERS);
    for _ in 0..YIELDERS {
        let countdown = Arc::clone(&countdown);
        P::spawn(async move {
            for _ in 0..YIELDS {
                P::yield_now().await;
            }
            countdown.one_ended();
        });
    }
    drop(countdown);
    until(ended).await
}
