//! Scenarios: the real protocols of `doorbell-core` on a simulated machine, driven by random programs.
//! Faults come first; then a quiet phase, in which everything must finish.
//!
//! ```
//! use doorbell_sim::scenario::{Shape, run};
//!
//! let shape = Shape::two_workers();
//! let (first, again) = (run::<0>(7, &shape).unwrap(), run::<0>(7, &shape).unwrap());
//! assert_eq!(first.outcome.failure, None);
//! assert_eq!(first.outcome.hash, again.outcome.hash);
//! ```

mod busy;
mod class;
mod conserve;
mod ledger;
pub(crate) mod oracle;
mod program;
mod prompt;
mod rank_order;
mod rest;
mod scheduler;
mod shape;
mod surge;
#[cfg(test)]
mod tests;
mod timer;
mod told;

pub(crate) use busy::Busy;
pub(crate) use class::RT;
pub use class::{Classes, Urgent};
pub use program::Repertoire;
pub(crate) use program::{run_until, yield_now};
pub(crate) use scheduler::{SchedulerConfig, Threads, Workers};
pub(crate) use shape::OWN_CPUS;
pub use shape::{Shape, Wrong};
pub(crate) use timer::Sleep;

use doorbell_core::wheel::Holds;
use doorbell_machine::sim::{self, Outcome, RunError, SimCounter, SimThread, Sink};
use doorbell_machine::{Counter, Machine, Sim, ThreadError, ThreadHandle, ThreadSpec};
use ledger::Ledger;
use program::Player;
use shape::Plan;
use std::sync::Arc;

/// The result of a run.
#[derive(Debug)]
pub struct Report {
    /// The outcome of the machine. A failure's text starts with the oracle that found it.
    pub outcome: Outcome,
    /// How many steps the programs took.
    pub steps: u64,
    /// How many timers fired.
    pub timers: u64,
    /// How late the latest of them was when its task ran again.
    pub latest_ns: u64,
}

/// Runs a shape with a seed and a mutant's number (0 for none).
///
/// # Errors
/// [`RunError`] if the machine of the shape cannot be simulated.
pub fn run<const BUG: u8>(seed: u64, shape: &Shape) -> Result<Report, RunError> {
    run_traced::<BUG>(seed, shape, None)
}

/// Like [`run`], and gives `sink` every event.
///
/// # Errors
/// As for [`run`].
pub fn run_traced<const BUG: u8>(
    seed: u64,
    shape: &Shape,
    sink: Option<Sink>,
) -> Result<Report, RunError> {
    let plan = Plan::of(shape, seed);
    let config = plan.config.clone();
    let ledger = Arc::new(Ledger::judging(shape.orders_ranks(), shape.late_max_ns()));
    let (theirs, shape) = (Arc::clone(&ledger), shape.clone());
    let outcome = sim::run_traced(config, sink, move || {
        if let Err(error) = play::<BUG>(&shape, &plan, theirs) {
            sim::fail(error.to_string());
        }
    })?;
    Ok(Report {
        outcome,
        steps: ledger.steps(),
        timers: ledger.timers(),
        latest_ns: ledger.latest_ns(),
    })
}

/// How long the last fault can last that began before faults were switched off. The longest fault starves a
/// thread.
const SETTLE_NS: u64 = 1_000_000;
const SETTLE_STARVED_NS: u64 = 1_000_000 + shape::STARVE_MAX_NS;

/// How long after the start workers end, at most, in shapes whose workers end while programs run.
const ENDS_MAX_NS: u64 = 700_000;

/// Starts the threads that are no workers. A paused clock advances only while one of them waits inside. All
/// of them enter before any runs, so the thread that finds the runtime quiescent may ask the ledger whether
/// it was.
fn start_foreigners<const BUG: u8>(
    shape: &Shape,
    player: &Player<BUG>,
) -> Result<Threads, ThreadError> {
    let clock = &player.workers.clock;
    let inside = (0..shape.foreign).map(|_| clock.inside(Holds::No));
    let inside: Vec<_> = inside.collect();
    let start = |(foreigner, inside)| {
        let (player, steps) = (player.clone(), shape.steps);
        let body = move || {
            player.play_outside(steps);
            drop(inside);
        };
        spawn::<BUG>("foreign", shape.foreign_cpu(foreigner), body)
    };
    inside.into_iter().enumerate().map(start).collect()
}

/// The first thread of a run.
fn play<const BUG: u8>(shape: &Shape, plan: &Plan, ledger: Arc<Ledger>) -> Result<(), ThreadError> {
    Sim::<BUG>::bind_thread(&[shape.main_cpu()])?;
    let config = SchedulerConfig {
        workers: shape.workers,
        classes: shape.classes,
        idle: plan.idle,
        switches: plan.switches,
        paused: shape.paused,
        turns: shape.turns,
        groups: shape.groups,
        budget: shape.budget,
    };
    let (workers, threads): (Arc<Workers<BUG>>, Threads) = Workers::start(config, ledger)?;
    let stop = Arc::new(SimCounter::default());
    let spinner = spin::<BUG>(shape, &workers, &stop)?;
    let player = Player {
        workers: Arc::clone(&workers),
        may: shape.may,
    };
    let foreigners = start_foreigners(shape, &player)?;
    if shape.ends {
        workers.ledger.let_end();
        drop(player);
        // The workers end while foreign threads still post, or right after the last post.
        if sim::random().is_multiple_of(2) {
            sim::sleep(sim::random() % ENDS_MAX_NS);
            workers.close_slowly(threads);
            foreigners.into_iter().try_for_each(ThreadHandle::join)?;
        } else {
            foreigners.into_iter().try_for_each(ThreadHandle::join)?;
            sim::sleep(sim::random() % (ENDS_MAX_NS / 10));
            workers.close_slowly(threads);
        }
        sim::end_faults();
    } else {
        foreigners.into_iter().try_for_each(ThreadHandle::join)?;
        sim::end_faults();
        player.put_all_back();
        drop(player);
        let inside = workers.clock.inside(Holds::Yes);
        // Everything may have become quiescent before this: dropping a hold checks again.
        drop(workers.clock.hold());
        oracle::until_quiet(&workers);
        drop(inside);
        // Let threads come back that a fault keeps from their CPU or wakes late.
        sim::sleep(if shape.faults == Wrong::Starved {
            SETTLE_STARVED_NS
        } else {
            SETTLE_NS
        });
        if shape.may.tasks && !shape.clock_jumps && !shape.paused {
            prompt::check(&workers);
        }
        rest::check_rest(&workers);
        stop.set(1);
        spinner.map_or(Ok(()), ThreadHandle::join)?;
        workers.close(threads);
    }
    oracle::check_quiescence(&workers);
    oracle::check_counts(&workers.counts(), plan.switches);
    oracle::check_freed(workers);
    Ok(())
}

pub(crate) fn spawn<const BUG: u8>(
    name: &str,
    cpu: usize,
    body: impl FnOnce() + Send + 'static,
) -> Result<SimThread, ThreadError> {
    let spec = ThreadSpec {
        name: format!("{name} {cpu}"),
        cpu: Some(cpu),
        stack_size: None,
    };
    Sim::<BUG>::spawn(spec, Box::new(body))
}

/// Starts the spinning thread with the oracle that fits the shape, if one does.
fn spin<const BUG: u8>(
    shape: &Shape,
    workers: &Arc<Workers<BUG>>,
    stop: &Arc<SimCounter>,
) -> Result<Option<SimThread>, ThreadError> {
    let (workers, stop) = (Arc::clone(workers), Arc::clone(stop));
    let spin: Box<dyn FnOnce() + Send> = if shape.paused {
        Box::new(move || oracle::hold_often(&workers, &stop))
    } else if shape.orders_classes() {
        Box::new(move || oracle::spin_order(&workers, &stop))
    } else if shape.is_conserving() {
        let foreign = shape.foreign;
        Box::new(move || conserve::spin(&workers, foreign, &stop))
    } else {
        return Ok(None);
    };
    spawn::<BUG>("spinner", shape.spin_cpu(), spin).map(Some)
}
