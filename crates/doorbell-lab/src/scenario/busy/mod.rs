//! `doorbell lab busy`: what waits, and for how long, while tasks compute and yield.
//!
//! - *A crowd*: tasks that compute and yield for ever. Beside them one task reads a socket, one sleeps, and a
//!   thread outside spawns tasks.
//! - *A service*: handlers compute in slices and yield between them, and others ask for something short.
//! - *A lone task* that yields, and a socket that gets ready meanwhile.
//! - *Sleeps* of a runtime whose only worker parks, spins or never parks.

mod others;
mod tasks;

use std::time::Duration;

use crate::frame::{Contestant, Plan, Stage, Work};
use crate::peers::{Doorbell, Net, Smol, Tokio, Tokios};
use crate::scenario::Options;

const SPAN_MS: [u32; 2] = [3_000, 500];
const WARM_UP_MS: [u32; 2] = [500, 100];
/// What a pass takes beside its work.
const SPARE: Duration = Duration::from_mins(1);
/// How long the sleeping task sleeps.
const SLEEP: Duration = Duration::from_millis(5);
const SEED: u64 = 0x0D00_4BE3;
const OURS: &str = "doorbell";
const BASELINE: &str = "tokio";
const LONE: &str = "socket beside a lone task";
/// Rows of doorbell whose worker spins.
const SPINNING: [&str; 2] = ["doorbell, NeverPark", "doorbell, spin(5 ms)"];

/// A crowd: its name, on how many cores, how many tasks, and how many µs a poll takes.
type Case = (&'static str, usize, usize, u64);

const CASES: [Case; 6] = [
    ("1 core, 1 task, 20 us", 1, 1, 20),
    ("1 core, 4 tasks, 100 us", 1, 4, 100),
    ("1 core, 1 task, 500 us", 1, 1, 500),
    ("1 core, 4 tasks, 1 ms", 1, 4, 1_000),
    ("2 cores, 4 tasks, 1 ms", 2, 4, 1_000),
    ("2 cores, 16 tasks, 1 ms", 2, 16, 1_000),
];

pub(super) const PLAN: Plan = Plan {
    scenario: "busy",
    work: |options| {
        // System calls are not counted: nothing is concluded from them.
        let work = Work::of(pass_ms(options), options.full_or_quick(WARM_UP_MS), 0);
        work.at_most(SPARE + pass(options))
    },
    contestants: |stage| Ok(contestants(stage)),
    compared: "p50_us",
    ..Plan::NEW
};

fn pass_ms(options: &Options) -> u32 {
    let usual = options.full_or_quick(SPAN_MS);
    options.seconds.map_or(usual, |seconds| 1_000 * seconds)
}

fn pass(options: &Options) -> Duration {
    Duration::from_millis(pass_ms(options).into())
}

fn contestants(stage: &Stage) -> Vec<Contestant> {
    let crowds = CASES.into_iter().map(tasks::Crowd);
    let mut all: Vec<_> = crowds.flat_map(|crowd| each_peer(&crowd)).collect();
    all.extend(others::services(pass(&stage.options)));
    all.extend(each_peer(&tasks::Lone));
    all.extend(others::sleeps());
    all
}

/// What is done on each peer.
trait OnPeer {
    fn on<P: Net>(&self) -> Contestant;
}

fn each_peer(workload: &impl OnPeer) -> Vec<Contestant> {
    vec![
        workload.on::<Tokio>().baseline(),
        workload.on::<Tokios>(),
        workload.on::<Smol>(),
        workload.on::<Doorbell>(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::testing::{self, assert_plan, outcome, try_each};

    #[test]
    fn everybody_answers_beside_tasks_that_compute() {
        // The servers are tested from outside, as processes.
        let mut all = testing::contestants(&PLAN, &Options::default());
        all.retain(|one| !one.variant.starts_with("service"));
        try_each(all, |one, run| {
            let outcome = outcome(one, run, 60);
            assert!(outcome.operations > 0, "{one:?}: {outcome:?}");
            match &*one.variant {
                LONE => assert!(outcome.figures.contains_key("yields_count"), "{one:?}"),
                how if how.contains("core") => {
                    let names: Vec<_> = outcome.parts.iter().map(|(part, _)| *part).collect();
                    assert_eq!(names, tasks::PARTS, "{one:?}");
                    assert!(outcome.parts.iter().all(|(_, times)| !times.is_empty()));
                }
                _ => assert_eq!(outcome.figures.get("early_count"), Some(&0.0), "{one:?}"),
            }
        });
    }

    #[test]
    fn every_variant_is_compared_with_tokio() {
        let all = testing::contestants(&PLAN, &Options::default());
        for one in &all {
            let group: Vec<_> = all.iter().filter(|of| of.group == one.group).collect();
            let baselines = group.iter().filter(|of| of.is_baseline);
            let names: Vec<_> = baselines.map(|of| &*of.name).collect();
            assert_eq!(names, [BASELINE], "{one:?}");
            assert!(group.iter().any(|of| of.name == OURS), "{one:?}");
        }
        let kept = [
            "p50 us",
            "p99 us",
            "max us",
            "x tokio",
            "computed/s",
            "yields",
            "most",
        ];
        assert_plan(&PLAN, &Options::default(), &kept);
    }

    #[test]
    fn work_grows_with_the_length_of_a_poll() {
        let [short, long] =
            [20, 1_000].map(|us| crate::tools::steps_for(Duration::from_micros(us)));
        assert!(short > 0 && (40..=60).contains(&(long / short)));
    }
}
