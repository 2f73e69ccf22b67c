//! `doorbell lab pingpong`: tasks that wake each other in turn, many pairs at once, and frames of short tasks.
//!
//! The shapes are those by which the kernel's race for an idle CPU was measured: two wakers that choose the same
//! idle worker leave another one idle, and the second task waits behind the first.
//!
//! - *Pairs*, as uperf's ping-pong: 1 to 128 pairs exchange messages of 8 KiB. Both sides are tasks of one
//!   runtime, and the messages stay in memory.
//! - *Frames*, as Jackbench's: 60 times a second a thread outside begins a frame of 8 tasks, each of which
//!   computes for 200 µs. In a *chain* each task wakes the next one; in a *burst* the thread wakes all of them.
//!   A frame takes the time from its first wake to the end of its last task. Between two frames everything is
//!   idle.

mod columns;
mod frames;
mod pairs;
mod times;

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::Duration;

use super::hosts::{Doorbell, Host, Smol, Threads, Tokio, Workers};
use super::options::Options;
use super::steps::steps_for;
use super::trial::{Outcome, Plan, Trial, Work, run as run_trials};
use super::wake_counts::WakeCounts;
use crate::error::LabError;
use crate::measure::{Usage, allowed_cpus};
use crate::report::Report;
use frames::{Order, Shown};
use pairs::Exchanged;

/// The length of a pass of pairs, in ms.
const SPAN_MS: u32 = 500;
/// The same for a first look.
const SPAN_QUICK_MS: u32 = 50;
/// The same before the measurement.
const WARM_UP_MS: u32 = 10;
/// The same in the pass that counts system calls.
const COUNTED_MS: u32 = 20;
/// So many ms of a pass of pairs are so many frames in a pass of frames, which takes longer.
const MS_FOR_FRAMES: [u32; 2] = [10, 3];
/// The work of a task in a frame.
const WORK: Duration = Duration::from_micros(200);
/// A pass that takes longer counts as hung.
const PASS_MAX: Duration = Duration::from_mins(1);

/// What the tasks do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// This many pairs exchange messages.
    Pairs(usize),
    /// Frames begin 60 times a second.
    Frames(Order),
}

impl Shape {
    /// In the order of the table.
    const ALL: [Self; 10] = [
        Self::Pairs(1),
        Self::Pairs(2),
        Self::Pairs(4),
        Self::Pairs(8),
        Self::Pairs(16),
        Self::Pairs(32),
        Self::Pairs(64),
        Self::Pairs(128),
        Self::Frames(Order::Chain),
        Self::Frames(Order::Burst),
    ];

    /// Its name in the table.
    fn name(self) -> &'static str {
        match self {
            Self::Pairs(1) => "1 pair",
            Self::Pairs(2) => "2 pairs",
            Self::Pairs(4) => "4 pairs",
            Self::Pairs(8) => "8 pairs",
            Self::Pairs(16) => "16 pairs",
            Self::Pairs(32) => "32 pairs",
            Self::Pairs(64) => "64 pairs",
            Self::Pairs(_) => "128 pairs",
            Self::Frames(Order::Chain) => "60/s, chain of 8",
            Self::Frames(Order::Burst) => "60/s, burst of 8",
        }
    }
}

/// One shape on one runtime.
#[derive(Debug)]
struct PingPong<H> {
    shape: Shape,
    is_baseline: bool,
    host: Option<H>,
}

/// The work of a task in a frame, the same for all contestants; measured once.
fn steps() -> u64 {
    static STEPS: OnceLock<u64> = OnceLock::new();
    *STEPS.get_or_init(|| steps_for(WORK))
}

/// The number of frames in a pass of this amount.
fn frames_in(amount_ms: u32) -> u32 {
    let [ms, frames] = MS_FOR_FRAMES;
    (amount_ms * frames / ms).max(1)
}

impl<H: Host> Trial for PingPong<H> {
    fn name(&self) -> &'static str {
        H::NAME
    }

    fn variant(&self) -> &'static str {
        self.shape.name()
    }

    fn group(&self) -> &'static str {
        self.shape.name()
    }

    fn is_baseline(&self) -> bool {
        self.is_baseline
    }

    fn setup(&mut self) -> Result<(), LabError> {
        let cpus = allowed_cpus()?.len();
        self.host = Some(H::start(Workers::Free(cpus))?);
        Ok(())
    }

    fn run(&mut self, amount_ms: u32) -> Result<Outcome, LabError> {
        let host = self.host.as_mut().ok_or(LabError::NotSetUp)?;
        let counts = host.counts();
        let before = Usage::now()?;
        let mut outcome = match self.shape {
            Shape::Pairs(count) => {
                let span = Duration::from_millis(u64::from(amount_ms));
                of_pairs(pairs::exchange(host, count, span)?)
            }
            Shape::Frames(order) => {
                of_frames(frames::show(host, order, frames_in(amount_ms), steps())?)
            }
        };
        let cpu = Usage::now()?.since(before).cpu;
        let operations = outcome.operations.max(1) as f64;
        let cpu_us = cpu.as_secs_f64() * 1e6;
        outcome.figures.insert("cpu_us_per_op", cpu_us / operations);
        let counted = WakeCounts::figures_between(counts, host.counts(), outcome.operations);
        outcome.figures.extend(counted);
        Ok(outcome)
    }

    fn teardown(&mut self) -> Result<(), LabError> {
        self.host.take().map_or(Ok(()), Host::stop)
    }
}

fn of_pairs(found: Exchanged) -> Outcome {
    let exchanges = found.exchanges.max(1) as f64;
    let seconds = found.span.as_secs_f64();
    Outcome {
        operations: found.exchanges,
        figures: BTreeMap::from([
            ("exchanges_per_s", exchanges / seconds),
            ("op_us", 1e6 * seconds / exchanges),
        ]),
        late: found.round_trips,
        ..Outcome::default()
    }
}

fn of_frames(found: Shown) -> Outcome {
    Outcome {
        operations: found.took.len() as u64,
        figures: BTreeMap::from([
            ("op_us", found.mean_ns / 1_000.0),
            ("skipped_count", f64::from(found.skipped)),
        ]),
        late: found.took,
        ..Outcome::default()
    }
}

/// One contestant with each shape.
pub(super) fn contestants() -> Vec<Box<dyn Trial>> {
    fn one<H: Host>(shape: Shape, is_baseline: bool) -> Box<dyn Trial> {
        Box::new(PingPong::<H> {
            shape,
            is_baseline,
            host: None,
        })
    }
    // Measured before the CPUs are busy.
    let _ = steps();
    let of_shape = |shape| {
        [
            one::<Tokio>(shape, true),
            one::<Doorbell>(shape, false),
            one::<Smol>(shape, false),
            one::<Threads>(shape, false),
        ]
    };
    Shape::ALL.into_iter().flat_map(of_shape).collect()
}

/// Runs the scenario.
///
/// # Errors
/// Any [`LabError`], for example too few CPUs, a filter that matches no contestant, or a failing
/// contestant.
pub(crate) fn run(options: &Options) -> Result<Report, LabError> {
    let amount = if options.quick {
        SPAN_QUICK_MS
    } else {
        SPAN_MS
    };
    let plan = Plan {
        scenario: "pingpong",
        work: Work {
            amount,
            warm_up: WARM_UP_MS,
            counted: COUNTED_MS,
            pass_max: PASS_MAX,
        },
        compared: "op_us",
        spreads: &columns::SPREADS,
        columns: columns::columns(),
        chart: columns::chart(),
        conclude: columns::conclude,
    };
    run_trials(plan, options, |_| contestants())
}

#[cfg(test)]
mod tests;
