//! The contestants: each runs jobs and the urgent task at the same time.

use std::sync::{Arc, mpsc};
use std::time::Instant;

use anyhow::{Context as _, Result};
use doorbell::Class;
use tokio::task::spawn_blocking;

use super::probe::{PERIOD, Probe, Way};
use super::{JOBS, Load, Scene, Source};
use crate::error::TASK_LOST;
use crate::peers::{
    Doorbell, Host as _, IdlePool, Job, Orders, Peer, Threads, Tokio, Want, Workers, in_idle_pool,
};
use crate::tools::Crew;

/// The core of the CPU of the bare thread; the first CPU has more work for the OS.
const CORE: usize = 1;

/// Where tokio's jobs compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Jobs {
    Tasks,
    Blocking,
    /// On a thread under `SCHED_IDLE` on each CPU.
    IdleThreads,
}

/// A contestant.
pub(super) struct Who {
    pub(super) name: &'static str,
    pub(super) how: &'static str,
    /// Whether its urgent task stays on a core. Only such a task can be woken from another one.
    pub(super) is_bound: bool,
    pub(super) start: Box<Begin>,
}

/// How it starts.
pub(super) type Begin = dyn Fn(&Scene) -> Result<Running>;

fn who<F: Fn(&Scene) -> Result<Running> + 'static>(
    [name, how]: [&'static str; 2],
    is_bound: bool,
    start: F,
) -> Who {
    Who {
        name,
        how,
        is_bound,
        start: Box::new(start),
    }
}

/// Threads with these requests.
pub(super) fn bare(how: &'static str, urgent: Want, jobs: Want) -> Who {
    let start = move |scene: &Scene| start_bare(scene, urgent, jobs);
    who(["bare thread", how], true, start)
}

/// The classes of the urgent task and of the jobs, and whether the urgent task stays on a core.
pub(super) fn doorbell(how: &'static str, classes: [Class; 2], is_bound: bool) -> Who {
    let start = move |scene: &Scene| start_doorbell(scene, classes, is_bound);
    who([Doorbell::NAME, how], is_bound, start)
}

pub(super) fn tokio(how: &'static str, jobs: Jobs) -> Who {
    let start = move |scene: &Scene| start_tokio(scene, jobs);
    who([Tokio::NAME, how], false, start)
}

/// A contestant that runs.
pub(super) struct Running {
    /// How a thread outside has the urgent task run.
    pub(super) way: Way,
    /// Waits for its end. The load and the urgent task have been told, and `way` is gone.
    pub(super) stop: Box<dyn FnOnce() -> Result<()>>,
}

/// The urgent task and what else it takes: on the second CPU, or on the first one.
fn tasks<P: Peer>(scene: &Scene) -> Vec<(usize, Job)> {
    let probe = || Arc::clone(&scene.probe);
    let answer = || -> (usize, Job) { (CORE, Box::pin(probe().answer())) };
    match scene.source {
        Source::Thread => vec![answer()],
        Source::Timer => vec![(CORE, Box::pin(probe().sleep(P::sleep_until)))],
        Source::Core => {
            let sleep = || P::sleep_until(Instant::now() + PERIOD);
            let waker = probe().wake_by(sleep, Box::new(|_| ()));
            vec![answer(), (1 - CORE, Box::pin(waker))]
        }
        Source::Call => Vec::new(),
    }
}

/// Spawns the urgent task and the jobs on a peer. `call` has the urgent work run if a call takes the task's place; `last`
/// comes after the end of the peer.
fn run<P: Peer>(
    mut peer: P,
    scene: &Scene,
    urgent: impl Fn(&mut P, usize, Job) -> Result<()>,
    jobs: impl FnOnce(&mut P, &Arc<Load>) -> Result<()>,
    call: impl Fn(Arc<Probe>) + Send + 'static,
    last: impl FnOnce() -> Result<()> + 'static,
) -> Result<Running> {
    let mut crew = Crew::new();
    for (core, task) in tasks::<P>(scene) {
        urgent(&mut peer, core, Box::pin(crew.member(task)))?;
    }
    jobs(&mut peer, &scene.load)?;
    let way: Way = match scene.source {
        Source::Call => Box::new(move |probe| call(Arc::clone(probe))),
        // Its place was filled, which wakes it.
        _ => Box::new(|_| ()),
    };
    let stop = || crew.gather().map(drop).and(peer.stop()).and(last());
    let stop = Box::new(stop);
    Ok(Running { way, stop })
}

fn start_bare(scene: &Scene, urgent: Want, jobs: Want) -> Result<Running> {
    let cpus = scene.cpus;
    let mut peer = Threads::start(&Workers::on(cpus))?;
    let (calls, orders) = mpsc::channel::<Box<dyn FnOnce() + Send>>();
    if scene.source == Source::Call {
        let follow = async move {
            for order in orders {
                order();
            }
        };
        peer.spawn_wanting(urgent, Some(cpus[CORE]), follow)?;
    }
    run(
        peer,
        scene,
        move |peer, core, task| peer.spawn_wanting(urgent, Some(cpus[core]), task),
        |peer, load| {
            cpus.into_iter().try_for_each(|cpu| {
                let load = Arc::clone(load);
                peer.spawn_wanting(jobs, Some(cpu), async move { while load.poll() {} })
            })
        },
        move |probe| {
            // The thread ends only when the channel closes.
            let _ = calls.send(Box::new(move || probe.run()));
        },
        || Ok(()),
    )
}

fn start_doorbell(scene: &Scene, [class, jobs]: [Class; 2], on_core: bool) -> Result<Running> {
    let peer = Doorbell::start(&Workers::on(scene.cpus))?;
    // The workers start before the jobs do.
    let first = peer.0.block_on(peer.0.task().class(class).spawn(async {}));
    first.ok().context(TASK_LOST)?;
    let handle = peer.0.handle().clone();
    run(
        peer,
        scene,
        move |peer, core, task| {
            let builder = peer.0.task().class(class);
            drop(if on_core { builder.on(core) } else { builder }.spawn(task));
            Ok(())
        },
        |peer, load| {
            for _ in 0..JOBS {
                let job = as_task::<Doorbell>(Arc::clone(load));
                drop(peer.0.task().class(jobs).spawn(job));
            }
            Ok(())
        },
        move |probe| {
            if on_core {
                let call = handle.call().class(class);
                call.on(CORE, move || probe.run()).detach();
            } else {
                drop(handle.task().class(class).spawn(async move { probe.run() }));
            }
        },
        || Ok(()),
    )
}

fn start_tokio(scene: &Scene, jobs: Jobs) -> Result<Running> {
    let workers = Workers::on(scene.cpus);
    let peer = Tokio::with(&workers, |builder| {
        builder.max_blocking_threads(workers.count());
    })?;
    let (handle, pool) = (peer.0.handle().clone(), IdlePool::start(&workers)?);
    let theirs = pool.orders();
    run(
        peer,
        scene,
        |peer, _, task| peer.spawn(task),
        move |peer, load| {
            (0..JOBS).try_for_each(|_| match jobs {
                Jobs::Tasks => peer.spawn(as_task::<Tokio>(Arc::clone(load))),
                Jobs::Blocking => peer.spawn(in_blocking(Arc::clone(load))),
                Jobs::IdleThreads => peer.spawn(on_pool(Arc::clone(load), theirs.clone())),
            })
        },
        move |probe| drop(handle.spawn(async move { probe.run() })),
        || pool.stop(),
    )
}

async fn as_task<P: Peer>(load: Arc<Load>) {
    while load.poll() {
        P::yield_now().await;
    }
}

async fn in_blocking(load: Arc<Load>) {
    let poll = |load: Arc<Load>| spawn_blocking(move || load.poll());
    while matches!(poll(Arc::clone(&load)).await, Ok(true)) {}
}

async fn on_pool(load: Arc<Load>, pool: Orders) {
    loop {
        let load = Arc::clone(&load);
        if in_idle_pool(&pool, move || load.poll()).await != Some(true) {
            return;
        }
    }
}
