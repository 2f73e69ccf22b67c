//! Tasks of a runtime, each with a periodic timer.

use std::sync::mpsc::{self, Sender};
use std::time::{Duration, Instant};

use super::super::contestant::Stage;
use super::super::timers::{Host, Job, Lateness, Ticks as _, Timers, WORKERS, gather};
use super::super::trial::{Outcome, Trial};
use super::schedule::{Schedule, TIMERS, schedules};
use crate::error::LabError;

/// From the creation of the tasks to the start of their schedules.
const BEGINS_IN: Duration = Duration::from_millis(20);

/// One runtime.
#[derive(Debug)]
pub(super) struct Tickers<T: Timers> {
    stage: Stage,
    timers: T,
    variant: &'static str,
    baseline: bool,
    host: Option<T::Host>,
}

impl<T: Timers> Tickers<T> {
    pub(super) fn new(stage: Stage, timers: T, variant: &'static str) -> Self {
        Self {
            stage,
            timers,
            variant,
            baseline: false,
            host: None,
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

impl<T: Timers> Trial for Tickers<T> {
    fn name(&self) -> &'static str {
        T::NAME
    }

    fn variant(&self) -> &'static str {
        self.variant
    }

    fn is_baseline(&self) -> bool {
        self.baseline
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
        let schedules = schedules(Duration::from_millis(u64::from(amount)));
        let due: u64 = schedules.iter().map(|one| u64::from(one.ticks)).sum();
        let begin = Instant::now() + BEGINS_IN;
        let (done, results) = mpsc::channel();
        let mut jobs: [Vec<Job>; WORKERS] = Default::default();
        for (index, schedule) in schedules.into_iter().enumerate() {
            let job = tick_all(self.timers.clone(), begin, schedule, done.clone());
            jobs[index % WORKERS].push(Box::pin(job));
        }
        drop(done);
        for (core, jobs) in jobs.into_iter().enumerate() {
            self.timers.run(host, core, jobs)?;
        }
        outcome(&gather(&results, TIMERS)?, due)
    }

    fn teardown(&mut self) -> Result<(), LabError> {
        self.host.take().map_or(Ok(()), Host::stop)
    }
}

async fn tick_all<T: Timers>(
    timers: T,
    begin: Instant,
    schedule: Schedule,
    done: Sender<Lateness>,
) {
    let mut lateness = Lateness::default();
    let start = begin + schedule.offset;
    let mut ticks = timers.ticks(start, schedule.period);
    for tick in 0..schedule.ticks {
        ticks.tick().await;
        lateness.note(start + schedule.period * tick, Instant::now());
    }
    // The receiver is gone only if the waiting thread has panicked.
    let _ = done.send(lateness);
}

/// All timers together, if they ticked as often as they must.
pub(super) fn outcome(timers: &[Lateness], expected: u64) -> Result<Outcome, LabError> {
    let mut all = Lateness::default();
    for one in timers {
        all.add(one);
    }
    if all.count() != expected {
        return Err(LabError::TimersMiscounted {
            what: "ticks",
            expected,
            found: all.count(),
        });
    }
    Ok(all.into_outcome())
}
