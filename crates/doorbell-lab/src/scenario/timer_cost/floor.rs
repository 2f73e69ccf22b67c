//! The floor: a wheel on a thread of its own for each task, with nothing shared and no clock read.

use std::borrow::Cow;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use super::super::contestant::Stage;
use super::super::timers::Meeting;
use super::super::trial::{Outcome, Trial};
use super::pattern::{AWAY, BATCH, Pattern, Timing};
use super::sleeps::outcome;
use super::wheel::Wheel;
use crate::error::LabError;
use crate::measure::spawn_pinned;

const THREAD: &str = "wheel";

/// The floor of one pattern.
#[derive(Debug)]
pub(super) struct Floor {
    stage: Stage,
    pattern: Pattern,
    label: Cow<'static, str>,
    /// One for each task.
    wheels: Vec<Wheel>,
}

impl Floor {
    pub(super) fn new(stage: Stage, pattern: Pattern) -> Self {
        Self {
            stage,
            pattern,
            label: pattern.label(),
            wheels: Vec::new(),
        }
    }
}

impl Trial for Floor {
    fn name(&self) -> &'static str {
        "array wheel"
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
        self.wheels = (0..self.pattern.tasks()).map(|_| Wheel::new()).collect();
        for wheel in &mut self.wheels {
            for ahead in self.pattern.standing() {
                wheel.arm(ahead);
            }
        }
        Ok(())
    }

    fn run(&mut self, amount: u32) -> Result<Outcome, LabError> {
        let (placement, pattern) = (self.stage.placement, self.pattern);
        let meeting = Arc::new(Meeting::of(self.wheels.len() as u32));
        let mut threads = Vec::new();
        let cpus = [placement.caller_cpu, placement.callee_cpu];
        for (mut wheel, cpu) in self.wheels.drain(..).zip(cpus) {
            let meeting = Arc::clone(&meeting);
            threads.push(spawn_pinned(THREAD, cpu, move || {
                futures::executor::block_on(meeting.arrive());
                let timing = time(&mut wheel, pattern, amount);
                (wheel, timing)
            })?);
        }
        let mut timings = Vec::new();
        for thread in threads {
            let (wheel, timing) = thread
                .join()
                .map_err(|_| LabError::ThreadPanicked { thread: THREAD })?;
            self.wheels.push(wheel);
            timings.push(timing);
        }
        if timings.is_empty() {
            return Err(LabError::NotSetUp);
        }
        outcome(&timings, amount)
    }

    fn teardown(&mut self) -> Result<(), LabError> {
        self.wheels.clear();
        Ok(())
    }
}

fn time(wheel: &mut Wheel, pattern: Pattern, operations: u32) -> Timing {
    let mut batch = Vec::with_capacity(BATCH as usize);
    let start = Instant::now();
    if pattern == Pattern::Batches {
        for first in (0..operations).step_by(BATCH as usize) {
            for _ in first..operations.min(first + BATCH) {
                batch.push(wheel.arm(black_box(AWAY)));
            }
            for number in batch.drain(..) {
                wheel.disarm(number);
            }
        }
    } else {
        for index in 0..operations {
            let number = wheel.arm(black_box(pattern.ahead(index, operations)));
            wheel.disarm(black_box(number));
        }
    }
    let span = start.elapsed();
    Timing {
        op_ns: span.as_secs_f64() * 1e9 / f64::from(operations.max(1)),
        pending: u64::from(operations),
    }
}
