//! `doorbell lab wake`: how soon a woken worker runs, as schbench measures it for threads.
//!
//! Each of 8 messengers wakes its own workers every 4 ms: 4 of them at light load, 16 at moderate load. A
//! worker computes for 30 µs and waits again. Its lateness is the time from its wake until it runs. Workers
//! are tasks of a runtime, and messengers are tasks of the same runtime or OS threads. In other contestants
//! all are OS threads, or jobs of a pool of threads that never sleep.

mod board;
mod columns;
mod pool;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, mpsc};
use std::time::Duration;

use doorbell::IdleClaim;

use super::common::{join, thread_on};
use super::contestant::Stage;
use super::hosts::{Doorbell, Host, Smol, Threads, Tokio, Workers};
use super::options::Options;
use super::steps::steps_for;
use super::timers::{gather, tell};
use super::trial::{Outcome, Plan, Trial, Work, run as run_trials};
use super::wake_counts::WakeCounts;
use crate::error::LabError;
use crate::measure::{Samples, Usage};
use crate::report::Report;
use board::{Board, PERIOD, Shape};

/// The unit of a pass.
const TENTH: Duration = Duration::from_millis(100);
/// The length of a pass, in tenths of a second.
const TENTHS: u32 = 20;
/// The same for a first look: enough wakes at light load for every figure of the table.
const TENTHS_QUICK: u32 = 5;
/// The work of each wake.
const WORK: Duration = Duration::from_micros(30);
/// The phases of the first pass; each later one has others.
const SEED: u64 = 0x5C4B_E2C4;
/// A pass that takes longer counts as hung.
const PASS_MAX: Duration = Duration::from_mins(1);
const MESSENGER: &str = "messenger";

const LIGHT: Shape = Shape {
    messengers: 8,
    workers: 4,
};
const MODERATE: Shape = Shape {
    messengers: 8,
    workers: 16,
};

/// The kind of the messengers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Messengers {
    /// The same as the workers.
    Alike,
    /// OS threads, which sleep alike for all contestants and run where the OS puts them.
    Threads,
}

/// One variant.
#[derive(Debug, Clone, Copy)]
struct Variant {
    name: &'static str,
    shape: Shape,
    messengers: Messengers,
    /// Whether the workers' threads are bound to CPUs.
    is_pinned: bool,
}

const fn variant(
    name: &'static str,
    shape: Shape,
    messengers: Messengers,
    is_pinned: bool,
) -> Variant {
    Variant {
        name,
        shape,
        messengers,
        is_pinned,
    }
}

const VARIANTS: [Variant; 8] = [
    variant("light, pinned", LIGHT, Messengers::Alike, true),
    variant("light, unpinned", LIGHT, Messengers::Alike, false),
    variant(
        "light, by threads, pinned",
        LIGHT,
        Messengers::Threads,
        true,
    ),
    variant(
        "light, by threads, unpinned",
        LIGHT,
        Messengers::Threads,
        false,
    ),
    variant("moderate, pinned", MODERATE, Messengers::Alike, true),
    variant("moderate, unpinned", MODERATE, Messengers::Alike, false),
    variant(
        "moderate, by threads, pinned",
        MODERATE,
        Messengers::Threads,
        true,
    ),
    variant(
        "moderate, by threads, unpinned",
        MODERATE,
        Messengers::Threads,
        false,
    ),
];

/// Runs one pass after another.
trait Runs: std::fmt::Debug {
    /// Does the whole board. Returns how late each run began.
    fn go(&mut self, board: &Arc<Board>, variant: Variant) -> Result<Vec<Samples>, LabError>;

    /// Chooses how wakers get an idle worker, where there is such a switch.
    fn set_idle_claim(&self, _: IdleClaim) {}

    /// What was counted of wakes so far; `None` where nothing is.
    fn counts(&self) -> Option<WakeCounts> {
        None
    }

    /// Ends all threads.
    fn stop(self: Box<Self>) -> Result<(), LabError>;
}

/// Messengers and workers as tasks.
#[derive(Debug)]
struct Tasks<H>(H);

impl<H: Host> Runs for Tasks<H> {
    fn go(&mut self, board: &Arc<Board>, variant: Variant) -> Result<Vec<Samples>, LabError> {
        let shape = variant.shape;
        let (done, results) = mpsc::channel();
        for place in 0..shape.all_workers() {
            let board = Arc::clone(board);
            let worker = async move { board.worker(place).await };
            self.0.spawn(tell(done.clone(), worker))?;
        }
        drop(done);
        let mut threads = Vec::new();
        for number in 0..shape.messengers {
            let board = Arc::clone(board);
            if variant.messengers == Messengers::Alike {
                let messenger = async move { board.messenger(number, H::sleep).await };
                self.0.spawn(messenger)?;
                continue;
            }
            let messenger = move || {
                futures::executor::block_on(board.messenger(number, Threads::sleep));
            };
            threads.push(thread_on(MESSENGER, None, messenger)?);
        }
        let found = gather(&results, shape.all_workers());
        let joined = threads
            .into_iter()
            .try_for_each(|thread| join(thread, MESSENGER));
        joined.and(found)
    }

    fn set_idle_claim(&self, setting: IdleClaim) {
        self.0.set_idle_claim(setting);
    }

    fn counts(&self) -> Option<WakeCounts> {
        self.0.counts()
    }

    fn stop(self: Box<Self>) -> Result<(), LabError> {
        self.0.stop()
    }
}

/// Threads that never sleep during a pass.
#[derive(Debug)]
struct Spinning(Workers);

impl Runs for Spinning {
    fn go(&mut self, board: &Arc<Board>, variant: Variant) -> Result<Vec<Samples>, LabError> {
        pool::run(board, variant.shape, self.0)
    }

    fn stop(self: Box<Self>) -> Result<(), LabError> {
        Ok(())
    }
}

/// Starts a contestant.
type Start = fn(Workers) -> Result<Box<dyn Runs>, LabError>;

fn start<H: Host>(workers: Workers) -> Result<Box<dyn Runs>, LabError> {
    Ok(Box::new(Tasks(H::start(workers)?)))
}

/// All contestants, the baseline first, and the runtimes before the others.
const ALL: [(&str, Start); 5] = [
    (Tokio::NAME, start::<Tokio>),
    (Doorbell::NAME, start::<Doorbell>),
    (Smol::NAME, start::<Smol>),
    (Threads::NAME, start::<Threads>),
    (pool::NAME, |workers| Ok(Box::new(Spinning(workers)))),
];
/// How many of them are runtimes. The messengers of the others are always of the workers' kind.
const RUNTIMES: usize = 3;

#[derive(Debug)]
struct Wake {
    stage: Stage,
    name: &'static str,
    start: Start,
    is_baseline: bool,
    variant: Variant,
    /// The setting of a row for one, and that row's name.
    setting: Option<(IdleClaim, &'static str)>,
    runs: Option<Box<dyn Runs>>,
    /// The number of passes so far. Each has other phases, the same for all contestants.
    passes: u64,
}

/// The work of a wake, the same for all contestants; measured once.
fn steps() -> u64 {
    static STEPS: OnceLock<u64> = OnceLock::new();
    *STEPS.get_or_init(|| steps_for(WORK))
}

impl Trial for Wake {
    fn name(&self) -> &'static str {
        self.name
    }

    fn variant(&self) -> &'static str {
        self.setting.map_or(self.variant.name, |(_, name)| name)
    }

    fn group(&self) -> &'static str {
        self.variant.name
    }

    fn is_baseline(&self) -> bool {
        self.is_baseline
    }

    fn setup(&mut self) -> Result<(), LabError> {
        let placement = self.stage.placement;
        let cpus = [placement.caller_cpu, placement.callee_cpu];
        let workers = if self.variant.is_pinned {
            Workers::Bound(cpus)
        } else {
            Workers::Free(cpus.len())
        };
        let runs = self.runs.insert((self.start)(workers)?);
        if let Some((setting, _)) = self.setting {
            runs.set_idle_claim(setting);
        }
        Ok(())
    }

    fn run(&mut self, amount: u32) -> Result<Outcome, LabError> {
        let runs = self.runs.as_mut().ok_or(LabError::NotSetUp)?;
        let bursts = (TENTH * amount).as_nanos() / PERIOD.as_nanos();
        let seed = SEED + self.passes;
        self.passes += 1;
        let board = Arc::new(Board::new(self.variant.shape, bursts as u32, steps(), seed));
        let counts = runs.counts();
        let before = Usage::now()?;
        let found = runs.go(&board, self.variant)?;
        let cpu = Usage::now()?.since(before).cpu;
        let [wakes, skipped] = board.counted()?;
        let mut late = Samples::default();
        for one in &found {
            late.add(one);
        }
        if late.len() as u64 != wakes {
            return Err(LabError::TaskLost);
        }
        let cpu_us = cpu.as_secs_f64() * 1e6;
        let mut figures = BTreeMap::from([
            ("skipped_count", skipped as f64),
            ("cpu_us_per_op", cpu_us / wakes.max(1) as f64),
        ]);
        figures.extend(WakeCounts::figures_between(counts, runs.counts(), wakes));
        Ok(Outcome {
            operations: wakes,
            figures,
            late,
            ..Outcome::default()
        })
    }

    fn teardown(&mut self) -> Result<(), LabError> {
        self.runs.take().map_or(Ok(()), Runs::stop)
    }
}

/// The settings of the switch `idle_claim`, with the names of their rows. They are for the variants in which threads
/// wake the workers, so that several choose an idle one at once, and nothing is bound, as in most programs.
fn settings(variant: Variant) -> Vec<(IdleClaim, &'static str)> {
    let names = match variant.name {
        "light, by threads, unpinned" => [
            "light, idle_claim=on",
            "light, idle_claim=off",
            "light, idle_claim=mark",
            "light, idle_claim=base",
        ],
        "moderate, by threads, unpinned" => [
            "moderate, idle_claim=on",
            "moderate, idle_claim=off",
            "moderate, idle_claim=mark",
            "moderate, idle_claim=base",
        ],
        _ => return Vec::new(),
    };
    IdleClaim::ALL.into_iter().zip(names).collect()
}

pub(super) fn contestants(stage: Stage) -> Vec<Box<dyn Trial>> {
    // Measured before the CPUs are busy.
    let _ = steps();
    let mut all: Vec<Box<dyn Trial>> = Vec::new();
    for variant in VARIANTS {
        let count = match variant.messengers {
            Messengers::Alike => ALL.len(),
            Messengers::Threads => RUNTIMES,
        };
        let wake = |(name, start), setting| Wake {
            stage,
            name,
            start,
            is_baseline: false,
            variant,
            setting,
            runs: None,
            passes: 0,
        };
        for (place, who) in ALL.into_iter().take(count).enumerate() {
            all.push(Box::new(Wake {
                is_baseline: place == 0,
                ..wake(who, None)
            }));
        }
        for setting in settings(variant) {
            let doorbell = (Doorbell::NAME, start::<Doorbell> as Start);
            all.push(Box::new(wake(doorbell, Some(setting))));
        }
    }
    all
}

/// Runs the scenario.
///
/// # Errors
/// Any [`LabError`], for example too few CPUs, a filter that matches no contestant, or a failing
/// contestant.
pub(crate) fn run(options: &Options) -> Result<Report, LabError> {
    let amount = if options.quick { TENTHS_QUICK } else { TENTHS };
    let plan = Plan {
        scenario: "wake",
        work: Work {
            amount,
            warm_up: 1,
            counted: TENTHS_QUICK,
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
