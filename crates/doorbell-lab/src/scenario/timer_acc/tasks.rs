//! Sleeping tasks of a runtime.

use std::sync::mpsc::{self, Sender};
use std::time::{Duration, Instant};

use super::super::contestant::Stage;
use super::super::timers::{Host, Job, Lateness, Timers, WORKERS, gather};
use super::super::trial::{Outcome, Trial};
use super::{SLEEPERS, lengths};
use crate::error::LabError;

/// One runtime.
#[derive(Debug)]
pub(super) struct Tasks<T: Timers> {
    stage: Stage,
    timers: T,
    variant: &'static str,
    host: Option<T::Host>,
}

impl<T: Timers> Tasks<T> {
    pub(super) fn new(stage: Stage, timers: T, variant: &'static str) -> Self {
        Self {
            stage,
            timers,
            variant,
            host: None,
        }
    }
}

impl<T: Timers> Trial for Tasks<T> {
    fn name(&self) -> &'static str {
        T::NAME
    }

    fn variant(&self) -> &'static str {
        self.variant
    }

    fn group(&self) -> &'static str {
        super::GROUP
    }

    fn setup(&mut self) -> Result<(), LabError> {
        self.host = Some(T::Host::start(self.stage.placement)?);
        Ok(())
    }

    fn run(&mut self, amount: u32) -> Result<Outcome, LabError> {
        let host = self.host.as_ref().ok_or(LabError::NotSetUp)?;
        let (done, results) = mpsc::channel();
        let mut jobs: [Vec<Job>; WORKERS] = Default::default();
        for (index, lengths) in lengths(amount).into_iter().enumerate() {
            let job = sleep_all(self.timers.clone(), lengths, done.clone());
            jobs[index % WORKERS].push(Box::pin(job));
        }
        drop(done);
        for (core, jobs) in jobs.into_iter().enumerate() {
            self.timers.run(host, core, jobs)?;
        }
        outcome(&gather(&results, SLEEPERS)?, amount)
    }

    fn teardown(&mut self) -> Result<(), LabError> {
        self.host.take().map_or(Ok(()), Host::stop)
    }
}

async fn sleep_all<T: Timers>(timers: T, lengths: Vec<Duration>, done: Sender<Lateness>) {
    let mut lateness = Lateness::default();
    for length in lengths {
        let due = Instant::now() + length;
        timers.sleep(length).await;
        lateness.note(due, Instant::now());
    }
    // The receiver is gone only if the waiting thread has panicked.
    let _ = done.send(lateness);
}

/// All sleepers together, if each has slept as often as it must.
pub(super) fn outcome(sleepers: &[Lateness], sleeps: u32) -> Result<Outcome, LabError> {
    let mut all = Lateness::default();
    for one in sleepers {
        all.add(one);
    }
    let expected = SLEEPERS as u64 * u64::from(sleeps);
    if all.count() != expected {
        return Err(LabError::TimersMiscounted {
            what: "sleeps",
            expected,
            found: all.count(),
        });
    }
    Ok(all.into_outcome())
}
