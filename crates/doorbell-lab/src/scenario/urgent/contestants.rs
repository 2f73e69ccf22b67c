//! The contestants: each runs jobs and the urgent task at the same time.

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;
use std::time::Instant;

use super::super::common::shortest_slack;
use super::super::wants::Want;
use super::load::JOBS;
use super::probe::{PERIOD, Way};
use super::scene::{Part, Place, Scene, Source};
use super::tokio::{Jobs, Tokio};
use crate::error::LabError;
use crate::measure::spawn_pinned;

const URGENT: &str = "urgent";
const HOG: &str = "hog";
/// The urgent task's core: the one of the second CPU.
const CORE: usize = 1;

/// A running contestant, with jobs and the urgent task.
pub(super) trait Runs: fmt::Debug {
    /// How an outside thread reaches the urgent task.
    fn way(&self) -> Way;

    /// Ends it. Jobs and the urgent task were told to end before.
    fn stop(self: Box<Self>) -> Result<(), LabError>;
}

/// A contestant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Who {
    /// A thread of its own for the urgent task, and one on each CPU that runs the jobs in turn, with what
    /// they request of the OS.
    Bare {
        how: &'static str,
        urgent: Want,
        jobs: Want,
    },
    /// Jobs and the urgent task are tasks of two classes.
    Doorbell(Part, Place),
    /// The urgent task is a task of tokio.
    Tokio(Jobs),
}

impl Who {
    /// Its name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Who::Bare { .. } => "bare thread",
            Who::Doorbell(..) => "doorbell",
            Who::Tokio(_) => "tokio",
        }
    }

    /// How the urgent task is distinguished from the jobs.
    pub(super) fn how(self) -> &'static str {
        match self {
            Who::Bare { how, .. } => how,
            Who::Doorbell(Part::Rt, Place::Free) => "class Rt",
            Who::Doorbell(Part::Rt, Place::Core) => "class Rt on a core",
            Who::Doorbell(Part::Fair, Place::Free) => "Fair beside Batch",
            Who::Doorbell(Part::Fair, Place::Core) => "Fair on a core beside Batch",
            Who::Tokio(Jobs::Tasks) => "tasks",
            Who::Tokio(Jobs::Blocking) => "jobs in spawn_blocking",
            Who::Tokio(Jobs::IdleThreads) => "jobs on SCHED_IDLE threads",
        }
    }

    /// Whether it supports this source: another core can wake only a task that stays on its core.
    pub(super) fn knows(self, source: Source) -> bool {
        let is_free = matches!(self, Who::Tokio(_) | Who::Doorbell(_, Place::Free));
        source != Source::Core || !is_free
    }

    /// Starts it on both CPUs, with the jobs and the urgent task.
    pub(super) fn start(self, scene: &Scene) -> Result<Box<dyn Runs>, LabError> {
        Ok(match self {
            Who::Bare { urgent, jobs, .. } => Box::new(Bare::start(scene, urgent, jobs)?),
            Who::Doorbell(part, place) => Box::new(Doorbell::start(scene, part, place)?),
            Who::Tokio(jobs) => Box::new(Tokio::start(scene, jobs)?),
        })
    }
}

/// A closure for a bare thread.
type Order = Box<dyn FnOnce() + Send>;

#[derive(Debug)]
struct Bare {
    threads: Vec<JoinHandle<()>>,
    /// The channel to the urgent thread, which ends when the channel closes.
    calls: Option<Sender<Order>>,
}

impl Bare {
    fn start(scene: &Scene, urgent: Want, jobs: Want) -> Result<Self, LabError> {
        let mut threads = Vec::new();
        for cpu in scene.cpus() {
            let load = Arc::clone(&scene.load);
            threads.push(spawn_pinned(HOG, cpu, move || {
                jobs.ask();
                while load.poll() {}
            })?);
        }
        let [near, here] = scene.cpus();
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
        let calls = (source == Source::Call).then_some(calls);
        Ok(Self { threads, calls })
    }
}

impl Runs for Bare {
    fn way(&self) -> Way {
        let Some(calls) = self.calls.clone() else {
            return Box::new(|probe| probe.tell());
        };
        Box::new(move |probe| {
            let probe = Arc::clone(probe);
            // The thread ends only when the channel closes.
            let _ = calls.send(Box::new(move || probe.run()));
        })
    }

    fn stop(self: Box<Self>) -> Result<(), LabError> {
        let Self { threads, calls } = *self;
        drop(calls);
        let mut result = Ok(());
        for thread in threads {
            if thread.join().is_err() {
                result = Err(LabError::ThreadPanicked { thread: URGENT });
            }
        }
        result
    }
}

#[derive(Debug)]
struct Doorbell {
    runtime: doorbell::Runtime,
    class: doorbell::Class,
    place: Place,
    source: Source,
    urgent: Vec<doorbell::JoinHandle<()>>,
}

impl Doorbell {
    fn start(scene: &Scene, part: Part, place: Place) -> Result<Self, LabError> {
        let runtime = doorbell::Builder::new().core_list(scene.cpus()).build()?;
        let class = part.urgent();
        let task = || runtime.task().class(class);
        // The CPU of the bare thread; the first CPU has more work for the OS.
        let placed = || match place {
            Place::Free => task(),
            Place::Core => task().on(CORE),
        };
        let sleep =
            |due: Instant| doorbell::time::sleep(due.saturating_duration_since(Instant::now()));
        // The workers start before the jobs do.
        runtime
            .block_on(task().spawn(async {}))
            .map_err(|_| LabError::TaskLost)?;
        let probe = || Arc::clone(&scene.probe);
        let urgent = match scene.source {
            Source::Thread => vec![placed().spawn(probe().answer())],
            Source::Timer => vec![placed().spawn(probe().sleep(sleep))],
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
            drop(runtime.task().class(part.jobs()).spawn(async move {
                while load.poll() {
                    doorbell::yield_now().await;
                }
            }));
        }
        Ok(Self {
            runtime,
            class,
            place,
            source: scene.source,
            urgent,
        })
    }
}

impl Runs for Doorbell {
    fn way(&self) -> Way {
        if self.source != Source::Call {
            return Box::new(|probe| probe.tell());
        }
        let (handle, class) = (self.runtime.handle().clone(), self.class);
        if self.place == Place::Free {
            return Box::new(move |probe| {
                let probe = Arc::clone(probe);
                drop(handle.task().class(class).spawn(async move { probe.run() }));
            });
        }
        Box::new(move |probe| {
            let probe = Arc::clone(probe);
            let call = handle.call().class(class);
            call.on(CORE, move || probe.run()).detach();
        })
    }

    fn stop(self: Box<Self>) -> Result<(), LabError> {
        let Self {
            runtime, urgent, ..
        } = *self;
        for task in urgent {
            runtime.block_on(task).map_err(|_| LabError::TaskLost)?;
        }
        Ok(())
    }
}
