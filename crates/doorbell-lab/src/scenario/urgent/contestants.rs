//! Who runs jobs and an urgent one at the same time.

use std::fmt;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use super::super::common::tokio_error;
use super::load::{JOBS, Load};
use super::probe::{Probe, Source, go_first, go_sooner};
use crate::error::LabError;
use crate::measure::{Pin, Placement, spawn_pinned};

/// As urgent lanes have it, unless they are told otherwise.
const PRIORITY: u8 = 10;
const URGENT: &str = "urgent";
const HOG: &str = "hog";

/// What runs the jobs and the urgent one.
pub(super) trait Runs: Sized + fmt::Debug + 'static {
    /// Whose it is.
    const NAME: &'static str;
    /// How the urgent one is set apart.
    const HOW: &'static str;

    /// Starts it on both CPUs, with the jobs and the urgent one.
    fn start(
        placement: Placement,
        source: Source,
        load: &Arc<Load>,
        probe: &Arc<Probe>,
    ) -> Result<Self, LabError>;

    /// Ends it, when jobs and urgent one were told to.
    fn stop(self) -> Result<(), LabError>;
}

/// A thread of its own for the urgent one, and one on each CPU that does the jobs in turn.
#[derive(Debug)]
pub(super) struct Bare<const FIFO: bool> {
    threads: Vec<JoinHandle<()>>,
}

impl<const FIFO: bool> Runs for Bare<FIFO> {
    const NAME: &'static str = "bare thread";
    const HOW: &'static str = if FIFO { "SCHED_FIFO" } else { "100 us slice" };

    fn start(
        placement: Placement,
        source: Source,
        load: &Arc<Load>,
        probe: &Arc<Probe>,
    ) -> Result<Self, LabError> {
        let mut threads = Vec::new();
        for cpu in [placement.caller_cpu, placement.callee_cpu] {
            let load = Arc::clone(load);
            threads.push(spawn_pinned(HOG, cpu, move || while load.poll() {})?);
        }
        let probe = Arc::clone(probe);
        threads.push(spawn_pinned(URGENT, placement.callee_cpu, move || {
            if FIFO {
                go_first(PRIORITY);
            } else {
                go_sooner();
            }
            probe.answer_as_thread(source);
        })?);
        Ok(Self { threads })
    }

    fn stop(self) -> Result<(), LabError> {
        let mut result = Ok(());
        for thread in self.threads {
            if thread.join().is_err() {
                result = Err(LabError::ThreadPanicked { thread: URGENT });
            }
        }
        result
    }
}

/// Doorbell: the jobs of class Fair, the urgent one of class Rt.
#[derive(Debug)]
pub(super) struct Doorbell {
    runtime: doorbell::Runtime,
    urgent: doorbell::JoinHandle<()>,
}

impl Runs for Doorbell {
    const NAME: &'static str = "doorbell";
    const HOW: &'static str = "class Rt";

    fn start(
        placement: Placement,
        source: Source,
        load: &Arc<Load>,
        probe: &Arc<Probe>,
    ) -> Result<Self, LabError> {
        let cpus = [placement.caller_cpu, placement.callee_cpu];
        let runtime = doorbell::Builder::new().core_list(cpus).build()?;
        let task = runtime.task().class(doorbell::Class::rt(50));
        let probe = Arc::clone(probe);
        let urgent =
            match source {
                Source::Thread => task.spawn(probe.answer()),
                Source::Timer => task.spawn(probe.sleep(|due| {
                    doorbell::time::sleep(due.saturating_duration_since(Instant::now()))
                })),
            };
        for _ in 0..JOBS {
            let load = Arc::clone(load);
            drop(runtime.spawn(async move {
                while load.poll() {
                    doorbell::yield_now().await;
                }
            }));
        }
        Ok(Self { runtime, urgent })
    }

    fn stop(self) -> Result<(), LabError> {
        let ended = self.runtime.block_on(self.urgent);
        ended.map_err(|_| LabError::TaskLost)
    }
}

/// Tokio: jobs and urgent one are tasks, or the jobs are closures that block.
#[derive(Debug)]
pub(super) struct Tokio<const BLOCKING: bool> {
    runtime: tokio::runtime::Runtime,
    urgent: tokio::task::JoinHandle<()>,
}

impl<const BLOCKING: bool> Runs for Tokio<BLOCKING> {
    const NAME: &'static str = "tokio";
    const HOW: &'static str = if BLOCKING {
        "jobs in spawn_blocking"
    } else {
        "tasks"
    };

    fn start(
        placement: Placement,
        source: Source,
        load: &Arc<Load>,
        probe: &Arc<Probe>,
    ) -> Result<Self, LabError> {
        let cpus = [placement.caller_cpu, placement.callee_cpu];
        let next = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(cpus.len())
            // Both CPUs for all: closures that block are threads as well.
            .on_thread_start(move || {
                // ORDER: a number for each thread, nothing more.
                let at = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                // A CPU of the process can be pinned to; the mask is not to be restored.
                std::mem::forget(Pin::to(cpus[at % cpus.len()]));
            })
            .enable_all()
            .build()
            .map_err(tokio_error)?;
        let probe = Arc::clone(probe);
        let urgent = match source {
            Source::Thread => runtime.spawn(probe.answer()),
            Source::Timer => runtime.spawn(probe.sleep(|due| tokio::time::sleep_until(due.into()))),
        };
        for _ in 0..JOBS {
            let load = Arc::clone(load);
            if BLOCKING {
                drop(runtime.spawn_blocking(move || while load.poll() {}));
            } else {
                drop(runtime.spawn(async move {
                    while load.poll() {
                        tokio::task::yield_now().await;
                    }
                }));
            }
        }
        Ok(Self { runtime, urgent })
    }

    fn stop(self) -> Result<(), LabError> {
        let ended = self.runtime.block_on(self.urgent);
        ended.map_err(|_| LabError::TaskLost)
    }
}
