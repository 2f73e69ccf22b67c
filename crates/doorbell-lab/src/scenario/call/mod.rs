//! `doorbell lab call`: how long a call to another core takes, and what it disturbs.
//!
//! A call is a closure that runs on another core while its caller waits for the answer. Here the closure
//! counts itself, and the answers prove that each ran exactly once.

mod columns;
mod crossbeam;
mod doorbell;
mod futex;
mod line;
mod meter;
mod seed;
mod tokio_one;
mod tokio_two;
mod word;

use super::common::{caveats, matching};
use super::contestant::{Contestant, Stage};
use super::options::Options;
use super::rounds::{Contest, Tape};
use super::summary::summarise;
use crate::error::LabError;
use crate::measure::{
    Clock, IdleMachine, Machine, Placement, Spread, SyscallSource, TimeLimit, Unavailable, median,
};
use crate::progress::Progress;
use crate::report::{MeasuredOn, Report, Row};

pub(crate) use crossbeam::Crossbeam;
pub(crate) use doorbell::Doorbell;
pub(crate) use futex::{Caller, Futex};
pub(crate) use line::Line;
pub(crate) use tokio_one::TokioOne;
pub(crate) use tokio_two::TokioTwo;

/// A reading of the limit makes this many times fewer calls than a fast contestant.
const LIMIT_DIVISOR: u32 = 5;
/// The fewest calls of a reading: enough for a median, although some calls are not timed.
const LIMIT_CALLS_MIN: u32 = 100;

/// All contestants, in the order of the table.
pub(super) fn contestants(stage: Stage) -> Vec<Box<dyn Contestant>> {
    let peers: Vec<Box<dyn Contestant>> = vec![
        Box::new(Line::new(stage)),
        Box::new(Crossbeam::new(stage)),
        Box::new(Futex::new(stage, Caller::Spins)),
        Box::new(Futex::new(stage, Caller::Parks)),
        Box::new(TokioOne::new(stage)),
        Box::new(TokioTwo::new(stage)),
    ];
    let own = Doorbell::all(stage).map(|one| Box::new(one) as Box<dyn Contestant>);
    peers.into_iter().chain(own).collect()
}

/// Runs the scenario.
///
/// # Errors
/// Any [`LabError`], for example too few CPUs, a filter that matches no contestant, or a failing
/// contestant.
pub(crate) fn run(options: &Options) -> Result<Report, LabError> {
    let effort = options.effort;
    let stage = Stage {
        placement: Placement::of_this_process()?,
        clock: Clock::calibrated(),
    };
    let mut contestants = chosen(contestants(stage), options.only.as_deref())?;

    let progress = Progress::on_stderr(effort.rounds, contestants.len(), options.place.as_deref());
    progress.prepare("watching the idle machine");
    let rest = IdleMachine::watch(effort.idle_span)?;
    let machine = Machine::describe(&stage.clock, stage.placement, rest)?;
    let syscalls = SyscallSource::find();
    let time_limit = TimeLimit::start()?;

    let mut limits_ns = Vec::new();
    let mut limit = || {
        let limit_ns = Line::probe_ns(stage, (effort.calls / LIMIT_DIVISOR).max(LIMIT_CALLS_MIN))?;
        limits_ns.push(limit_ns);
        Ok(limit_ns)
    };
    let tapes = Contest {
        effort,
        limit: &mut limit,
        clock: stage.clock,
        rest,
        syscalls: syscalls.as_ref().ok().copied(),
        time_limit: &time_limit,
        progress: &progress,
    }
    .run(&mut contestants)?;
    progress.clear();

    let mut rows = Vec::new();
    for (contestant, tape) in contestants.iter().zip(&tapes) {
        rows.push(summarise(contestant.name(), contestant.variant(), tape));
    }
    let tapes_by_name = contestants.iter().zip(&tapes);
    let named = tapes_by_name.map(|(one, tape)| (one.name(), one.variant(), tape));
    let side_tables = seed::table(named).into_iter().collect();
    let notes = notes(&machine, &rows, &tapes, &limits_ns, syscalls.as_ref().err());
    Ok(Report {
        scenario: "call",
        machine: MeasuredOn::Host(machine),
        rounds: effort.rounds,
        gist: columns::gist(&rows),
        rows,
        columns: columns::columns(),
        main: None,
        side_tables,
        notes,
        chart: columns::chart(),
        limit_ns: median(&limits_ns),
    })
}

/// The contestants whose name or variant contains `only`, ignoring case.
fn chosen(
    all: Vec<Box<dyn Contestant>>,
    only: Option<&str>,
) -> Result<Vec<Box<dyn Contestant>>, LabError> {
    let labels: Vec<String> = all
        .iter()
        .map(|one| format!("{} ({})", one.name(), one.variant()))
        .collect();
    let matches = matching(&labels, only)?;
    let marked = all.into_iter().zip(matches);
    Ok(marked
        .filter_map(|(one, matches)| matches.then_some(one))
        .collect())
}

/// What is special about this run.
fn notes(
    machine: &Machine,
    rows: &[Row],
    tapes: &[Tape],
    limits_ns: &[f64],
    uncounted: Option<&Unavailable>,
) -> Vec<String> {
    let mut notes = Vec::new();
    if let (Some(middle), Some(Spread { min, max })) = (median(limits_ns), Spread::of(limits_ns)) {
        notes.push(format!(
            "limit: a cache line went to the other CPU and back in {middle:.0} ns \
             ({min:.0}..{max:.0} over {} readings)",
            limits_ns.len()
        ));
    }
    notes.push(dropped(rows, tapes));
    notes.extend(caveats(machine, uncounted));
    notes
}

/// How many rounds were dropped, by contestant.
fn dropped(rows: &[Row], tapes: &[Tape]) -> String {
    let losses: Vec<String> = rows
        .iter()
        .zip(tapes)
        .filter(|(_, tape)| tape.passes_dropped > 0)
        .map(|(row, tape)| {
            format!(
                "{} ({}): {} of its passes, {} of its rounds",
                row.contestant, row.variant, tape.passes_dropped, tape.rounds_dropped
            )
        })
        .collect();
    if losses.is_empty() {
        "dropped because the limit moved: nothing".to_owned()
    } else {
        format!("dropped because the limit moved: {}", losses.join("; "))
    }
}

#[cfg(test)]
mod tests;
