//! The report of a failed simulated run.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Error, Result, anyhow};
use doorbell_machine::sim::{Outcome, ThreadReport};
use doorbell_sim::fuzz::{Found, Setup, What};
use serde_json::{Value, json};

use super::memory_name;

/// How many events of a thread are shown, counted from the last.
const EVENTS_SHOWN: usize = 8;
/// How many cores are shown: those with the most recent events.
const CORES_SHOWN: usize = 16;

/// The command that repeats a setup.
fn replay_command(setup: &Setup, shape: &str, profile: Option<&str>) -> String {
    let mut command = format!(
        "doorbell sim replay {} --shape {shape} --cores {} --memory {}",
        setup.seed,
        setup.cores,
        memory_name(setup.memory)
    );
    if let Some(profile) = profile {
        // Writing to a string does not fail.
        let _ = write!(command, " --profile {profile}");
    }
    command + " --trace out.json"
}

/// What failed, in one line.
fn what(what: &What) -> String {
    match what {
        What::Failed(failure) => failure.to_string(),
        What::Differs { first, second } => format!(
            "two runs of one seed differ: hash {first:016x}, then {second:016x}; something that is \
             not part of the machine steers the run"
        ),
    }
}

/// A failed run: what failed, the command that repeats it, and the last events of each core.
pub(super) fn to_json(found: &Found, profile: Option<&str>) -> Value {
    let setup = &found.setup;
    json!({
        "seed": setup.seed,
        "shape": found.shape,
        "cores": setup.cores,
        "memory": memory_name(setup.memory),
        "what": what(&found.what),
        "replay": replay_command(setup, found.shape, profile),
        "last_events": last_events(&found.outcome),
    })
}

/// An error with the command that repeats the failure, if there is one.
pub(super) fn check(found: Option<&Found>, profile: Option<&str>) -> Result<()> {
    found.map_or(Ok(()), |found| {
        let replay = replay_command(&found.setup, found.shape, profile);
        Err(failed(found.setup.seed, &what(&found.what), &replay))
    })
}

/// An error of a seed.
pub(crate) fn failed(seed: u64, what: &str, replay: &str) -> Error {
    anyhow!("seed {seed}: {what}\nthis repeats it: {replay}")
}

/// The last events of each core.
fn last_events(outcome: &Outcome) -> String {
    let mut cores: BTreeMap<usize, Vec<(usize, &ThreadReport)>> = BTreeMap::new();
    for (number, thread) in outcome.threads.iter().enumerate() {
        cores.entry(thread.cpu).or_default().push((number, thread));
    }
    let last_ns = |threads: &[(usize, &ThreadReport)]| {
        let last = threads.iter().filter_map(|(_, thread)| thread.last.last());
        last.map(|event| event.time_ns).max().unwrap_or(0)
    };
    let mut latest: Vec<u64> = cores.values().map(|threads| last_ns(threads)).collect();
    latest.sort_unstable_by(|one, other| other.cmp(one));
    let from_ns = latest.get(CORES_SHOWN - 1).copied().unwrap_or(0);
    let mut text = String::new();
    let mut hidden = 0;
    // Writing to a string does not fail.
    for (core, threads) in &cores {
        if last_ns(threads) < from_ns {
            hidden += 1;
            continue;
        }
        let _ = writeln!(text, "core {core}");
        for (number, thread) in threads {
            let _ = writeln!(text, "  thread {number}, {}: {}", thread.name, thread.doing);
            let first = thread.last.len().saturating_sub(EVENTS_SHOWN);
            for event in &thread.last[first..] {
                let (time_ns, name) = (event.time_ns, event.kind.name());
                let line = Some(event.line).filter(|line| *line != u32::MAX);
                let line = line.map_or_else(|| "-".to_owned(), |line| line.to_string());
                let _ = writeln!(text, "    {time_ns:>14} ns  {name:<10} {line}");
            }
        }
    }
    if hidden > 0 {
        let what = "cores on which nothing happened for longer";
        let _ = writeln!(text, "({hidden} {what})");
    }
    text
}

#[cfg(test)]
mod tests {
    use doorbell_machine::sim::Memory;

    use super::*;

    #[test]
    fn the_command_has_all_that_fixes_a_run() {
        let setup = Setup {
            seed: 17,
            cores: 12,
            memory: Memory::Tso,
            profile: None,
        };
        assert_eq!(
            replay_command(&setup, "storm", Some("./mine.toml")),
            "doorbell sim replay 17 --shape storm --cores 12 --memory tso --profile ./mine.toml \
             --trace out.json"
        );
    }
}
