//! [`smallest`]: a failure made smaller, by fewer faults and then by fewer cores.

use super::run::Bad;
use super::{Failed, Fault, Found, Setup};
use crate::sim::Failure;
use crate::{Host, Machine};

/// The numbers of cores that are tried, if they are fewer than those of the failure.
const CORES: [usize; 14] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128, 256, 512];

/// How many seeds are tried with each number of cores and each set of faults. With other cores or faults a seed is another
/// run, so one alone says little.
const SEEDS: u64 = 10;

/// How a program failed, so that another failure can be told from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fails {
    /// The text of the failure without its numbers, which depend on the run.
    text: String,
    /// How many steps a run may take to fail so: one that takes many more is given up.
    events_max: u64,
}

impl Fails {
    pub(super) fn of(failure: &Failure, events: u64) -> Self {
        // The threads that wait in a deadlock are not the same on fewer cores.
        let text = match failure {
            Failure::Deadlock(_) => "a deadlock".to_owned(),
            other => other.to_string(),
        };
        Fails {
            text: text.replace(|letter: char| letter.is_ascii_digit(), ""),
            events_max: match failure {
                Failure::Events(_) => u64::MAX,
                _ => events.saturating_mul(2).saturating_add(10_000),
            },
        }
    }
}

/// The smallest run that is found to fail in the same way, within the time that the configuration gives: that with the
/// fewest faults, and of those that on the fewest cores. `took_ns` is how long the first failure took, by the OS's clock.
pub(super) fn smallest(
    setup: &Setup,
    failed: Failed,
    fails: &Fails,
    took_ns: u64,
    again: impl Fn(&Setup, u64) -> Option<Box<Bad>>,
) -> Failed {
    let first = Box::new(Found {
        seed: failed.seed,
        cores: failed.cores,
        faults: failed.faults.clone(),
    });
    let begun_ns = Host::now_ns();
    let within_ns = u64::try_from(setup.shrink_within.as_nanos()).unwrap_or(u64::MAX);
    let mut longest_ns = took_ns;
    // Runs a candidate, unless it could end after a share of the time.
    let mut fails_so = |candidate: &Setup, seed: u64, share_ns: u64| {
        let events_max = candidate.events_max.min(fails.events_max);
        let candidate = Setup {
            events_max,
            ..candidate.clone()
        };
        let passed_ns = Host::now_ns().saturating_sub(begun_ns);
        if passed_ns.saturating_add(longest_ns) > share_ns {
            return None;
        }
        let bad = again(&candidate, seed);
        let took_ns = Host::now_ns().saturating_sub(begun_ns + passed_ns);
        longest_ns = longest_ns.max(took_ns);
        let bad = bad.filter(|bad| bad.fails.as_ref().is_some_and(|it| it.text == fails.text))?;
        Some(Failed {
            seed,
            cores: candidate.cores,
            faults: candidate.faults,
            problem: bad.problem,
            first: Some(first.clone()),
        })
    };
    let mut of_seeds = |candidate: &Setup, first: u64, share_ns: u64| {
        let mut seeds = first..first.saturating_add(SEEDS);
        seeds.find_map(|seed| fails_so(candidate, seed, share_ns))
    };
    let mut best = failed;
    let fewer_faults = subsets(&setup.faults).into_iter().find_map(|faults| {
        let candidate = Setup {
            faults,
            ..setup.clone()
        };
        of_seeds(&candidate, best.seed, within_ns / 2)
    });
    best = fewer_faults.unwrap_or(best);
    let mut fewer_cores = CORES.into_iter().filter(|cores| *cores < setup.cores);
    let fewer_cores = fewer_cores.find_map(|cores| {
        let faults = best.faults.clone();
        let candidate = Setup {
            cores,
            faults,
            ..setup.clone()
        };
        of_seeds(&candidate, best.seed, within_ns)
    });
    fewer_cores.unwrap_or(best)
}

/// All sets of fewer faults, the smallest first.
fn subsets(faults: &[Fault]) -> Vec<Vec<Fault>> {
    let all = 1_u32 << faults.len().min(16);
    let set = |bits: u32| {
        let chosen = faults
            .iter()
            .enumerate()
            .filter(|(at, _)| bits >> at & 1 == 1);
        chosen.map(|(_, fault)| *fault).collect()
    };
    let mut sets: Vec<Vec<Fault>> = (0..all - 1).map(set).collect();
    sets.sort_by_key(Vec::len);
    sets
}
