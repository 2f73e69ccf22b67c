//! The plan of a scenario, which is in its text.
//!
//! The section `Plan with --sim` says which settings of switches are compared, by the row of which setting a metric is
//! divided, and how many workers there must be.
//!
//! An item of the section `Cases with --sim` is `variant | workers | program | shape`:
//!
//! - The workers are `all` CPUs of the profile, `all but two` (an even number), or numbers, each for a row of its own.
//!   `--workers` replaces them, unless it is `always` that number. With `from N` the row is left out if they are fewer.
//! - The shape is TOML. In it and in the variant, `{workers}` stands for the number, and `{half}` for half of it.

use anyhow::{Result, ensure};
use doorbell_sim::bench::kernel::{ipistorm, shootdown};
use doorbell_sim::bench::{
    calls, mean, pingpong, posts, rank, requests, rt, schbench, sleepers, timer_cost, wake,
};
use doorbell_sim::profile::Profile;

use super::{Case, Measure, Plan, figure, figures};
use crate::scenario::ALL;
use crate::text::Text;

const PLAN: &str = "Plan with --sim";

/// The scenarios that have a plan.
pub(super) fn names() -> Vec<&'static str> {
    let planned = ALL.iter().filter(|one| !one.text.section(PLAN).is_empty());
    planned.map(|one| one.name).collect()
}

/// The plan of a scenario on this machine; `given` is its number of workers, if one is asked for.
pub(super) fn of(name: &str, text: Text, profile: &Profile, given: Option<usize>) -> Result<Plan> {
    let number = |item| {
        text.value(PLAN, item)
            .and_then(|number| number.parse().ok())
    };
    let least: usize = number("workers at least").unwrap_or(1);
    let group: usize = number("workers in groups of").unwrap_or(1);
    let is_allowed = |workers: usize| workers >= least && workers.is_multiple_of(group);
    let in_groups = match group {
        1 => String::new(),
        _ => format!(", in groups of {group}"),
    };
    let mut cases = Vec::new();
    for item in text.items("Cases with --sim") {
        let fields: Vec<_> = item.split(" | ").collect();
        let [variant, workers, program, shape] = fields[..] else {
            panic!("not a case: {item}");
        };
        let (is_fixed, all) = numbers_of(workers, profile.spec().cpus(), given);
        for workers in all {
            ensure!(
                is_fixed || is_allowed(workers),
                "`{name}` needs at least {least} workers{in_groups}, but --workers is {workers}"
            );
            let filled = |text: &str| {
                let half = text.replace("{half}", &(workers / 2).to_string());
                half.replace("{workers}", &workers.to_string())
            };
            cases.push(Case {
                variant: filled(variant),
                workers,
                measure: measure(program, &filled(shape)),
            });
        }
    }
    // Stable: the cases of one number keep their order.
    cases.sort_by_key(|case| case.workers);
    let settings = text.value(PLAN, "settings").unwrap_or_default().split(", ");
    let baseline = text.value(PLAN, "divided by");
    Ok(Plan {
        settings: settings.collect(),
        cases,
        baseline: baseline.and_then(|both| both.split_once(", ")),
    })
}

/// The numbers of workers of a case, and whether they are always these.
fn numbers_of(text: &str, cpus: usize, given: Option<usize>) -> (bool, Vec<usize>) {
    let number = |text: &str| text.parse().unwrap_or_else(|_| panic!("no number: {text}"));
    if let Some(fixed) = text.strip_prefix("always ") {
        return (true, vec![number(fixed)]);
    }
    let (text, from) = text.split_once(" from ").unwrap_or((text, "0"));
    let usual = match text {
        "all" => vec![cpus],
        "all but two" => vec![cpus.saturating_sub(2) / 2 * 2],
        numbers => numbers.split(' ').map(number).collect(),
    };
    let mut all = given.map_or(usual, |given| vec![given]);
    all.retain(|workers| *workers >= number(from));
    (false, all)
}

/// How the figures of a program of this shape are taken.
fn measure(program: &str, shape: &str) -> Box<Measure> {
    match program {
        "wake" => figures(wake::run, shape),
        "schbench" => figures(schbench::run, shape),
        "rt" => figures(rt::run, shape),
        "rank" => figures(rank::run, shape),
        "pingpong" => figures(pingpong::run, shape),
        "sleepers" => figures(sleepers::run, shape),
        "timer-cost" => figures(timer_cost::run, shape),
        "requests" => figures(requests::run, shape),
        "calls" => figures(calls::run, shape),
        "posts" => figures(posts::run, shape),
        "ipistorm" => figures(ipistorm::run, shape),
        "kernel's shootdown" => figures(shootdown::run, shape),
        // Of the others one figure is shown: the mean time of an operation. A call ends for each worker that answers.
        "an answer of calls" => figure(calls::run, shape, |found| {
            [found.took_ns.iter().sum(), found.answers]
        }),
        "a tick of rt" => figure(rt::run, shape, |found| mean(&found.late_ns)),
        "a wake of wake" => figure(wake::run, shape, |found| mean(&found.late_ns)),
        other => panic!("no program: {other}"),
    }
}
