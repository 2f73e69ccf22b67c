//! `doorbell lab timer-acc`: how late sleeps end.
//!
//! Many tasks sleep repeatedly, for times that are the same in every round and for every contestant. The
//! lateness of a sleep is the time from its deadline until its task continues.

use std::time::{Duration, Instant};

use crate::frame::{Contestant, Plan, Stage, Work};
use crate::peers::{Doorbell, Peer, Role, Smol, Threads, Tokio, Workers};
use crate::tools::{Lateness, Random, run_all};

const SLEEPERS: usize = 400;
const SLEEPS: [u32; 2] = [25, 5];
const LENGTH_US: [f64; 2] = [1_000.0, 50_000.0];
const SEED: u64 = 0x0D00_4BE2;

pub(super) const PLAN: Plan = Plan {
    scenario: "timer-acc",
    work: |options| {
        let amount = options.full_or_quick(SLEEPS);
        Work::of(amount, 1, amount)
    },
    contestants: |stage| Ok(contestants(stage)),
    compared: "p50_us",
    ..Plan::NEW
};

fn contestants(stage: &Stage) -> Vec<Contestant> {
    let all = vec![
        sleepers::<Threads>(stage, "400 threads", Role::on).baseline(),
        sleepers::<Doorbell>(stage, "slack 0", Role::from),
        sleepers::<Doorbell>(stage, "slack 0, pinned tasks", Role::on),
        sleepers::<Tokio>(stage, "400 tasks", Role::from),
        sleepers::<Smol>(stage, "400 tasks", Role::from),
    ];
    all.into_iter().map(|one| one.in_group("all")).collect()
}

/// The lengths of the sleeps of each sleeper.
fn lengths(sleeps: u32) -> impl Iterator<Item = Vec<Duration>> {
    let mut random = Random::seeded(SEED);
    let [low, high] = LENGTH_US;
    (0..SLEEPERS).map(move |_| {
        let length = |_| Duration::from_micros(random.between(low, high) as u64);
        (0..sleeps).map(length).collect()
    })
}

/// Half of the sleepers on each of two CPUs.
fn sleepers<P: Peer>(stage: &Stage, variant: &str, role: fn(usize) -> Role) -> Contestant {
    let workers = Workers::on(stage.cpus());
    let run = move |peer: &mut P, sleeps| {
        let sleeper = |(index, lengths): (usize, Vec<Duration>)| {
            let sleep = async move {
                let mut lateness = Lateness::default();
                for length in lengths {
                    let due = Instant::now() + length;
                    P::sleep_until(due).await;
                    lateness.note(due, Instant::now());
                }
                lateness
            };
            (role(index % 2), sleep)
        };
        let all = run_all(peer, lengths(sleeps).enumerate().map(sleeper))?;
        let expected = SLEEPERS as u64 * u64::from(sleeps);
        Lateness::outcome_of(&all, "sleeps", expected)
    };
    Contestant::of(variant, move || P::start(&workers), run)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::testing::{assert_plan, contestants, outcome, try_each};
    use crate::scenario::Options;

    #[test]
    fn everybody_sleeps_long_enough() {
        try_each(contestants(&PLAN, &Options::default()), |one, run| {
            let outcome = outcome(one, run, 2);
            assert_eq!(outcome.operations, 800, "{one:?}");
            assert_eq!(outcome.figures.get("early_count"), Some(&0.0), "{one:?}");
        });
    }

    #[test]
    fn lengths_are_the_same_every_time_and_within_their_bounds() {
        let all: Vec<_> = lengths(3).collect();
        assert_eq!(all, lengths(3).collect::<Vec<_>>());
        let bounds = Duration::from_millis(1)..Duration::from_millis(50);
        assert!(all.iter().flatten().all(|length| bounds.contains(length)));
    }

    #[test]
    fn the_plan_fits() {
        let kept = [
            "p50 us",
            "p99 us",
            "max us",
            "x threads",
            "CPU %",
            "syscalls/1k",
            "early",
        ];
        assert_plan(&PLAN, &Options::default(), &kept);
    }
}
