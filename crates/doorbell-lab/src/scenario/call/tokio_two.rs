//! tokio across CPUs: a current-thread runtime on each of two pinned threads.
//!
//! The caller sends a closure to a task of the other runtime and awaits its answer. That is the
//! thread-per-core style with tokio. Between calls both runtimes park.

use std::thread::JoinHandle;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, oneshot};

use super::super::common::tokio_error;
use super::super::contestant::{Contestant, Observed, Speed, Stage};
use super::meter::{Answer, Meter, Tally, fall_asleep};
use crate::error::LabError;
use crate::measure::{Pin, Samples, spawn_pinned};

const THREAD: &str = "tokio-callee";

/// A closure for the callee.
type Job = Box<dyn FnOnce() + Send>;

#[derive(Debug)]
struct Running {
    caller: Runtime,
    jobs: mpsc::UnboundedSender<Job>,
    thread: JoinHandle<()>,
}

/// Two runtimes, an unbounded channel and a oneshot channel for each call.
#[derive(Debug)]
pub(crate) struct TokioTwo {
    stage: Stage,
    tally: &'static Tally,
    running: Option<Running>,
}

impl TokioTwo {
    /// A contestant that is not set up yet.
    pub(crate) fn new(stage: Stage) -> Self {
        Self {
            stage,
            tally: Tally::leaked(),
            running: None,
        }
    }
}

impl Contestant for TokioTwo {
    fn name(&self) -> &'static str {
        "tokio"
    }

    fn variant(&self) -> &'static str {
        "two runtimes, mpsc, both parked"
    }

    fn speed(&self) -> Speed {
        Speed::Parked
    }

    fn setup(&mut self) -> Result<(), LabError> {
        let (jobs, mut inject) = mpsc::unbounded_channel::<Job>();
        let callee = current_thread_runtime()?;
        let caller = current_thread_runtime()?;
        let thread = spawn_pinned(THREAD, self.stage.placement.callee_cpu, move || {
            callee.block_on(async {
                while let Some(job) = inject.recv().await {
                    job();
                }
            });
        })?;
        self.running = Some(Running {
            caller,
            jobs,
            thread,
        });
        Ok(())
    }

    fn run(&mut self, calls: u32, samples: &mut Samples) -> Result<Observed, LabError> {
        let Running { caller, jobs, .. } = self.running.as_ref().ok_or(LabError::NotSetUp)?;
        let _here = Pin::to(self.stage.placement.caller_cpu)?;
        let tally = self.tally;
        let mut meter = Meter::begin(self.stage.clock, tally.served(), samples);
        caller.block_on(async {
            for _ in 0..calls {
                fall_asleep();
                let start = meter.start();
                let answer = call(jobs, tally).await?;
                meter.stop(start, answer);
            }
            Ok::<(), LabError>(())
        })?;
        meter.finish(tally.served(), samples)
    }

    fn teardown(&mut self) -> Result<(), LabError> {
        let Some(Running {
            caller,
            jobs,
            thread,
        }) = self.running.take()
        else {
            return Ok(());
        };
        drop((caller, jobs));
        thread
            .join()
            .map_err(|_| LabError::ThreadPanicked { thread: THREAD })
    }
}

async fn call(
    jobs: &mpsc::UnboundedSender<Job>,
    tally: &'static Tally,
) -> Result<Answer, LabError> {
    let (reply, answer) = oneshot::channel();
    let job = Box::new(move || {
        // The caller awaits the answer and does not drop the receiver.
        let _ = reply.send(tally.serve());
    });
    jobs.send(job).map_err(|_| LabError::CallLost {
        reason: "the callee's task is gone",
    })?;
    answer.await.map_err(|_| LabError::CallLost {
        reason: "the callee dropped the call",
    })
}

fn current_thread_runtime() -> Result<Runtime, LabError> {
    Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(tokio_error)
}
