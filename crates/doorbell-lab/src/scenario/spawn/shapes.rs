//! A contestant: one shape on one runtime.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::trial::{Outcome, Trial};
use super::peers::Peer;
use super::shape::Shape;
use crate::error::LabError;

/// The percentage of a full pass.
pub(super) const FULL_PERCENT: u32 = 100;

/// One shape on one runtime.
#[derive(Debug)]
pub(super) struct Shapes<P: Peer> {
    shape: Shape,
    baseline: bool,
    peer: Option<P>,
}

impl<P: Peer> Shapes<P> {
    pub(super) fn new(shape: Shape) -> Self {
        Self {
            shape,
            baseline: false,
            peer: None,
        }
    }

    /// Makes it the baseline.
    pub(super) fn baseline(self) -> Self {
        Self {
            baseline: true,
            ..self
        }
    }
}

impl<P: Peer> Trial for Shapes<P> {
    fn name(&self) -> &'static str {
        P::NAME
    }

    fn variant(&self) -> &'static str {
        self.shape.name()
    }

    fn group(&self) -> &'static str {
        self.shape.name()
    }

    fn is_baseline(&self) -> bool {
        self.baseline
    }

    fn setup(&mut self) -> Result<(), LabError> {
        self.peer = Some(P::start()?);
        Ok(())
    }

    fn run(&mut self, percent: u32) -> Result<Outcome, LabError> {
        let peer = self.peer.as_ref().ok_or(LabError::NotSetUp)?;
        let times = times(self.shape.times(), percent);
        let span = self.shape.drive(peer, times)?;
        Ok(outcome(
            u64::from(self.shape.operations()) * u64::from(times),
            span,
        ))
    }

    fn teardown(&mut self) -> Result<(), LabError> {
        // Dropping a runtime waits for its workers.
        self.peer = None;
        Ok(())
    }
}

/// This percentage of a full pass, at least one execution.
pub(super) fn times(full: u32, percent: u32) -> u32 {
    (full * percent / FULL_PERCENT).max(1)
}

/// The rate is compared; more is better.
pub(super) fn outcome(operations: u64, span: Duration) -> Outcome {
    let op_ns = span.as_nanos() as f64 / operations.max(1) as f64;
    Outcome {
        operations,
        figures: BTreeMap::from([("op_ns", op_ns), ("ops_per_s", 1e9 / op_ns)]),
        ..Outcome::default()
    }
}
