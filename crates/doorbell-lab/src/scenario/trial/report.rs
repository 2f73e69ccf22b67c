//! From the options to the report.

use super::super::common::{caveats, matching};
use super::super::contestant::Stage;
use super::super::options::Options;
use super::rows::row;
use super::runner::{Runner, Tape, Trial};
use super::{Plan, Rated};
use crate::error::LabError;
use crate::measure::{Clock, IdleMachine, Machine, Placement, SyscallSource, TimeLimit};
use crate::progress::Progress;
use crate::report::{MeasuredOn, Report, Row};

pub(super) fn run(
    plan: Plan,
    options: &Options,
    contestants: impl FnOnce(Stage) -> Vec<Box<dyn Trial>>,
) -> Result<Report, LabError> {
    let rounds = options.effort.rounds;
    let stage = Stage {
        placement: Placement::of_this_process()?,
        clock: Clock::calibrated(),
    };
    let mut trials = chosen(contestants(stage), options.only.as_deref())?;

    let progress = Progress::on_stderr(rounds, trials.len(), options.place.as_deref());
    progress.prepare("watching the idle machine");
    let rest = IdleMachine::watch(options.effort.idle_span)?;
    let machine = Machine::describe(&stage.clock, stage.placement, rest)?;
    let syscalls = SyscallSource::find();
    let time_limit = TimeLimit::start()?;
    let tapes = Runner {
        rounds,
        work: plan.work,
        rest,
        syscalls: syscalls.as_ref().ok().copied(),
        time_limit: &time_limit,
        progress: &progress,
    }
    .run(&mut trials)?;
    progress.clear();

    let rows = rows(&plan, &trials, &tapes);
    let both = rows.iter().zip(tapes.iter().flatten());
    let rated = both.map(|(row, tape)| Rated {
        row,
        rounds: &tape.rounds,
    });
    let rated: Vec<_> = rated.collect();
    let conclusion = (plan.conclude)(&rated);
    let uncounted = syscalls.as_ref().err().filter(|_| plan.work.counted > 0);
    let notes = caveats(&machine, uncounted);
    Ok(Report {
        scenario: plan.scenario,
        machine: MeasuredOn::Host(machine),
        rounds,
        rows,
        columns: plan.columns,
        main: conclusion.main,
        gist: conclusion.gist,
        side_tables: conclusion.side_tables,
        notes,
        chart: plan.chart,
        limit_ns: None,
    })
}

/// The contestants whose name or variant contains `only`, and their baselines.
fn chosen(all: Vec<Box<dyn Trial>>, only: Option<&str>) -> Result<Vec<Box<dyn Trial>>, LabError> {
    let labels: Vec<String> = all
        .iter()
        .map(|one| format!("{} ({})", one.name(), one.variant()))
        .collect();
    let matches = matching(&labels, only)?;
    let groups: Vec<String> = all
        .iter()
        .zip(&matches)
        .filter(|(_, matches)| **matches)
        .map(|(one, _)| one.group().to_owned())
        .collect();
    let wanted = |one: &dyn Trial, matches: bool| {
        matches || (one.is_baseline() && groups.iter().any(|group| group == one.group()))
    };
    let marked = all.into_iter().zip(matches);
    Ok(marked
        .filter_map(|(one, matches)| wanted(one.as_ref(), matches).then_some(one))
        .collect())
}

fn rows(plan: &Plan, trials: &[Box<dyn Trial>], tapes: &[Vec<Tape>]) -> Vec<Row> {
    let baseline_of = |group: &str, part: &str| {
        let place = trials
            .iter()
            .position(|one| one.is_baseline() && one.group() == group)?;
        tapes[place].iter().find(|tape| tape.part == part)
    };
    let mut all = Vec::new();
    for (one, tapes) in trials.iter().zip(tapes) {
        for tape in tapes {
            let variant = match tape.part {
                "" => one.variant().to_owned(),
                part => format!("{}: {part}", one.variant()),
            };
            let baseline = baseline_of(one.group(), tape.part);
            let names = (one.name(), variant.as_str());
            all.push(row(names, tape, baseline, plan.compared, plan.spreads));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::super::Outcome;
    use super::*;

    struct Extra(&'static str, &'static str, bool);

    impl Trial for Extra {
        fn name(&self) -> &'static str {
            self.0
        }

        fn variant(&self) -> &'static str {
            self.1
        }

        fn group(&self) -> &'static str {
            self.1
        }

        fn is_baseline(&self) -> bool {
            self.2
        }

        fn setup(&mut self) -> Result<(), LabError> {
            Ok(())
        }

        fn run(&mut self, _: u32) -> Result<Outcome, LabError> {
            Ok(Outcome::default())
        }

        fn teardown(&mut self) -> Result<(), LabError> {
            Ok(())
        }
    }

    fn cast() -> Vec<Box<dyn Trial>> {
        [
            Extra("floor", "one", true),
            Extra("tokio", "one", false),
            Extra("floor", "two", true),
            Extra("tokio", "two", false),
        ]
        .into_iter()
        .map(|one| Box::new(one) as Box<dyn Trial>)
        .collect()
    }

    #[test]
    fn a_filter_keeps_the_baselines_of_those_it_leaves() {
        let left = chosen(cast(), Some("tokio (two")).expect("there is one");
        let names: Vec<_> = left.iter().map(|one| (one.name(), one.variant())).collect();
        assert_eq!(names, [("floor", "two"), ("tokio", "two")]);
        assert_eq!(chosen(cast(), None).expect("all").len(), 4);
        assert!(chosen(cast(), Some("nobody")).is_err());
    }
}
