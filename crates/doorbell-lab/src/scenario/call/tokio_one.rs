//! tokio as it is commonly used: one multi-thread runtime, and a spawned task for each call.
//!
//! The workers are not pinned. A spawned task may run on the caller's CPU, and mostly does: the column
//! `crossed %` shows how often it did not.

use tokio::runtime::{Builder, Runtime};

use super::super::common::tokio_error;
use super::super::contestant::{Contestant, Observed, Speed, Stage};
use super::meter::{Meter, Tally};
use crate::error::LabError;
use crate::measure::Samples;

const WORKERS: usize = 2;

/// `spawn` and `await` within one runtime.
#[derive(Debug)]
pub(crate) struct TokioOne {
    stage: Stage,
    tally: &'static Tally,
    runtime: Option<Runtime>,
}

impl TokioOne {
    /// A contestant that is not set up yet.
    pub(crate) fn new(stage: Stage) -> Self {
        Self {
            stage,
            tally: Tally::leaked(),
            runtime: None,
        }
    }
}

impl Contestant for TokioOne {
    fn name(&self) -> &'static str {
        "tokio"
    }

    fn variant(&self) -> &'static str {
        "one runtime, spawn"
    }

    fn speed(&self) -> Speed {
        Speed::Fast
    }

    fn setup(&mut self) -> Result<(), LabError> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(WORKERS)
            .enable_all()
            .build()
            .map_err(tokio_error)?;
        self.runtime = Some(runtime);
        Ok(())
    }

    fn run(&mut self, calls: u32, samples: &mut Samples) -> Result<Observed, LabError> {
        let runtime = self.runtime.as_ref().ok_or(LabError::NotSetUp)?;
        let tally = self.tally;
        let meter = Meter::begin(self.stage.clock, tally.served(), samples);
        // The caller is a task too; the main thread only waits for it.
        let caller = runtime.spawn(make_calls(calls, tally, meter));
        let meter = runtime.block_on(caller).map_err(|_| LabError::CallLost {
            reason: "the calling task panicked",
        })??;
        meter.finish(tally.served(), samples)
    }

    fn teardown(&mut self) -> Result<(), LabError> {
        // Dropping a runtime waits for its workers.
        self.runtime = None;
        Ok(())
    }
}

async fn make_calls(
    calls: u32,
    tally: &'static Tally,
    mut meter: Meter,
) -> Result<Meter, LabError> {
    for _ in 0..calls {
        let start = meter.start();
        let answer =
            tokio::spawn(async { tally.serve() })
                .await
                .map_err(|_| LabError::CallLost {
                    reason: "the spawned task did not end",
                })?;
        meter.stop(start, answer);
    }
    Ok(meter)
}
