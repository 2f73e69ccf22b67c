//! [`run()`]: a program with each seed, twice.

use super::alive::Alive;
use super::offline::with_cores_off;
use super::smaller::{Fails, smallest};
use super::{Config, Failed, Problem, Verdict};
use crate::BuildError;
use crate::owner::Owner;
use doorbell_machine::sim::{self as machine, Failure, Outcome, RunError, Twice, Witness};
use doorbell_machine::{Host, Machine, Sim};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

/// Runs that have not failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// Number of seeds. Each ran twice.
    pub seeds: u64,
    /// Steps of the simulation, of one run of each seed.
    pub events: u64,
    /// Simulated time, of one run of each seed.
    pub simulated: Duration,
    /// The hash of all steps. It is the same each time that the program runs with these seeds.
    pub hash: u64,
}

/// Runs an async program on simulated cores, twice with each seed of the configuration. Each run begins with a new
/// runtime, and the program may spawn, call, sleep, lock and await as on a host. Networks, signals and other
/// descriptors return [`NotSimulated`](super::NotSimulated), of kind `Unsupported`.
///
/// # Errors
/// [`Failed`] names the first seed that failed, and why; or, if the program fails in the same way with fewer faults or on
/// fewer cores, that run ([`Config::shrink_within`]). If the two runs of a seed differ, it has failed too, and so has a
/// range without a seed.
#[expect(
    clippy::needless_pass_by_value,
    reason = "a configuration is made for its run"
)]
pub fn run<F, R>(config: Config, program: F) -> Result<Report, Failed>
where
    F: Fn() -> R + Send + Sync + 'static,
    R: Future<Output: Verdict>,
{
    let seeds = config.seeds.clone();
    let failed = |seed, problem| Failed {
        seed,
        cores: config.cores,
        faults: config.faults.clone(),
        problem,
        first: None,
    };
    if seeds.is_empty() {
        let text = "there are no seeds: the range is empty".to_owned();
        return Err(failed(seeds.start, Problem::NoRun(text)));
    }
    let program = Arc::new(program);
    let mut report = Report::default();
    for seed in seeds {
        let begun_ns = Host::now_ns();
        match run_seed(&config, seed, &program).map_err(|bad| *bad) {
            Ok(outcome) => {
                report.seeds += 1;
                report.events += outcome.events;
                report.simulated += Duration::from_nanos(outcome.end_ns());
                report.hash = report.hash.rotate_left(7) ^ outcome.hash;
            }
            Err(Bad { problem, fails }) => {
                let failed = failed(seed, problem);
                let Some(fails) = fails else {
                    return Err(failed);
                };
                let took_ns = Host::now_ns().saturating_sub(begun_ns);
                let again = |config: &Config, seed| run_seed(config, seed, &program).err();
                let failed = smallest(&config, failed, &fails, took_ns, again);
                return Err(witnessed(&config, failed, &program));
            }
        }
    }
    Ok(report)
}

/// A seed that failed.
pub(super) struct Bad {
    pub(super) problem: Problem,
    /// How the program failed, if both runs failed alike.
    pub(super) fails: Option<Fails>,
}

/// Runs a seed twice.
fn run_seed<F, R>(config: &Config, seed: u64, program: &Arc<F>) -> Result<Outcome, Box<Bad>>
where
    F: Fn() -> R + Send + Sync + 'static,
    R: Future<Output: Verdict>,
{
    let bad = |problem| {
        let fails = None;
        Box::new(Bad { problem, fails })
    };
    let no_run = |error: RunError| bad(Problem::NoRun(error.to_string()));
    if machine::is_inside() {
        return Err(no_run(RunError::Inside));
    }
    if config.cores == 0 {
        return Err(bad(Problem::NoRun(BuildError::NoCores.to_string())));
    }
    if let Some(why) = &config.no_machine {
        return Err(bad(Problem::NoRun(why.clone())));
    }
    if let Err(cpus) = config.check_cpus() {
        let text = format!("{} cores do not fit on {cpus} CPUs", config.cores);
        return Err(bad(Problem::NoRun(text)));
    }
    let (program, alive) = (Arc::clone(program), Alive::default());
    let of_run = (config.clone(), alive.clone());
    let body = Arc::new(move |witness| live(&of_run.0, &of_run.1, witness, &*program));
    let twice = machine::run_twice(&config.of_seed(seed), config.patience, &body);
    let Twice { outcome, parting } = twice.map_err(no_run)?;
    match (&outcome.failure, parting) {
        (Some(failure), parting) => Err(Box::new(bad_of(&outcome, failure, parting, &alive))),
        (None, Some(first)) => Err(bad(Problem::Differs { first })),
        (None, None) => Ok(outcome),
    }
}

/// What is told of a run that failed.
fn bad_of(outcome: &Outcome, failure: &Failure, parting: Option<String>, alive: &Alive) -> Bad {
    let fails = parting
        .is_none()
        .then(|| Fails::of(failure, outcome.events));
    let differed = |first| {
        format!("; the second run of this seed differed ({first}), so the seed may not repeat this")
    };
    let panics = outcome.panics.iter();
    let panics: Vec<_> = panics.map(|it| format!("\n  a panic at {it}")).collect();
    let panics = panics.concat();
    let what = text_of(failure) + &parting.map(differed).unwrap_or_default() + &panics;
    let has_no_end = matches!(
        failure,
        Failure::Deadlock(_) | Failure::Events(_) | Failure::Time(_)
    );
    let tasks = has_no_end.then(|| alive.shown(outcome.end_ns()));
    let problem = Problem::Program {
        what,
        tasks: tasks.unwrap_or_default(),
        last: String::new(),
    };
    Bad { problem, fails }
}

/// Runs a failure once more, and has it tell what each core did last; and writes the trace, if one is wanted.
fn witnessed<F, R>(config: &Config, mut failed: Failed, program: &Arc<F>) -> Failed
where
    F: Fn() -> R + Send + Sync + 'static,
    R: Future<Output: Verdict>,
{
    let Problem::Program { what, last, .. } = &mut failed.problem else {
        return failed;
    };
    let made = config.trace.as_deref().map(Witness::with_trace);
    let (witness, lost) = match made.transpose() {
        Ok(witness) => (witness.unwrap_or_default(), None),
        Err(error) => (Witness::default(), Some(error)),
    };
    let config = config.clone().cores(failed.cores);
    let config = config.faults(failed.faults.clone());
    let (seen, of_run, program) = (witness.clone(), config.clone(), Arc::clone(program));
    let body = move || live(&of_run, &Alive::default(), Some(seen), &*program);
    let of_seed = config.of_seed(failed.seed);
    let outcome = machine::run_apart(of_seed, config.patience, Some(witness.sink()), body);
    // A program that does not repeat itself has no more to tell.
    let Some(outcome) = outcome.ok().filter(|outcome| outcome.failure.is_some()) else {
        return failed;
    };
    let told = witness.tell(&outcome, what);
    let trace = match (lost.as_ref().or(told.as_ref().err()), config.trace) {
        (Some(error), _) => format!("\n  the trace could not be written: {error}"),
        (None, Some(file)) => {
            format!("\n  trace, for https://ui.perfetto.dev: {}", file.display())
        }
        (None, None) => String::new(),
    };
    *last = told.unwrap_or_default() + &trace;
    failed
}

/// What the first simulated thread does: starts the runtime, runs the program and ends the runtime.
fn live<F, R>(config: &Config, alive: &Alive, witness: Option<Witness>, program: &F)
where
    F: Fn() -> R,
    R: Future<Output: Verdict>,
{
    alive.begin();
    let owner = config
        .plan(alive, witness)
        .and_then(|plan| Owner::<Sim>::start(&plan));
    let owner = match owner {
        Ok(owner) => owner,
        Err(error) => return machine::fail(error.to_string()),
    };
    let bound = <Sim as Machine>::bind_thread(&[config.cpu_of_program()]);
    debug_assert!(bound.is_ok(), "the machine has that CPU");
    // Made inside the runtime, as the rest of the program.
    let run = async { program().await.failure() };
    let runtime = owner.handle();
    let ended = catch_unwind(AssertUnwindSafe(|| {
        if config.takes_cores_off() {
            runtime.try_block_on(with_cores_off(runtime.clone(), run))
        } else {
            runtime.try_block_on(run)
        }
    }));
    match ended {
        Ok(Ok(None)) => {}
        Ok(Ok(Some(why))) => machine::fail(why),
        Ok(Err(error)) => machine::fail(error.to_string()),
        // Caught, because a thread that unwinds cannot wait for the workers to end.
        Err(payload) => machine::fail(format!(
            "it panicked: {}",
            crate::error::Payload::new(payload)
        )),
    }
    machine::end_faults();
    drop(owner);
}

fn text_of(failure: &Failure) -> String {
    match failure {
        Failure::Deadlock(_) => {
            "every task waits, and no timer, call or blocking closure is left that could wake one"
                .to_owned()
        }
        other => other.to_string(),
    }
}
