//! For tests of scenarios.

use super::{Contestant, Outcome, Plan, Run, Stage};
use crate::report::assert_fits;
use crate::scenario::Options;
use crate::scenario::http::NO_WRK;

/// A stage; `None`, with a message, on a computer with too few CPUs.
pub(crate) fn stage(options: &Options) -> Option<Stage> {
    let stage = Stage::new(options);
    stage
        .inspect_err(|error| eprintln!("not tested here: {error}"))
        .ok()
}

/// The contestants of a plan; none on a computer with too few CPUs, or without the tool that they need.
pub(crate) fn contestants(plan: &Plan, options: &Options) -> Vec<Contestant> {
    let Some(stage) = stage(options) else {
        return Vec::new();
    };
    match (plan.contestants)(&stage) {
        Err(error) if error.to_string() == NO_WRK => Vec::new(),
        made => made.expect("they can be made"),
    }
}

/// Starts each contestant, and stops it afterwards.
pub(crate) fn try_each(all: Vec<Contestant>, mut tried: impl FnMut(&Contestant, &mut dyn Run)) {
    for one in all {
        let name = format!("{one:?}, {}", one.group);
        let mut run = one.start().expect(&name);
        tried(&one, &mut *run);
        run.stop().expect(&name);
    }
}

/// The outcome of a pass.
pub(crate) fn outcome(one: &Contestant, run: &mut dyn Run, amount: u32) -> Outcome {
    run.run(amount)
        .unwrap_or_else(|error| panic!("{one:?}: {error}"))
}

/// Names are unique, and each group has at most one baseline. The table fits and still has the columns `kept`.
pub(crate) fn assert_plan(plan: &Plan, options: &Options, kept: &[&str]) {
    let all = contestants(plan, options);
    let mut labels: Vec<_> = all.iter().map(Contestant::label).collect();
    let count = labels.len();
    labels.sort();
    labels.dedup();
    assert_eq!(labels.len(), count, "{labels:?}");
    for one in &all {
        let same = all.iter().filter(|other| other.group == one.group);
        assert!(same.filter(|one| one.is_baseline).count() <= 1, "{one:?}");
    }
    let columns = plan.text().metrics("Metrics");
    if !all.is_empty() && columns.iter().any(|one| !one.title.is_empty()) {
        let names = all.iter().map(|one| (&*one.name, &*one.variant));
        assert_fits(names, &columns, kept);
    }
}
