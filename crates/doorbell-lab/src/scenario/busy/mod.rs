//! `doorbell lab busy`: what waits, and for how long, while tasks compute and yield.
//!
//! - *A crowd*: tasks that compute and yield for ever. Beside them one task reads a socket, one sleeps, and a
//!   thread outside spawns tasks.
//! - *A service*: handlers compute in slices and yield between them, and others ask for something short.
//! - *A lone task* that yields, and a socket that gets ready meanwhile.
//! - *Sleeps* of a runtime whose only worker parks, spins or never parks.

mod columns;
mod crowd;
#[cfg(feature = "glommio")]
mod glommio;
mod goals;
mod jobs;
mod lone;
mod peers;
mod service;
mod sleeps;

use std::sync::OnceLock;
use std::time::Duration;

use super::hosts::{Doorbell, Smol, Tokio};
use super::options::Options;
use super::steps::steps_for;
use super::trial::{Plan, Trial, Work, run as run_trials};
use crate::error::LabError;
use crate::report::Report;
use crowd::{CASES, Crowd};
use lone::Lone;
use peers::{Peer, Tokios};

/// The length of a pass, in ms.
const SPAN_MS: u32 = 3_000;
/// The same for a first look.
const SPAN_QUICK_MS: u32 = 500;
/// The same before the measurement.
const WARM_UP_MS: u32 = 500;
/// The same before the measurement of a first look.
const WARM_UP_QUICK_MS: u32 = 100;
/// A pass counts as hung when it takes this much longer than it should.
const PASS_MAX: Duration = Duration::from_mins(1);
/// The length of the sleep beside tasks that compute.
const SLEEP: Duration = Duration::from_millis(5);
/// Makes pauses the same in every run and for every contestant.
const SEED: u64 = 0x0D00_4BE3;

/// The work of a poll of this length, the same for all contestants; a CPU is measured once.
fn steps(poll: Duration) -> u64 {
    const MEASURED: Duration = Duration::from_millis(1);
    static STEPS: OnceLock<u64> = OnceLock::new();
    let steps = *STEPS.get_or_init(|| steps_for(MEASURED));
    (steps as f64 * poll.as_secs_f64() / MEASURED.as_secs_f64()) as u64
}

/// The same for each runtime; tokio is the baseline.
fn for_each_peer(make: &impl Peers) -> Vec<Box<dyn Trial>> {
    let mut all = vec![
        make.one::<Tokio>(true),
        make.one::<Tokios>(false),
        make.one::<Smol>(false),
    ];
    #[cfg(feature = "glommio")]
    if glommio::Glommio::can_start() {
        all.push(make.one::<glommio::Glommio>(false));
    }
    all.push(make.one::<Doorbell>(false));
    all
}

/// Makes a contestant of a runtime.
trait Peers {
    fn one<P: Peer>(&self, is_baseline: bool) -> Box<dyn Trial>;
}

impl Peers for crowd::Case {
    fn one<P: Peer>(&self, is_baseline: bool) -> Box<dyn Trial> {
        Box::new(Crowd::<P>::new(*self, is_baseline))
    }
}

/// The lone task.
struct Alone;

impl Peers for Alone {
    fn one<P: Peer>(&self, is_baseline: bool) -> Box<dyn Trial> {
        Box::new(Lone::<P>::new(is_baseline))
    }
}

pub(super) fn contestants(pass: Duration) -> Vec<Box<dyn Trial>> {
    // Measured before the CPUs are busy.
    let _ = steps(SLEEP);
    let mut all: Vec<_> = CASES.iter().flat_map(for_each_peer).collect();
    all.extend(service::contestants(pass));
    all.extend(for_each_peer(&Alone));
    all.extend(sleeps::contestants());
    all
}

/// Runs the scenario, with passes of this many seconds if it is said.
///
/// # Errors
/// Any [`LabError`], for example too few CPUs, a filter that matches no contestant, or a failing
/// contestant.
pub(crate) fn run(options: &Options) -> Result<Report, LabError> {
    let (usual, warm_up) = if options.quick {
        (SPAN_QUICK_MS, WARM_UP_QUICK_MS)
    } else {
        (SPAN_MS, WARM_UP_MS)
    };
    let amount = options.seconds.map_or(usual, |seconds| 1_000 * seconds);
    let pass = Duration::from_millis(u64::from(amount));
    let plan = Plan {
        scenario: "busy",
        work: Work {
            amount,
            warm_up,
            // Nothing is concluded from them.
            counted: 0,
            pass_max: PASS_MAX + pass,
        },
        compared: "p50_us",
        spreads: &columns::SPREADS,
        columns: columns::columns(),
        chart: columns::chart(),
        conclude: columns::conclude,
    };
    run_trials(plan, options, |_| contestants(pass))
}

#[cfg(test)]
mod tests;
