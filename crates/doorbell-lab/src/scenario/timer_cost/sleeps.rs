//! The sleeps of a runtime.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::future::{pending, poll_fn};
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::task::Poll;
use std::time::Duration;

use super::super::contestant::Stage;
use super::super::timers::{Host, Job, Meeting, Shelf, Timers, gather};
use super::super::trial::{Outcome, Trial};
use super::pattern::{Pattern, Timing, time};
use crate::error::LabError;

/// How long a task sleeps before it starts: its worker parks, and so computes what it has to wait for.
const PARK: Duration = Duration::from_millis(1);

/// One way to sleep, in one pattern.
#[derive(Debug)]
pub(super) struct Sleeps<T: Timers> {
    stage: Stage,
    timers: T,
    pattern: Pattern,
    /// The name of the pattern, and where the tasks run.
    variant: Cow<'static, str>,
    group: Cow<'static, str>,
    host: Option<T::Host>,
}

impl<T: Timers> Sleeps<T> {
    pub(super) fn new(stage: Stage, timers: T, pattern: Pattern) -> Self {
        Self {
            stage,
            timers,
            pattern,
            variant: pattern.label(),
            group: pattern.label(),
            host: None,
        }
    }

    /// Marks the variant as one with a setting of its own.
    pub(super) fn with(mut self, setting: &str) -> Self {
        self.variant = format!("{}, {setting}", self.variant).into();
        self
    }

    /// Marks the variant as one in which the runtime places the tasks.
    pub(super) fn unpinned(mut self) -> Self {
        self.variant = format!("{}, unpinned", self.group).into();
        self
    }
}

impl<T: Timers> Trial for Sleeps<T> {
    fn name(&self) -> &'static str {
        T::NAME
    }

    fn variant(&self) -> &str {
        &self.variant
    }

    fn group(&self) -> &str {
        &self.group
    }

    fn setup(&mut self) -> Result<(), LabError> {
        let host = self.host.insert(T::Host::start(self.stage.placement)?);
        self.timers.prepare(host);
        let (armed, wait) = mpsc::channel();
        host.keep(0, Box::pin(hold(self.timers.clone(), self.pattern, armed)))?;
        gather(&wait, 1)?;
        Ok(())
    }

    fn run(&mut self, amount: u32) -> Result<Outcome, LabError> {
        let host = self.host.as_ref().ok_or(LabError::NotSetUp)?;
        let tasks = self.pattern.tasks();
        let meeting = Arc::new(Meeting::of(tasks as u32));
        let (done, results) = mpsc::channel();
        for core in 0..tasks {
            let (timers, meeting, done) = (self.timers.clone(), Arc::clone(&meeting), done.clone());
            let job: Job = Box::pin(measure(timers, self.pattern, amount, meeting, done));
            // If pinned: on the worker with the pending sleeps, which a runtime may keep per worker.
            self.timers.run(host, core, vec![job])?;
        }
        drop(done);
        outcome(&gather(&results, tasks)?, amount)
    }

    fn teardown(&mut self) -> Result<(), LabError> {
        self.host.take().map_or(Ok(()), Host::stop)
    }
}

/// Keeps sleeps pending until it is dropped.
async fn hold<T: Timers>(timers: T, pattern: Pattern, armed: Sender<()>) {
    let mut shelf = Shelf::with_room_for(pattern.standing_count());
    T::unbudgeted(poll_fn(|cx| {
        for ahead in pattern.standing() {
            // The result is ignored: the sleep must only stay until it is dropped.
            let _ = shelf.put(timers.sleep(ahead)).poll(cx);
        }
        Poll::Ready(())
    }))
    .await;
    // The receiver is gone only if the waiting thread has panicked.
    let _ = armed.send(());
    pending::<()>().await;
    drop(shelf);
}

async fn measure<T: Timers>(
    timers: T,
    pattern: Pattern,
    operations: u32,
    meeting: Arc<Meeting>,
    done: Sender<Timing>,
) {
    timers.sleep(PARK).await;
    meeting.arrive().await;
    let timing = T::unbudgeted(poll_fn(|cx| {
        Poll::Ready(time(&timers, pattern, operations, cx))
    }))
    .await;
    // The receiver is gone only if the waiting thread has panicked.
    let _ = done.send(timing);
}

/// The mean of all tasks, if each of their sleeps was pending.
pub(super) fn outcome(timings: &[Timing], operations: u32) -> Result<Outcome, LabError> {
    let expected = u64::from(operations) * timings.len() as u64;
    let found = timings.iter().map(|timing| timing.pending).sum();
    if found != expected {
        return Err(LabError::TimersMiscounted {
            what: "sleeps pending at their first poll",
            expected,
            found,
        });
    }
    let sum: f64 = timings.iter().map(|timing| timing.op_ns).sum();
    Ok(Outcome {
        operations: expected,
        figures: BTreeMap::from([("op_ns", sum / timings.len() as f64)]),
        ..Outcome::default()
    })
}
