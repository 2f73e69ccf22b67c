//! `doorbell lab stuck`: who does the work of a core that is inside a long poll.
//!
//! On one of two cores a task puts 1, 2 or 4 others into the queue, or another one sleeps there, and
//! then its poll takes 10 ms. The other core is parked, or awake with short polls. A queued task is late
//! by the time until it starts; the sleeping one by the time from its deadline until it goes on.

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
/// The same, for a first look.
const TIMES_QUICK: u32 = 40;
/// How long the poll is.
const STUCK: Duration = Duration::from_millis(10);
/// When the sleep ends, after it was begun.
const SLEEP: Duration = Duration::from_millis(1);
/// Between two long polls; the other core goes to sleep meanwhile.
const PAUSE: Duration = Duration::from_millis(2);
/// A poll of the core that is awake.
const SHORT: Duration = Duration::from_micros(20);
/// How often a task is spawned again that another core took at once.
const TRIES: u32 = 100;
/// The core that is stuck.
const CORE: usize = 0;
/// A pass that takes longer stands still.
const PASS_MAX: Duration = Duration::from_mins(1);

/// What waits on the stuck core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waits {
    /// So many tasks in the queue.
    Queued(usize),
    /// A task that sleeps.
    Sleeping,
}

/// What the other core does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Other {
    Parked,
    Awake,
}

/// All of them, as the table names them.
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
        // ORDER: seen some time; nothing else hangs on it.
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
    // ORDER: as where it is set.
    while !ends.load(Ordering::Relaxed) {
        busy(SHORT);
        T::yield_now().await;
    }
}

/// The task that has its core stuck, so many times.
async fn block<T: Inside>(timers: T, waits: Waits, times: u32, done: Sender<Lateness>) {
    let mut late = Lateness::default();
    for _ in 0..times {
        // What wakes this one is a timer of its core.
        timers.sleep(PAUSE).await;
        match waits {
            Waits::Queued(tasks) => queued::<T>(tasks, &mut late).await,
            Waits::Sleeping => sleeping(&timers, &mut late).await,
        }
    }
    // Nobody listens only if the waiting thread has panicked.
    let _ = done.send(late);
}

/// How late each of so many tasks ran that are spawned here, one after another.
async fn queued<T: Inside>(tasks: usize, late: &mut Lateness) {
    let spawn = |_| {
        let (tell, told) = oneshot::channel();
        let spawned = Instant::now();
        T::spawn(Box::pin(async move {
            // Nobody listens only if the runtime has ended.
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

/// How late a task goes on that sleeps here. Nothing is noted if another core took one of the two each
/// time before the one could sleep here and the other compute.
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
        // It may have gone on elsewhere.
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

/// How to read the table, one sentence for each group of columns.
pub fn reading() -> &'static [&'static str] {
    &columns::READING
}

/// Runs the scenario.
///
/// # Errors
/// Any [`LabError`]: too few CPUs, a filter that leaves nobody, a contestant that fails.
pub fn run(options: &Options) -> Result<Report, LabError> {
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
        reading: reading(),
        chart: columns::chart(),
        conclude: columns::conclude,
    };
    run_trials(plan, options, contestants)
}

#[cfg(test)]
mod tests;
