//! The runtimes, each with one worker on the caller's CPU and one on the callee's.

use std::pin::Pin as Pinned;
use std::sync::mpsc;
use std::task::{Context, Waker};
use std::thread::JoinHandle;

use doorbell::{Switches, TimerPull};
use futures::future::join_all;

use super::super::common::{join, start_async_io, thread_on, tokio_on};
use super::WORKERS;
use crate::error::LabError;
use crate::measure::Placement;

const THREAD: &str = "async-io-worker";

/// A task of a host.
pub(crate) type Job = Pinned<Box<dyn Future<Output = ()> + Send>>;

/// A runtime, or threads that stand for one.
pub(crate) trait Host: Sized {
    /// Starts its workers.
    fn start(placement: Placement) -> Result<Self, LabError>;

    /// Runs jobs without waiting for them. A runtime places them as it does by default; `core` is for
    /// threads without a runtime.
    fn run(&self, core: usize, jobs: Vec<Job>) -> Result<(), LabError>;

    /// The same, on worker `core` if the runtime can be told.
    fn run_on(&self, core: usize, jobs: Vec<Job>) -> Result<(), LabError> {
        self.run(core, jobs)
    }

    /// Polls a job once, on worker `core` if the runtime can be told, and keeps it until the host stops.
    fn keep(&self, core: usize, job: Job) -> Result<(), LabError>;

    /// Drops what is left, and ends the workers.
    fn stop(self) -> Result<(), LabError>;
}

fn cpus(placement: Placement) -> [usize; WORKERS] {
    [placement.caller_cpu, placement.callee_cpu]
}

/// A doorbell runtime with two workers.
#[derive(Debug)]
pub(crate) struct DoorbellWorkers(doorbell::Runtime);

impl DoorbellWorkers {
    /// Turns the switch `timer_pull`.
    pub(crate) fn turn(&self, timer_pull: TimerPull) {
        let handle = self.0.handle();
        handle.set_switches(Switches {
            timer_pull,
            ..handle.switches()
        });
    }
}

impl Host for DoorbellWorkers {
    fn start(placement: Placement) -> Result<Self, LabError> {
        let builder = doorbell::Builder::new().core_list(cpus(placement));
        Ok(Self(builder.name("lab").build()?))
    }

    fn run(&self, _: usize, jobs: Vec<Job>) -> Result<(), LabError> {
        for job in jobs {
            drop(self.0.spawn(job));
        }
        Ok(())
    }

    fn run_on(&self, core: usize, jobs: Vec<Job>) -> Result<(), LabError> {
        for job in jobs {
            drop(self.0.task().on(core).spawn(job));
        }
        Ok(())
    }

    fn keep(&self, core: usize, job: Job) -> Result<(), LabError> {
        self.run_on(core, vec![job])
    }

    fn stop(self) -> Result<(), LabError> {
        drop(self);
        Ok(())
    }
}

/// tokio's multi-thread runtime, with all its drivers. It places tasks by itself.
#[derive(Debug)]
pub(crate) struct TokioWorkers(tokio::runtime::Runtime);

impl Host for TokioWorkers {
    fn start(placement: Placement) -> Result<Self, LabError> {
        Ok(Self(tokio_on(cpus(placement))?))
    }

    fn run(&self, _: usize, jobs: Vec<Job>) -> Result<(), LabError> {
        for job in jobs {
            drop(self.0.spawn(job));
        }
        Ok(())
    }

    fn keep(&self, core: usize, job: Job) -> Result<(), LabError> {
        self.run(core, vec![job])
    }

    fn stop(self) -> Result<(), LabError> {
        drop(self);
        Ok(())
    }
}

enum Order {
    Run(Vec<Job>),
    Keep(Job),
}

/// Two threads in `async_io::block_on`. async-io has one more thread, which lives as long as the program.
#[derive(Debug)]
pub(crate) struct AsyncIoThreads {
    threads: Vec<(mpsc::Sender<Order>, JoinHandle<()>)>,
}

impl AsyncIoThreads {
    fn order(&self, core: usize, order: Order) -> Result<(), LabError> {
        let (orders, _) = &self.threads[core];
        orders
            .send(order)
            .map_err(|_| LabError::ThreadPanicked { thread: THREAD })
    }
}

impl Host for AsyncIoThreads {
    fn start(placement: Placement) -> Result<Self, LabError> {
        start_async_io()?;
        let start_one = |cpu| {
            let (orders, inject) = mpsc::channel();
            let thread = thread_on(THREAD, Some(cpu), move || follow(&inject))?;
            Ok((orders, thread))
        };
        let threads: Result<Vec<_>, LabError> =
            cpus(placement).map(start_one).into_iter().collect();
        Ok(Self { threads: threads? })
    }

    fn run(&self, core: usize, jobs: Vec<Job>) -> Result<(), LabError> {
        self.order(core, Order::Run(jobs))
    }

    fn keep(&self, core: usize, job: Job) -> Result<(), LabError> {
        self.order(core, Order::Keep(job))
    }

    fn stop(self) -> Result<(), LabError> {
        for (orders, thread) in self.threads {
            drop(orders);
            join(thread, THREAD)?;
        }
        Ok(())
    }
}

fn follow(inject: &mpsc::Receiver<Order>) {
    let mut kept = Vec::new();
    while let Ok(order) = inject.recv() {
        match order {
            Order::Run(jobs) => drop(async_io::block_on(join_all(jobs))),
            Order::Keep(mut job) => {
                let mut context = Context::from_waker(Waker::noop());
                if job.as_mut().poll(&mut context).is_pending() {
                    kept.push(job);
                }
            }
        }
    }
}
