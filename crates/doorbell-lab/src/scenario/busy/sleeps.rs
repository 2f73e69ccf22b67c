//! Sleeps and ticks of a runtime that has nothing else to do, however its worker waits for them.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use doorbell::IdlePolicy;

use super::super::hosts::{Doorbell, Host, Tokio, Workers};
use super::super::timers::{self, Lateness, Ticks as _, Timers, gather, tell};
use super::super::trial::{Outcome, Trial};
use crate::error::LabError;

/// How long a worker spins in the row that says so.
const SPIN: Duration = Duration::from_millis(5);
/// The rows of doorbell that have a goal.
pub(super) const SPINNING: [&str; 2] = ["doorbell, NeverPark", "doorbell, spin(5 ms)"];

/// How long a task sleeps each time, or the time between two ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wait {
    Sleep(Duration),
    Ticks(Duration),
}

/// All of them, with their names in the table.
const WAITS: [(&str, Wait); 5] = [
    ("sleeps of 0.2 ms", Wait::Sleep(Duration::from_micros(200))),
    ("sleeps of 1 ms", Wait::Sleep(Duration::from_millis(1))),
    ("sleeps of 5 ms", Wait::Sleep(Duration::from_millis(5))),
    ("sleeps of 20 ms", Wait::Sleep(Duration::from_millis(20))),
    ("an interval of 1 ms", Wait::Ticks(Duration::from_millis(1))),
];

/// Starts a runtime.
type Start<H> = fn() -> Result<H, LabError>;

/// One way to wait on one runtime with one worker.
#[derive(Debug)]
struct Sleeps<H, T> {
    name: &'static str,
    variant: &'static str,
    wait: Wait,
    start: Start<H>,
    timers: T,
    host: Option<H>,
}

impl<H: Host, T: Timers> Trial for Sleeps<H, T> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn variant(&self) -> &'static str {
        self.variant
    }

    fn group(&self) -> &'static str {
        self.variant
    }

    fn is_baseline(&self) -> bool {
        self.name == Tokio::NAME
    }

    fn setup(&mut self) -> Result<(), LabError> {
        self.host = Some((self.start)()?);
        Ok(())
    }

    fn run(&mut self, amount_ms: u32) -> Result<Outcome, LabError> {
        let host = self.host.as_mut().ok_or(LabError::NotSetUp)?;
        let (done, results) = mpsc::channel();
        let span = Duration::from_millis(u64::from(amount_ms));
        host.spawn(tell(done, wait(self.timers.clone(), self.wait, span)))?;
        let late: Lateness = gather(&results, 1)?.remove(0);
        Ok(late.into_outcome())
    }

    fn teardown(&mut self) -> Result<(), LabError> {
        self.host.take().map_or(Ok(()), H::stop)
    }
}

/// Waits again and again until `span` is over, and at least once.
async fn wait<T: Timers>(timers: T, wait: Wait, span: Duration) -> Lateness {
    let ends = Instant::now() + span;
    let mut late = Lateness::default();
    match wait {
        Wait::Sleep(length) => loop {
            let due = Instant::now() + length;
            timers.sleep(length).await;
            late.note(due, Instant::now());
            if due >= ends {
                return late;
            }
        },
        Wait::Ticks(period) => {
            let mut due = Instant::now() + period;
            let mut ticks = timers.ticks(due, period);
            loop {
                ticks.tick().await;
                late.note(due, Instant::now());
                if due >= ends {
                    return late;
                }
                due += period;
            }
        }
    }
}

fn parking() -> Result<Doorbell, LabError> {
    Doorbell::free(1, |builder| builder)
}

fn never_parking() -> Result<Doorbell, LabError> {
    Doorbell::free(1, |builder| builder.idle(IdlePolicy::NeverPark))
}

fn spinning() -> Result<Doorbell, LabError> {
    Doorbell::free(1, |builder| builder.spin(SPIN))
}

pub(super) fn contestants() -> Vec<Box<dyn Trial>> {
    let [never_parks, spins] = SPINNING;
    let mut all: Vec<Box<dyn Trial>> = Vec::new();
    for (variant, wait) in WAITS {
        all.push(Box::new(Sleeps {
            name: Tokio::NAME,
            variant,
            wait,
            start: || <Tokio as Host>::start(Workers::Free(1)),
            timers: timers::Tokio,
            host: None,
        }));
        let ours: [(_, Start<Doorbell>); 3] = [
            (Doorbell::NAME, parking),
            (never_parks, never_parking),
            (spins, spinning),
        ];
        for (name, start) in ours {
            all.push(Box::new(Sleeps {
                name,
                variant,
                wait,
                start,
                timers: timers::Doorbell::default(),
                host: None,
            }));
        }
    }
    all
}
