//! `doorbell lab stuck`: how others do the work of a core that is inside a long poll.
//!
//! On one of two cores a task queues 1, 2 or 4 others, or another task sleeps; then a poll takes 10 ms
//! there. The other core is parked, or awake with short polls. The lateness of a queued task is the time
//! until it starts; that of the sleeping one is the time from its deadline until it continues.

mod columns;
mod inside;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::time::{Duration, Instant};

use futures::channel::oneshot;

use super::contestant::Stage;
use super::options::Options;
use super::timers::{Doorbell, Host, Lateness, Tokio, gather};
use super::trial::{Outcome, Plan, Trial, Work, run as run_trials};
use crate::error::LabError;
use crate::report::Report;
use inside::Inside;

/// How often the core is stuck in a pass.
const TIMES: u32 = 200;
/// The same for a first look.
const TIMES_QUICK: u32 = 40;
/// The length of the long poll.
const STUCK: Duration = Duration::from_millis(10);
/// The length of the sleep.
const SLEEP: Duration = Duration::from_millis(1);
/// The time between two long polls, in which the other core falls asleep.
const PAUSE: Duration = Duration::from_millis(2);
/// The length of a poll on the core that is awake.
const SHORT: Duration = Duration::from_micros(20);
/// How often a task is spawned again when the other core took it at once.
const TRIES: u32 = 100;
/// The stuck core.
const CORE: usize = 0;
/// A pass that takes longer counts as hung.
const PASS_MAX: Duration = Duration::from_mins(1);

/// The work that waits on the stuck core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waits {
    /// This many queued tasks.
    Queued(usize),
    /// A sleeping task.
    Sleeping,
}

/// The state of the other core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Other {
    Parked,
    Awake,
}

/// All variants, with their names in the table.
const VARIANTS: [(&str, Waits, Other); 8] = [
    ("1 task, other parked", Waits::Queued(1), Other::Parked),
    ("2 tasks, other parked", Waits::Queued(2), Other::Parked),
    ("4 tasks, other parked", Waits::Queued(4), Other::Parked),
    ("1 task, other awake", Waits::Queued(1), Other::Awake),
    ("2 tasks, other awake", Waits::Queued(2), Other::Awake),
    ("4 tasks, other awake", Waits::Queued(4), Other::Awake),
    ("timer, other parked", Waits::Sleeping, Other::Parked),
    ("timer, other awake", Waits::Sleeping, Other::Awake),
];

#[derive(Debug)]
struct Stuck<T: Inside> {
    stage: Stage,
    timers: T,
    variant: &'static str,
    waits: Waits,
    other: Other,
    is_baseline: bool,
    host: Option<T::Host>,
}

impl<T: Inside> Trial for Stuck<T> {
    fn name(&self) -> &'static str {
        T::NAME
    }

    fn variant(&self) -> &'static str {
        self.variant
    }

    fn group(&self) -> &'static str {
        self.variant
    }

    fn is_baseline(&self) -> bool {
        self.is_baseline
    }

    fn setup(&mut self) -> Result<(), LabError> {
        self.host = Some(T::Host::start(self.stage.placement)?);
        Ok(())
    }

    fn run(&mut self, amount: u32) -> Result<Outcome, LabError> {
        let host = self.host.as_ref().ok_or(LabError::NotSetUp)?;
        let ends = Arc::new(AtomicBool::new(false));
        if self.other == Other::Awake {
            let ends = Arc::clone(&ends);
            host.run(1 - CORE, vec![Box::pin(stay_awake::<T>(ends))])?;
        }
        let (done, results) = mpsc::channel();
        let job = block(self.timers.clone(), self.waits, amount, done);
        host.run(CORE, vec![Box::pin(job)])?;
        let found = gather(&results, 1);
        // ORDER: Relaxed; a flag that publishes nothing and may be seen late.
        ends.store(true, Ordering::Relaxed);
        let late: Lateness = found?.remove(0);
        let outcome = late.into_outcome();
        if let Waits::Queued(tasks) = self.waits
            && outcome.operations != tasks as u64 * u64::from(amount)
        {
            return Err(LabError::TaskLost);
        }
        Ok(outcome)
    }

    fn teardown(&mut self) -> Result<(), LabError> {
        self.host.take().map_or(Ok(()), Host::stop)
    }
}

fn busy(time: Duration) {
    let began = Instant::now();
    while began.elapsed() < time {}
}

async fn stay_awake<T: Inside>(ends: Arc<AtomicBool>) {
    // ORDER: Relaxed; as where it is set.
    while !ends.load(Ordering::Relaxed) {
        busy(SHORT);
        T::yield_now().await;
    }
}

/// The task that blocks its core, `times` times.
async fn block<T: Inside>(timers: T, waits: Waits, times: u32, done: Sender<Lateness>) {
    let mut late = Lateness::default();
    for _ in 0..times {
        // A timer of this task's core wakes it.
        timers.sleep(PAUSE).await;
        match waits {
            Waits::Queued(tasks) => queued::<T>(tasks, &mut late).await,
            Waits::Sleeping => sleeping(&timers, &mut late).await,
        }
    }
    // The receiver is gone only if the waiting thread has panicked.
    let _ = done.send(late);
}

/// Spawns tasks here and notes how late each starts.
async fn queued<T: Inside>(tasks: usize, late: &mut Lateness) {
    let spawn = |_| {
        let (tell, told) = oneshot::channel();
        let spawned = Instant::now();
        T::spawn(Box::pin(async move {
            // The receiver is gone only if the runtime has ended.
            let _ = tell.send(Instant::now());
        }));
        (spawned, told)
    };
    let all: Vec<_> = (0..tasks).map(spawn).collect();
    busy(STUCK);
    for (spawned, told) in all {
        if let Ok(ran) = told.await {
            late.note(spawned, ran);
        }
    }
}

/// Notes how late a task that sleeps here continues. Notes nothing if in every try the other core took the
/// sleeping or the computing task.
async fn sleeping<T: Inside>(timers: &T, late: &mut Lateness) {
    let home = T::here();
    for _ in 0..TRIES {
        let (sleeps, asleep) = oneshot::channel();
        let (wakes, awake) = oneshot::channel();
        let timers = timers.clone();
        T::spawn(Box::pin(async move {
            let due = Instant::now() + SLEEP;
            let lives_here = T::here() == home;
            let _ = sleeps.send(lives_here);
            if lives_here {
                timers.sleep(SLEEP).await;
                let _ = wakes.send((due, Instant::now()));
            }
        }));
        // It may have continued on the other core.
        if asleep.await == Ok(true) && T::here() == home {
            busy(STUCK);
            if let Ok((due, ran)) = awake.await {
                late.note(due, ran);
            }
            return;
        }
    }
}

pub(super) fn contestants(stage: Stage) -> Vec<Box<dyn Trial>> {
    fn one<T: Inside>(stage: Stage, timers: T, at: usize, is_baseline: bool) -> Box<dyn Trial> {
        let (variant, waits, other) = VARIANTS[at];
        Box::new(Stuck {
            stage,
            timers,
            variant,
            waits,
            other,
            is_baseline,
            host: None,
        })
    }
    let both = |at| {
        [
            one(stage, Tokio, at, true),
            one(stage, Doorbell::default(), at, false),
        ]
    };
    (0..VARIANTS.len()).flat_map(both).collect()
}

/// Runs the scenario.
///
/// # Errors
/// Any [`LabError`], for example too few CPUs, a filter that matches no contestant, or a failing
/// contestant.
pub(crate) fn run(options: &Options) -> Result<Report, LabError> {
    let amount = if options.quick { TIMES_QUICK } else { TIMES };
    let plan = Plan {
        scenario: "stuck",
        work: Work {
            amount,
            warm_up: 5,
            counted: TIMES_QUICK,
            pass_max: PASS_MAX,
        },
        compared: "p99_us",
        spreads: &columns::SPREADS,
        columns: columns::columns(),
        chart: columns::chart(),
        conclude: columns::conclude,
    };
    run_trials(plan, options, contestants)
}

#[cfg(test)]
mod tests;
