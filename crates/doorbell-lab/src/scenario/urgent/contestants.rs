//! The contestants: each runs jobs and the urgent task at the same time.

use std::sync::{Arc, mpsc};
use std::time::Instant;

use crossbeam_channel::{Sender, unbounded};
use doorbell::Class;
use futures::channel::oneshot;
use futures::executor::block_on;
use tokio::task::spawn_blocking;

use super::probe::{PERIOD, Probe, Way, tell};
use super::{JOBS, Load, Scene, Source};
use crate::error::LabError;
use crate::peers::{
    Doorbell, Host as _, Job, Peer, Threads, Tokio, Want, Workers, join, thread_on,
};

const URGENT: &str = "urgent";
const HOG: &str = "hog";
const IDLE: &str = "idle-job";
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
pub(super) type Begin = dyn Fn(&Scene) -> Result<Running, LabError>;

/// Threads with these requests.
pub(super) fn bare(how: &'static str, urgent: Want, jobs: Want) -> Who {
    Who {
        name: "bare thread",
        how,
        is_bound: true,
        start: Box::new(move |scene| start_bare(scene, urgent, jobs)),
    }
}

/// The classes of the urgent task and of the jobs, and whether the urgent task stays on a core.
pub(super) fn doorbell(how: &'static str, classes: [Class; 2], is_bound: bool) -> Who {
    Who {
        name: Doorbell::NAME,
        how,
        is_bound,
        start: Box::new(move |scene| start_doorbell(scene, classes, is_bound)),
    }
}

pub(super) fn tokio(how: &'static str, jobs: Jobs) -> Who {
    Who {
        name: Tokio::NAME,
        how,
        is_bound: false,
        start: Box::new(move |scene| start_tokio(scene, jobs)),
    }
}

/// A contestant that runs.
pub(super) struct Running {
    /// How a thread outside has the urgent task run.
    pub(super) way: Way,
    /// Waits for its end. The load and the urgent task have been told, and `way` is gone.
    pub(super) stop: Box<dyn FnOnce() -> Result<(), LabError>>,
}

type Order = Box<dyn FnOnce() + Send>;

/// The urgent task and what else it takes: on the second CPU, or on the first one.
fn tasks<P: Peer>(scene: &Scene) -> Vec<(usize, Job)> {
    let probe = || Arc::clone(&scene.probe);
    let answer = || -> (usize, Job) { (CORE, Box::pin(probe().answer())) };
    match scene.source {
        Source::Thread => vec![answer()],
        Source::Timer => vec![(CORE, Box::pin(probe().sleep(P::sleep_until)))],
        Source::Core => {
            let sleep = || P::sleep_until(Instant::now() + PERIOD);
            let waker = probe().wake_by(sleep, Box::new(tell));
            vec![answer(), (1 - CORE, Box::pin(waker))]
        }
        Source::Call => Vec::new(),
    }
}

/// A way to call the urgent task, or to wake it.
fn way(scene: &Scene, call: impl Fn(Arc<Probe>) + Send + 'static) -> Way {
    if scene.source == Source::Call {
        return Box::new(move |probe| call(Arc::clone(probe)));
    }
    Box::new(tell)
}

fn start_bare(scene: &Scene, urgent: Want, jobs: Want) -> Result<Running, LabError> {
    let mut threads = Vec::new();
    for cpu in scene.cpus {
        let load = Arc::clone(&scene.load);
        threads.push(thread_on(HOG, Some(cpu), move || {
            jobs.ask();
            while load.poll() {}
        })?);
    }
    for (core, task) in tasks::<Threads>(scene) {
        threads.push(thread_on(URGENT, Some(scene.cpus[core]), move || {
            urgent.ask();
            block_on(task);
        })?);
    }
    let (calls, orders) = mpsc::channel::<Order>();
    if scene.source == Source::Call {
        threads.push(thread_on(URGENT, Some(scene.cpus[CORE]), move || {
            urgent.ask();
            for order in orders {
                order();
            }
        })?);
    }
    Ok(Running {
        way: way(scene, move |probe| {
            // The thread ends only when the channel closes.
            let _ = calls.send(Box::new(move || probe.run()));
        }),
        stop: Box::new(|| {
            let joined = threads.into_iter().map(|thread| join(thread, URGENT));
            // All of them, also after one that panicked.
            joined.fold(Ok(()), Result::and)
        }),
    })
}

fn start_doorbell(
    scene: &Scene,
    [class, jobs]: [Class; 2],
    on_core: bool,
) -> Result<Running, LabError> {
    let runtime = Doorbell::start(&Workers::on(scene.cpus))?.0;
    let task = || runtime.task().class(class);
    // The workers start before the jobs do.
    let first = runtime.block_on(task().spawn(async {}));
    first.map_err(|_| LabError::TaskLost)?;
    let spawn = |(core, job)| if on_core { task().on(core) } else { task() }.spawn(job);
    let urgent: Vec<_> = tasks::<Doorbell>(scene).into_iter().map(spawn).collect();
    for _ in 0..JOBS {
        let job = as_task::<Doorbell>(Arc::clone(&scene.load));
        drop(runtime.task().class(jobs).spawn(job));
    }
    let handle = runtime.handle().clone();
    Ok(Running {
        way: way(scene, move |probe| {
            if on_core {
                let call = handle.call().class(class);
                call.on(CORE, move || probe.run()).detach();
            } else {
                drop(handle.task().class(class).spawn(async move { probe.run() }));
            }
        }),
        stop: Box::new(move || {
            let mut ended = urgent.into_iter().map(|task| runtime.block_on(task));
            ended.try_for_each(|end| end.map_err(|_| LabError::TaskLost))
        }),
    })
}

fn start_tokio(scene: &Scene, jobs: Jobs) -> Result<Running, LabError> {
    let cpus = scene.cpus;
    let peer = Tokio::with(&Workers::on(cpus), |builder| {
        builder.max_blocking_threads(cpus.len());
    })?;
    let runtime = peer.0;
    let (pool, waiting) = unbounded::<Order>();
    let mut threads = Vec::new();
    for cpu in cpus.into_iter().filter(|_| jobs == Jobs::IdleThreads) {
        let waiting = waiting.clone();
        threads.push(thread_on(IDLE, Some(cpu), move || {
            Want::Idle.ask();
            waiting.iter().for_each(|work| work());
        })?);
    }
    let urgent = tasks::<Tokio>(scene).into_iter();
    let urgent: Vec<_> = urgent.map(|(_, task)| runtime.spawn(task)).collect();
    for _ in 0..JOBS {
        let load = Arc::clone(&scene.load);
        drop(match jobs {
            Jobs::Tasks => runtime.spawn(as_task::<Tokio>(load)),
            Jobs::Blocking => runtime.spawn(in_blocking(load)),
            Jobs::IdleThreads => runtime.spawn(on_pool(load, pool.clone())),
        });
    }
    let handle = runtime.handle().clone();
    Ok(Running {
        way: way(scene, move |probe| {
            drop(handle.spawn(async move { probe.run() }));
        }),
        stop: Box::new(move || {
            let mut ended = urgent.into_iter().map(|task| runtime.block_on(task));
            let ended = ended.try_for_each(|end| end.map_err(|_| LabError::TaskLost));
            // The pool ends when no task can send to it any more.
            drop((runtime, pool));
            let joined = threads.into_iter().map(|thread| join(thread, IDLE));
            joined.fold(ended, Result::and)
        }),
    })
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

async fn on_pool(load: Arc<Load>, pool: Sender<Order>) {
    loop {
        let ((tell, told), load) = (oneshot::channel(), Arc::clone(&load));
        let work = move || {
            // The receiver is gone only if the task was dropped.
            let _ = tell.send(load.poll());
        };
        if pool.send(Box::new(work)).is_err() || told.await != Ok(true) {
            return;
        }
    }
}
