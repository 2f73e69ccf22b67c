//! `doorbell lab spawn`: tasks that are spawned, chained and woken, and that yield, beside tokio.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use futures::channel::oneshot;

use crate::error::TASK_LOST;
use crate::frame::{Contestant, Outcome, Plan, Work};
use crate::peers::{Doorbell, Spawns, Tokio, Workers};
use crate::tools::{End, locked};

const PERCENT: [u32; 2] = [100, 10];
const WORKERS: usize = 2;
const MANY: u32 = 10_000;
const SOME: u32 = 1_000;
const YIELDERS: u32 = 200;
const YIELDS: u32 = 1_000;
/// How long a busy task keeps its worker, and how many there are.
const STALL: Duration = Duration::from_micros(10);
const BUSY: u32 = 2 * WORKERS as u32;

pub(super) const PLAN: Plan = Plan {
    scenario: "spawn",
    work: |options| {
        let amount = options.full_or_quick(PERCENT);
        Work::of(amount, 2, PERCENT[1]).at_most(Duration::from_mins(2))
    },
    contestants: |_| {
        let both = shapes::<Doorbell>().into_iter().zip(shapes::<Tokio>());
        let both = both.flat_map(|(ours, theirs)| [one(&ours), one(&theirs).baseline()]);
        Ok(both.collect())
    },
    compared: "ops_per_s",
    ..Plan::NEW
};

/// What is spawned from where.
struct Shape<P> {
    name: &'static str,
    /// How many operations there are in one execution, and how many executions in a full pass.
    operations: u32,
    times: u32,
    once: fn(&P) -> Result<()>,
    /// Spawns a task that keeps a worker busy meanwhile.
    beside: Option<Beside<P>>,
}

type Beside<P> = fn(&P, Arc<End>, Arc<Countdown>);

fn shapes<P: Spawns>() -> [Shape<P>; 7] {
    let shape = |name, operations, times, once| Shape {
        name,
        operations,
        times,
        once,
        beside: None,
    };
    let busy = |name, count, times, once, beside| Shape {
        beside: Some(beside),
        ..shape(name, count, times, once)
    };
    [
        shape("spawn_many_local", MANY, 50, |peer: &P| {
            peer.block_on(many_local::<P>())
        }),
        shape("spawn_many_remote_idle", MANY, 50, many_remote::<P, MANY>),
        busy(
            "spawn_many_remote_busy1",
            MANY,
            10,
            many_remote::<P, MANY>,
            |peer: &P, end, countdown| drop(peer.spawn_remote(yielding::<P>(end, countdown))),
        ),
        busy(
            "spawn_many_remote_busy2",
            SOME,
            30,
            many_remote::<P, SOME>,
            |peer: &P, end, countdown| drop(peer.spawn_remote(respawning::<P>(end, countdown))),
        ),
        shape("chained_spawn", SOME, 500, |peer: &P| {
            peer.block_on(chained::<P>())
        }),
        shape("ping_pong", SOME, 200, |peer: &P| {
            peer.block_on(ping_pong::<P>())
        }),
        shape("yield_many", YIELDERS * YIELDS, 10, |peer: &P| {
            peer.block_on(yield_many::<P>())
        }),
    ]
}

fn one<P: Spawns>(shape: &Shape<P>) -> Contestant {
    let shape = Shape { ..*shape };
    let run = move |peer: &mut P, percent: u32| {
        let times = (shape.times * percent / PERCENT[0]).max(1);
        let busy = shape.beside.map(|beside| Busy::begin(peer, beside));
        let begin = Instant::now();
        let done = (0..times).try_for_each(|_| (shape.once)(peer));
        let span = begin.elapsed();
        busy.map_or(Ok(()), |busy| busy.end(peer)).and(done)?;
        let operations = u64::from(shape.operations) * u64::from(times);
        let op_ns = span.as_nanos() as f64 / operations.max(1) as f64;
        let figures = [("op_ns", op_ns), ("ops_per_s", 1e9 / op_ns)];
        Ok(Outcome::of(operations, figures))
    };
    Contestant::of(shape.name, || P::start(&Workers::Free(WORKERS)), run)
}

/// The last of many tasks signals.
#[derive(Debug)]
struct Countdown {
    left: AtomicU32,
    signal: Mutex<Option<oneshot::Sender<()>>>,
}

impl Countdown {
    fn of(count: u32) -> (Arc<Self>, oneshot::Receiver<()>) {
        let (signal, ended) = oneshot::channel();
        let countdown = Self {
            left: AtomicU32::new(count),
            signal: Mutex::new(Some(signal)),
        };
        (Arc::new(countdown), ended)
    }

    fn one_ended(&self) {
        // ORDER: AcqRel: the Release of every other task pairs with the Acquire of the last one, which
        // passes on what they did to the receiver of the signal.
        if self.left.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        // Only the last task comes here, so the lock is free.
        if let Some(signal) = locked(&self.signal).take() {
            // The receiver is gone only if the waiting thread has panicked.
            let _ = signal.send(());
        }
    }
}

async fn until(ended: oneshot::Receiver<()>) -> Result<()> {
    ended.await.ok().context(TASK_LOST)
}

async fn many_local<P: Spawns>() -> Result<()> {
    let (countdown, ended) = Countdown::of(MANY);
    for _ in 0..MANY {
        let countdown = Arc::clone(&countdown);
        P::spawn_here(async move { countdown.one_ended() });
    }
    drop(countdown);
    until(ended).await
}

fn many_remote<P: Spawns, const COUNT: u32>(peer: &P) -> Result<()> {
    let tasks: Vec<P::Join> = (0..COUNT).map(|_| peer.spawn_remote(async {})).collect();
    peer.block_on(async {
        for task in tasks {
            task.await.ok().context(TASK_LOST)?;
        }
        Ok(())
    })
}

async fn chained<P: Spawns>() -> Result<()> {
    let (signal, ended) = oneshot::channel();
    P::spawn_here(link::<P>(SOME, signal));
    until(ended).await
}

// The compiler cannot infer `Send` for a future that spawns its own kind.
#[expect(clippy::manual_async_fn, reason = "it says that it is Send")]
fn link<P: Spawns>(left: u32, signal: oneshot::Sender<()>) -> impl Future<Output = ()> + Send {
    async move {
        if left > 1 {
            P::spawn_here(link::<P>(left - 1, signal));
        } else {
            // The receiver is gone only if the waiting thread has panicked.
            let _ = signal.send(());
        }
    }
}

async fn ping_pong<P: Spawns>() -> Result<()> {
    let (countdown, ended) = Countdown::of(SOME);
    P::spawn_here(async move {
        for _ in 0..SOME {
            P::spawn_here(ping::<P>(Arc::clone(&countdown)));
        }
    });
    until(ended).await
}

async fn ping<P: Spawns>(countdown: Arc<Countdown>) {
    let (there, at_other) = oneshot::channel();
    let (back, answer) = oneshot::channel();
    P::spawn_here(async move {
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

async fn yield_many<P: Spawns>() -> Result<()> {
    let (countdown, ended) = Countdown::of(YIELDERS);
    for _ in 0..YIELDERS {
        let countdown = Arc::clone(&countdown);
        P::spawn_here(async move {
            for _ in 0..YIELDS {
                P::yield_now().await;
            }
            countdown.one_ended();
        });
    }
    drop(countdown);
    until(ended).await
}

/// Tasks that keep the workers busy while others are spawned.
#[derive(Debug)]
struct Busy {
    end: Arc<End>,
    ended: oneshot::Receiver<()>,
}

impl Busy {
    fn begin<P: Spawns>(peer: &P, beside: Beside<P>) -> Self {
        let end = Arc::new(End::default());
        let (countdown, ended) = Countdown::of(BUSY);
        for _ in 0..BUSY {
            beside(peer, Arc::clone(&end), Arc::clone(&countdown));
        }
        Self { end, ended }
    }

    fn end<P: Spawns>(self, peer: &P) -> Result<()> {
        self.end.ask();
        peer.block_on(until(self.ended))
    }
}

fn stall() {
    let begin = Instant::now();
    while begin.elapsed() < STALL {
        thread::yield_now();
    }
}

async fn yielding<P: Spawns>(end: Arc<End>, countdown: Arc<Countdown>) {
    while !end.is_asked() {
        stall();
        P::yield_now().await;
    }
    countdown.one_ended();
}

#[expect(clippy::manual_async_fn, reason = "it says that it is Send")]
fn respawning<P: Spawns>(
    end: Arc<End>,
    countdown: Arc<Countdown>,
) -> impl Future<Output = ()> + Send {
    async move {
        if end.is_asked() {
            countdown.one_ended();
        } else {
            stall();
            P::spawn_here(respawning::<P>(end, countdown));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::testing::{assert_plan, contestants, outcome, try_each};
    use crate::scenario::Options;

    #[test]
    fn every_shape_runs_on_both() {
        try_each(contestants(&PLAN, &Options::default()), |one, run| {
            let outcome = outcome(one, run, 1);
            let mut shapes = shapes::<Tokio>().into_iter();
            let shape = shapes.find(|shape| shape.name == one.variant);
            let shape = shape.expect("it is one of the shapes");
            let times = u64::from((shape.times / 100).max(1));
            assert_eq!(
                outcome.operations,
                u64::from(shape.operations) * times,
                "{one:?}"
            );
            assert!(outcome.figures["op_ns"] > 0.0, "{one:?}");
        });
        assert_plan(
            &PLAN,
            &Options::default(),
            &["ns", "x tokio", "syscalls/1k"],
        );
    }
}
