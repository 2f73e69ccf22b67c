//! `doorbell lab timer-acc`: how late sleeps end.
//!
//! Many tasks sleep repeatedly, for times that are the same in every round and for every contestant. The
//! lateness of a sleep is the time from its deadline until its task continues.

use std::sync::mpsc::Sender;
use std::thread;
use std::time::{Duration, Instant};

use crate::error::LabError;
use crate::frame::{Contestant, Outcome, Plan, Stage, Work};
use crate::peers::{AsyncIo, Doorbell, Job, Role, Team, Timers, Tokio, Workers, default_slack};
use crate::tools::{Crew, Lateness, Random};

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
        threads(stage, "400 threads, slack 1 ns", true).baseline(),
        threads(stage, "400 threads, default slack", false),
        tasks::<Doorbell>(stage, "slack 0", Role::from),
        tasks::<Doorbell>(stage, "slack 0, pinned tasks", Role::on),
        tasks::<Tokio>(stage, "400 tasks", Role::from),
        tasks::<AsyncIo>(stage, "200 futures on each thread", Role::from),
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

fn outcome(all: &[Lateness], sleeps: u32) -> Result<Outcome, LabError> {
    Lateness::outcome_of(all, "sleeps", SLEEPERS as u64 * u64::from(sleeps))
}

/// Half of the tasks on each of two workers.
fn tasks<P: Timers>(stage: &Stage, variant: &str, role: fn(usize) -> Role) -> Contestant {
    let workers = Workers::on(stage.cpus());
    let run = move |peer: &mut P, sleeps| {
        let (mut crew, mut jobs) = (Crew::new(), [Vec::<Job>::new(), Vec::new()]);
        for (index, lengths) in lengths(sleeps).enumerate() {
            let sleep_all = async move {
                let mut lateness = Lateness::default();
                for length in lengths {
                    let due = Instant::now() + length;
                    P::sleep(length).await;
                    lateness.note(due, Instant::now());
                }
                lateness
            };
            jobs[index % 2].push(Box::pin(crew.member(sleep_all)));
        }
        for (core, jobs) in jobs.into_iter().enumerate() {
            peer.spawn_all(role(core), jobs)?;
        }
        outcome(&crew.gather()?, sleeps)
    };
    Contestant::of(variant, move || P::start(&workers), run)
}

/// What a thread is told: how long to sleep, and whom to tell.
type Order = (Vec<Duration>, Sender<Lateness>);

/// Threads that sleep in the kernel: the OS's own timers.
fn threads(stage: &Stage, variant: &str, has_least_slack: bool) -> Contestant {
    let cpus = stage.cpus();
    let start = move || {
        let mut team = Team::new("sleeper");
        for index in 0..SLEEPERS {
            team.add(Some(cpus[index % cpus.len()]), move || {
                if !has_least_slack {
                    default_slack();
                }
                sleep_all
            })?;
        }
        Ok(team)
    };
    let run = |threads: &mut Team<Order>, sleeps| {
        let mut crew = Crew::new();
        for (place, lengths) in lengths(sleeps).enumerate() {
            threads.order(place, (lengths, crew.teller()))?;
        }
        outcome(&crew.gather()?, sleeps)
    };
    Contestant::new("OS threads", variant, start, run, Team::end)
}

fn sleep_all((lengths, done): Order) {
    let mut lateness = Lateness::default();
    for length in lengths {
        let due = Instant::now() + length;
        thread::sleep(length);
        lateness.note(due, Instant::now());
    }
    // The receiver is gone only if the waiting thread has panicked.
    let _ = done.send(lateness);
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
