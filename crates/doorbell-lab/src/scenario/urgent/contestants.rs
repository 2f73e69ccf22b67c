//! The contestants: each runs jobs and the urgent task at the same time.

use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;

use crossbeam_channel::{Sender, unbounded};
use doorbell::Class;
use futures::channel::oneshot;
use tokio::task::{spawn_blocking, yield_now};

use super::probe::{PERIOD, Probe, Way};
use super::{JOBS, Load, Scene, Source};
use crate::error::LabError;
use crate::measure::spawn_pinned;
use crate::peers::{Doorbell, Host as _, Peer as _, Tokio, Want, Workers, join, shortest_slack};

const URGENT: &str = "urgent";
const HOG: &str = "hog";
const IDLE: &str = "idle-job";
/// The core of the CPU of the bare thread; the first CPU has more work for the OS.
const CORE: usize = 1;

/// The classes of the urgent task and of the jobs: Rt and Fair, or Fair and Batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Rt,
    Fair,
}

/// Where tokio's jobs compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Jobs {
    Tasks,
    Blocking,
    /// On a thread under `SCHED_IDLE` on each CPU.
    IdleThreads,
}

/// A contestant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Who {
    /// Threads with these requests.
    Bare {
        how: &'static str,
        urgent: Want,
        jobs: Want,
    },
    /// The urgent task stays on a core or not.
    Doorbell {
        part: Part,
        on_core: bool,
    },
    Tokio(Jobs),
}

impl Who {
    pub(super) fn name(self) -> &'static str {
        match self {
            Who::Bare { .. } => "bare thread",
            Who::Doorbell { .. } => "doorbell",
            Who::Tokio(_) => "tokio",
        }
    }

    pub(super) fn how(self) -> &'static str {
        match self {
            Who::Bare { how, .. } => how,
            Who::Doorbell {
                part: Part::Rt,
                on_core: false,
            } => "class Rt",
            Who::Doorbell {
                part: Part::Rt,
                on_core: true,
            } => "class Rt on a core",
            Who::Doorbell {
                part: Part::Fair,
                on_core: false,
            } => "Fair beside Batch",
            Who::Doorbell {
                part: Part::Fair,
                on_core: true,
            } => "Fair on a core beside Batch",
            Who::Tokio(Jobs::Tasks) => "tasks",
            Who::Tokio(Jobs::Blocking) => "jobs in spawn_blocking",
            Who::Tokio(Jobs::IdleThreads) => "jobs on SCHED_IDLE threads",
        }
    }

    /// Only a task that stays on a core can be woken from another one.
    pub(super) fn knows(self, source: Source) -> bool {
        let is_free = matches!(self, Who::Tokio(_) | Who::Doorbell { on_core: false, .. });
        source != Source::Core || !is_free
    }

    pub(super) fn start(self, scene: &Scene) -> Result<Running, LabError> {
        match self {
            Who::Bare { urgent, jobs, .. } => bare(scene, urgent, jobs),
            Who::Doorbell { part, on_core } => doorbell(scene, part, on_core),
            Who::Tokio(jobs) => tokio(scene, jobs),
        }
    }
}

/// A contestant that runs.
pub(super) struct Running {
    /// How a call is made in place of a wake.
    call: Option<Box<dyn Fn() -> Way>>,
    stop: Box<dyn FnOnce() -> Result<(), LabError>>,
}

impl Running {
    /// How a thread outside has the urgent task run.
    pub(super) fn way(&self) -> Way {
        let tell = || -> Way { Box::new(|probe| probe.tell()) };
        self.call.as_ref().map_or_else(tell, |call| call())
    }

    pub(super) fn stop(self) -> Result<(), LabError> {
        drop(self.call);
        (self.stop)()
    }
}

type Order = Box<dyn FnOnce() + Send>;

fn bare(scene: &Scene, urgent: Want, jobs: Want) -> Result<Running, LabError> {
    let mut threads = Vec::new();
    for cpu in scene.cpus {
        let load = Arc::clone(&scene.load);
        threads.push(spawn_pinned(HOG, cpu, move || {
            jobs.ask();
            while load.poll() {}
        })?);
    }
    let [near, here] = scene.cpus;
    let (calls, orders) = mpsc::channel::<Order>();
    let (probe, source) = (Arc::clone(&scene.probe), scene.source);
    threads.push(spawn_pinned(URGENT, here, move || {
        urgent.ask();
        shortest_slack();
        match source {
            Source::Call => orders.iter().for_each(|order| order()),
            Source::Timer => probe.sleep_as_thread(),
            Source::Thread | Source::Core => probe.answer_as_thread(),
        }
    })?);
    if source == Source::Core {
        let probe = Arc::clone(&scene.probe);
        threads.push(spawn_pinned(URGENT, near, move || {
            urgent.ask();
            probe.wake_as_thread(&|probe| probe.tell());
        })?);
    }
    let call = move || -> Way {
        let calls = calls.clone();
        Box::new(move |probe| {
            let probe = Arc::clone(probe);
            // The thread ends only when the channel closes.
            let _ = calls.send(Box::new(move || probe.run()));
        })
    };
    Ok(Running {
        call: (source == Source::Call).then(|| Box::new(call) as Box<dyn Fn() -> Way>),
        stop: Box::new(|| {
            let mut joined = threads.into_iter().map(|thread| join(thread, URGENT));
            // All of them, also after one that panicked.
            joined.by_ref().fold(Ok(()), Result::and)
        }),
    })
}

fn doorbell(scene: &Scene, part: Part, on_core: bool) -> Result<Running, LabError> {
    let runtime = Doorbell::start(&Workers::on(scene.cpus))?.0;
    let (class, jobs) = match part {
        Part::Rt => (Class::rt(50), Class::FAIR),
        Part::Fair => (Class::FAIR, Class::BATCH),
    };
    let task = || runtime.task().class(class);
    let placed = || if on_core { task().on(CORE) } else { task() };
    // The workers start before the jobs do.
    let first = runtime.block_on(task().spawn(async {}));
    first.map_err(|_| LabError::TaskLost)?;
    let probe = || Arc::clone(&scene.probe);
    let urgent = match scene.source {
        Source::Thread => vec![placed().spawn(probe().answer())],
        Source::Timer => vec![placed().spawn(probe().sleep(Doorbell::sleep_until))],
        Source::Core => {
            let waker = probe().wake_by(|| doorbell::time::sleep(PERIOD));
            vec![
                placed().spawn(probe().answer()),
                task().on(1 - CORE).spawn(waker),
            ]
        }
        Source::Call => Vec::new(),
    };
    for _ in 0..JOBS {
        let load = Arc::clone(&scene.load);
        drop(runtime.task().class(jobs).spawn(async move {
            while load.poll() {
                doorbell::yield_now().await;
            }
        }));
    }
    let handle = runtime.handle().clone();
    let call = move || -> Way {
        let handle = handle.clone();
        Box::new(move |probe| {
            let probe = Arc::clone(probe);
            if on_core {
                handle
                    .call()
                    .class(class)
                    .on(CORE, move || probe.run())
                    .detach();
            } else {
                drop(handle.task().class(class).spawn(async move { probe.run() }));
            }
        })
    };
    Ok(Running {
        call: (scene.source == Source::Call).then(|| Box::new(call) as Box<dyn Fn() -> Way>),
        stop: Box::new(move || {
            let mut ended = urgent.into_iter().map(|task| runtime.block_on(task));
            ended.try_for_each(|end| end.map_err(|_| LabError::TaskLost))
        }),
    })
}

fn tokio(scene: &Scene, jobs: Jobs) -> Result<Running, LabError> {
    let cpus = scene.cpus;
    let peer = Tokio::with(&Workers::on(cpus), |builder| {
        builder.max_blocking_threads(cpus.len());
    })?;
    let runtime = peer.0;
    let pool = (jobs == Jobs::IdleThreads)
        .then(|| idle_pool(cpus))
        .transpose()?;
    let probe: Arc<Probe> = Arc::clone(&scene.probe);
    let urgent = match scene.source {
        Source::Timer => Some(runtime.spawn(probe.sleep(Tokio::sleep_until))),
        Source::Call => None,
        Source::Thread | Source::Core => Some(runtime.spawn(probe.answer())),
    };
    for _ in 0..JOBS {
        let load = Arc::clone(&scene.load);
        match (jobs, &pool) {
            (_, Some((pool, _))) => drop(runtime.spawn(on_pool(load, pool.clone()))),
            (Jobs::Blocking, None) => drop(runtime.spawn(in_blocking(load))),
            _ => drop(runtime.spawn(as_task(load))),
        }
    }
    let handle = runtime.handle().clone();
    let call = move || -> Way {
        let handle = handle.clone();
        Box::new(move |probe| {
            let probe = Arc::clone(probe);
            drop(handle.spawn(async move { probe.run() }));
        })
    };
    Ok(Running {
        call: (scene.source == Source::Call).then(|| Box::new(call) as Box<dyn Fn() -> Way>),
        stop: Box::new(move || {
            let ended = urgent.map_or(Ok(()), |urgent| runtime.block_on(urgent));
            // The pool ends when no task can send to it any more.
            drop(runtime);
            let (sender, threads) = pool.unzip();
            drop(sender);
            let mut joined = threads
                .into_iter()
                .flatten()
                .map(|thread| join(thread, IDLE));
            let stopped = joined.try_for_each(|joined| joined);
            ended.map_err(|_| LabError::TaskLost).and(stopped)
        }),
    })
}

/// A thread under `SCHED_IDLE` on each CPU, for closures.
fn idle_pool(cpus: [usize; 2]) -> Result<(Sender<Order>, Vec<JoinHandle<()>>), LabError> {
    let (work, waiting) = unbounded::<Order>();
    let mut threads = Vec::new();
    for cpu in cpus {
        let waiting = waiting.clone();
        threads.push(spawn_pinned(IDLE, cpu, move || {
            Want::Idle.ask();
            waiting.iter().for_each(|work| work());
        })?);
    }
    Ok((work, threads))
}

async fn as_task(load: Arc<Load>) {
    while load.poll() {
        yield_now().await;
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
