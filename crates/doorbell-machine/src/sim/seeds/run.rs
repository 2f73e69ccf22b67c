//! [`run()`]: a program with each seed, twice.

use super::smaller::{Fails, smallest};
use super::{Failed, Problem, Setup};
use crate::sim::{self, Failure, Outcome, RunError, Twice, Witness};
use crate::{Host, Machine};
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

/// Runs a program twice with each seed. `live` is what the first simulated thread does; it is given the setup of its run,
/// and the witness of that, if there is one.
///
/// # Errors
/// [`Failed`] names the first seed that failed, and why; or, if the program fails in the same way with fewer faults or on
/// fewer cores, that run ([`Setup::shrink_within`]).
pub fn run<L>(setup: &Setup, live: &Arc<L>) -> Result<Report, Failed>
where
    L: Fn(&Setup, Option<Witness>) + Send + Sync + 'static,
{
    let failed = |seed, problem| Failed {
        seed,
        cores: setup.cores,
        faults: setup.faults.clone(),
        problem,
        first: None,
    };
    if setup.seeds.is_empty() {
        let text = "there are no seeds: the range is empty".to_owned();
        return Err(failed(setup.seeds.start, Problem::NoRun(text)));
    }
    let mut report = Report::default();
    for seed in setup.seeds.clone() {
        let begun_ns = Host::now_ns();
        match run_seed(setup, seed, live).map_err(|bad| *bad) {
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
                let again = |setup: &Setup, seed| run_seed(setup, seed, live).err();
                let failed = smallest(setup, failed, &fails, took_ns, again);
                return Err(witnessed(setup, failed, live));
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
fn run_seed<L>(setup: &Setup, seed: u64, live: &Arc<L>) -> Result<Outcome, Box<Bad>>
where
    L: Fn(&Setup, Option<Witness>) + Send + Sync + 'static,
{
    let bad = |problem| {
        let fails = None;
        Box::new(Bad { problem, fails })
    };
    let no_run = |error: RunError| bad(Problem::NoRun(error.to_string()));
    if sim::is_inside() {
        return Err(no_run(RunError::Inside));
    }
    setup.check().map_err(|why| bad(Problem::NoRun(why)))?;
    let (of_run, live) = (setup.clone(), Arc::clone(live));
    let body = Arc::new(move |witness| live(&of_run, witness));
    let twice = sim::run_twice(&setup.of_seed(seed), setup.patience, &body);
    let Twice { outcome, parting } = twice.map_err(no_run)?;
    match (&outcome.failure, parting) {
        (Some(failure), parting) => Err(Box::new(bad_of(&outcome, failure, parting))),
        (None, Some(first)) => Err(bad(Problem::Differs { first })),
        (None, None) => Ok(outcome),
    }
}

/// What is told of a run that failed.
fn bad_of(outcome: &Outcome, failure: &Failure, parting: Option<String>) -> Bad {
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
    let problem = Problem::Program {
        what,
        tasks: outcome.tasks.clone(),
        last: String::new(),
    };
    Bad { problem, fails }
}

/// Runs a failure once more, and has it tell what each core did last; and writes the trace, if one is wanted.
fn witnessed<L>(setup: &Setup, mut failed: Failed, live: &Arc<L>) -> Failed
where
    L: Fn(&Setup, Option<Witness>) + Send + Sync + 'static,
{
    let Problem::Program { what, last, .. } = &mut failed.problem else {
        return failed;
    };
    let made = setup.trace.as_deref().map(Witness::with_trace);
    let (witness, lost) = match made.transpose() {
        Ok(witness) => (witness.unwrap_or_default(), None),
        Err(error) => (Witness::default(), Some(error)),
    };
    let setup = Setup {
        cores: failed.cores,
        faults: failed.faults.clone(),
        ..setup.clone()
    };
    let (seen, of_run, live) = (witness.clone(), setup.clone(), Arc::clone(live));
    let body = move || live(&of_run, Some(seen));
    let of_seed = setup.of_seed(failed.seed);
    let outcome = sim::run_apart(of_seed, setup.patience, Some(witness.sink()), body);
    // A program that does not repeat itself has no more to tell.
    let Some(outcome) = outcome.ok().filter(|outcome| outcome.failure.is_some()) else {
        return failed;
    };
    let told = witness.tell(&outcome, what);
    let trace = match (lost.as_ref().or(told.as_ref().err()), setup.trace) {
        (Some(error), _) => format!("\n  the trace could not be written: {error}"),
        (None, Some(file)) => {
            format!("\n  trace, for https://ui.perfetto.dev: {}", file.display())
        }
        (None, None) => String::new(),
    };
    *last = told.unwrap_or_default() + &trace;
    failed
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
