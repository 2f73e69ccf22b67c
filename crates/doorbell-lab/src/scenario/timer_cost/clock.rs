//! Reading std's clock, a part of most sleeps.

use std::hint::black_box;
use std::time::Instant;

use super::super::contestant::Stage;
use super::super::trial::{Outcome, Trial};
use super::pattern::{Pattern, Timing};
use super::sleeps::outcome;
use crate::error::LabError;
use crate::measure::Pin;

/// `std::time::Instant::now()`.
#[derive(Debug)]
pub(super) struct ClockAlone {
    stage: Stage,
    label: String,
}

impl ClockAlone {
    pub(super) fn new(stage: Stage) -> Self {
        Self {
            stage,
            label: Pattern::Clock.label().into_owned(),
        }
    }
}

impl Trial for ClockAlone {
    fn name(&self) -> &'static str {
        "std"
    }

    fn variant(&self) -> &str {
        &self.label
    }

    fn group(&self) -> &str {
        &self.label
    }

    fn is_baseline(&self) -> bool {
        true
    }

    fn setup(&mut self) -> Result<(), LabError> {
        Ok(())
    }

    fn run(&mut self, amount: u32) -> Result<Outcome, LabError> {
        let _here = Pin::to(self.stage.placement.caller_cpu)?;
        let start = Instant::now();
        for _ in 0..amount {
            black_box(Instant::now());
        }
        let op_ns = start.elapsed().as_secs_f64() * 1e9 / f64::from(amount.max(1));
        let pending = u64::from(amount);
        outcome(&[Timing { op_ns, pending }], amount)
    }

    fn teardown(&mut self) -> Result<(), LabError> {
        Ok(())
    }
}
