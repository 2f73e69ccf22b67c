//! tokio, with its jobs in one of three places.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use crossbeam_channel::{Sender, unbounded};
use futures::channel::oneshot;
use tokio::runtime::Runtime;
use tokio::task::{spawn_blocking, yield_now};

use super::super::common::{tokio_builder, tokio_error};
use super::super::wants::Want;
use super::contestants::Runs;
use super::load::{JOBS, Load};
use super::probe::{Probe, Way};
use super::scene::{Scene, Source};
use crate::error::LabError;
use crate::measure::spawn_pinned;

const THREAD: &str = "idle-job";

/// Where tokio's jobs compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Jobs {
    /// In tasks, on the workers.
    Tasks,
    /// In `spawn_blocking`, as many at a time as there are CPUs.
    Blocking,
    /// On threads of the program's own under `SCHED_IDLE`, one on each CPU.
    IdleThreads,
}

/// A closure for an [`IdlePool`].
type Work = Box<dyn FnOnce() + Send>;

/// Threads under `SCHED_IDLE` that compute for tasks, as a program with tokio can have them.
#[derive(Debug)]
struct IdlePool {
    work: Sender<Work>,
    threads: Vec<JoinHandle<()>>,
}

impl IdlePool {
    fn start(cpus: [usize; 2]) -> Result<Self, LabError> {
        let (work, waiting) = unbounded::<Work>();
        let mut threads = Vec::new();
        for cpu in cpus {
            let waiting = waiting.clone();
            threads.push(spawn_pinned(THREAD, cpu, move || {
                Want::Idle.ask();
                waiting.iter().for_each(|work| work());
            })?);
        }
        Ok(Self { work, threads })
    }

    /// Waits for the threads, which end when all tasks have ended.
    fn stop(self) -> Result<(), LabError> {
        drop(self.work);
        let mut joined = self.threads.into_iter().map(JoinHandle::join);
        let panicked = |_| LabError::ThreadPanicked { thread: THREAD };
        joined.try_for_each(|end| end.map_err(panicked))
    }
}

/// Runs a closure on the pool; `None` if the pool is gone.
async fn on_idle<T: Send + 'static>(
    pool: &Sender<Work>,
    f: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (tell, told) = oneshot::channel();
    let work = move || {
        // The receiver is gone only if the task was dropped.
        let _ = tell.send(f());
    };
    pool.send(Box::new(work)).ok()?;
    told.await.ok()
}

/// A runtime with jobs and the urgent task.
#[derive(Debug)]
pub(super) struct Tokio {
    runtime: Runtime,
    pool: Option<IdlePool>,
    source: Source,
    urgent: Option<tokio::task::JoinHandle<()>>,
}

impl Tokio {
    pub(super) fn start(scene: &Scene, jobs: Jobs) -> Result<Self, LabError> {
        let cpus = scene.cpus();
        let mut builder = tokio_builder(cpus);
        let runtime = builder.max_blocking_threads(cpus.len()).build();
        let runtime = runtime.map_err(tokio_error)?;
        let pool = match jobs {
            Jobs::IdleThreads => Some(IdlePool::start(cpus)?),
            Jobs::Tasks | Jobs::Blocking => None,
        };
        let probe = Arc::clone(&scene.probe);
        let urgent = match scene.source {
            Source::Timer => {
                let sleep = |due: Instant| tokio::time::sleep_until(due.into());
                Some(runtime.spawn(probe.sleep(sleep)))
            }
            Source::Call => None,
            Source::Thread | Source::Core => Some(runtime.spawn(probe.answer())),
        };
        for _ in 0..JOBS {
            let load = Arc::clone(&scene.load);
            match (jobs, &pool) {
                (_, Some(pool)) => drop(runtime.spawn(on_pool(load, pool.work.clone()))),
                (Jobs::Blocking, None) => drop(runtime.spawn(in_blocking(load))),
                _ => drop(runtime.spawn(as_task(load))),
            }
        }
        Ok(Self {
            runtime,
            pool,
            source: scene.source,
            urgent,
        })
    }
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

async fn on_pool(load: Arc<Load>, pool: Sender<Work>) {
    let poll = |load: Arc<Load>| on_idle(&pool, move || load.poll());
    while poll(Arc::clone(&load)).await == Some(true) {}
}

impl Runs for Tokio {
    fn way(&self) -> Way {
        if self.source != Source::Call {
            return Box::new(|probe| probe.tell());
        }
        let handle = self.runtime.handle().clone();
        Box::new(move |probe| {
            let probe: Arc<Probe> = Arc::clone(probe);
            drop(handle.spawn(async move { probe.run() }));
        })
    }

    fn stop(self: Box<Self>) -> Result<(), LabError> {
        let Self {
            runtime,
            pool,
            urgent,
            ..
        } = *self;
        let ended = urgent.map_or(Ok(()), |urgent| runtime.block_on(urgent));
        // The pool ends when no task can send to it any more.
        drop(runtime);
        let stopped = pool.map_or(Ok(()), IdlePool::stop);
        ended.map_err(|_| LabError::TaskLost).and(stopped)
    }
}
