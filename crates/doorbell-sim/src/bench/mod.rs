//! Programs whose figures are measured on simulated machines, where the oracles of [`scenario`](crate::scenario) only
//! judge.
//!
//! | file | what is measured |
//! |---|---|
//! | `wake.rs` | how soon woken workers run, in short turns; wakes stacked on one worker |
//! | `schbench.rs` | the same with schbench's own times: workers that compute for 30 ms |
//! | `pingpong.rs` | how long pairs of tasks take to exchange messages, as uperf |
//! | `calls.rs` | how long calls to other workers take, as ipistorm, and of all workers to all |
//! | `posts.rs` | what it costs to call a worker from all others, and to spawn tasks |
//! | `rt.rs` | how late periodic urgent tasks run, all in phase, as cyclictest; and movable tasks beside them |
//! | `rank.rs` | how long a task of high rank waits behind a long poll of a lower one |
//! | `timer_cost.rs` | what it costs to arm a timer and to drop it, while other workers are busy |
//! | `requests.rs` | how many requests clients make of servers under timeouts, as dbench |
//! | `sleepers.rs` | how often sleeping workers are woken for movable timers while others are awake, and how late those are |
//! | `kernel/` | two paths of the kernel, without doorbell: calls to an idle CPU, and calls of all CPUs to all |
//!
//! A run takes a [`Bench`] and the program's own shape, which can be read from a text, and returns figures: times in ns, and counts; as [`Measured`] they
//! say what metrics are made of them. One seed gives one run. `doorbell lab SCENARIO --sim PROFILE` runs several seeds and prints the table.

pub mod calls;
pub mod kernel;
pub mod pingpong;
pub mod posts;
pub mod rank;
pub mod requests;
pub mod rt;
pub mod schbench;
pub mod sleepers;
#[cfg(test)]
mod tests;
pub mod timer_cost;
pub mod wake;

use crate::fuzz::machine_for;
use crate::scenario::{Classes, SchedulerConfig, Threads, Urgent, Workers, oracle};
use doorbell_core::scheduler::Turns;
use doorbell_core::switches::Switches;
use doorbell_core::task::Join;
use doorbell_core::worker::{IdlePolicy, Local, WorkerCounts};
use doorbell_machine::sim::{self, CPUS_MAX, Config, MachineSpec, RunError};
use doorbell_machine::{Machine, Sim, ThreadError};
use futures_channel::mpsc::unbounded;
use std::sync::Arc;

const SECOND_NS: u64 = 1_000_000_000;
/// The limit of events of a run: several times more than the largest run of the lab takes.
const EVENTS_MAX: u64 = 1_000_000_000;
/// By then all workers have started and sleep.
const SETTLE_NS: u64 = 1_000_000;
/// The idle policy of a runtime that was asked for nothing.
const IDLE: IdlePolicy = IdlePolicy::Adaptive {
    spin_max_ns: 50_000,
    budget: 0.05,
};

/// On what a program runs.
#[derive(Clone, Debug)]
pub struct Bench {
    /// The machine whose parts are used: as many as the program needs.
    pub machine: MachineSpec,
    /// The switches of the workers.
    pub switches: Switches,
    /// Determines everything that is left open.
    pub seed: u64,
}

/// The figures of a program, and what is made of them.
pub trait Measured: Default {
    /// Adds the figures of another seed.
    fn add(&mut self, other: Self);

    /// Times, each with what stands before the names of their percentiles.
    fn times_ns(&self) -> Vec<(&'static str, &[u64])> {
        Vec::new()
    }

    /// What else is shown; `worker_runs` is the number of workers in all runs.
    fn ratios(&self, worker_runs: u64) -> Vec<Ratio>;
}

/// A metric, with the unit last in its name, and of what it is the ratio. It is not known if the second is 0.
pub type Ratio = (&'static str, [u64; 2]);

/// The mean of times, as a ratio.
pub fn mean(times_ns: &[u64]) -> [u64; 2] {
    [times_ns.iter().sum(), times_ns.len() as u64]
}

/// Why a program has no figures.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// The machine cannot be simulated.
    #[error(transparent)]
    Simulation(#[from] RunError),
    /// The program needs more CPUs than a simulated machine may have.
    #[error(
        "this needs {needed} CPUs, and a simulated machine has {CPUS_MAX} at most; ask for fewer workers"
    )]
    TooManyCpus {
        /// How many CPUs it needs.
        needed: usize,
    },
    /// An oracle found an error, or the run came to no end.
    #[error("seed {seed}: {what}")]
    Failed {
        /// The seed.
        seed: u64,
        /// The failure.
        what: String,
    },
}

impl Bench {
    /// Runs a program with these settings on a machine with at least `cpus` CPUs, and returns what it measured. Its
    /// first thread is on CPU `main_cpu`, where it may share the CPU: it sleeps while others are measured.
    fn run<T: Send + 'static>(
        &self,
        cpus: usize,
        main_cpu: usize,
        program: impl FnOnce(&Self) -> Result<T, ThreadError> + 'static,
    ) -> Result<T, BenchError> {
        if cpus > CPUS_MAX {
            return Err(BenchError::TooManyCpus { needed: cpus });
        }
        let config = Config {
            seed: self.seed,
            machine: machine_for(cpus, Some(&self.machine)),
            events_max: EVENTS_MAX,
            ..Config::default()
        };
        let theirs = self.clone();
        let (report, mut reports) = unbounded();
        let outcome = sim::run_traced(config, None, move || {
            let figures = Sim::<0>::bind_thread(&[main_cpu]).and_then(|()| program(&theirs));
            match figures {
                // The receiver outlives the run.
                Ok(figures) => drop(report.unbounded_send(figures)),
                Err(error) => sim::fail(error.to_string()),
            }
        })?;
        let failed = |what: String| BenchError::Failed {
            seed: self.seed,
            what,
        };
        match outcome.failure {
            Some(failure) => Err(failed(failure.to_string())),
            None => reports
                .try_recv()
                .map_err(|_| failed("the program measured nothing".to_owned())),
        }
    }

    /// The schedulers of all classes, with this many workers each. Urgent workers run before all others, as root is
    /// granted, and take turns by rank.
    fn by_rank(&self, workers: usize) -> SchedulerConfig {
        SchedulerConfig {
            classes: Classes::Each(Urgent::Fifo),
            turns: Turns::ByRank,
            ..self.one_scheduler(workers)
        }
    }

    /// One scheduler of class Fair, with this many workers.
    fn one_scheduler(&self, workers: usize) -> SchedulerConfig {
        SchedulerConfig {
            workers,
            classes: Classes::One,
            idle: IDLE,
            switches: self.switches,
            paused: false,
            turns: Turns::ByArrival,
            groups: false,
            budget: None,
        }
    }
}

/// Starts workers, and returns when all of them sleep.
fn start(config: SchedulerConfig) -> Result<(Arc<Workers<0>>, Threads), ThreadError> {
    let started = Workers::start(config, Arc::default())?;
    sim::sleep(SETTLE_NS);
    Ok(started)
}

/// Ends the workers, whose tasks have ended, and checks what they leave.
fn finish(workers: Arc<Workers<0>>, threads: Threads, switches: Switches) {
    workers.close(threads);
    oracle::check_quiescence(&workers);
    oracle::check_counts(&workers.counts(), switches);
    oracle::check_freed(workers);
}

/// Sleeps in the OS until that moment, or not at all if it is over.
fn sleep_until(at_ns: u64) {
    let for_ns = at_ns.saturating_sub(sim::time_ns());
    if for_ns > 0 {
        sim::sleep(for_ns);
    }
}

/// The number of the worker that the calling task runs on, in its scheduler.
fn worker_here() -> usize {
    let here = Local::<Sim>::with_current(|local| Some(local?.remote().worker()));
    here.unwrap_or_else(|| {
        sim::fail("a task runs on no worker");
        0
    })
}

/// What all these tasks have returned.
fn gather<T>(workers: &Workers<0>, tasks: Vec<Join<Vec<T>>>) -> Vec<T> {
    let results = tasks.into_iter().filter_map(|task| workers.result_of(task));
    results.flatten().collect()
}

/// What each worker has counted between two moments.
fn counted(before: &[WorkerCounts], after: &[WorkerCounts]) -> Vec<WorkerCounts> {
    let pairs = after.iter().zip(before);
    pairs.map(|(after, before)| after.since(before)).collect()
}

/// The sum of one count over all workers.
fn sum(counts: &[WorkerCounts], of: fn(&WorkerCounts) -> u64) -> u64 {
    counts.iter().map(of).sum()
}
