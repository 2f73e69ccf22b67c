//! `doorbell lab stuck`: how others do the work of a core that is inside a long poll.
//!
//! On one of two cores a task queues 1, 2 or 4 others, or another task sleeps; then a poll takes 10 ms
//! there. The other core is parked, or awake with short polls. The lateness of a queued task is the time
//! until it starts; that of the sleeping one is the time from its deadline until it continues.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::channel::oneshot;

use crate::error::check_count;
use crate::frame::{Contestant, Plan, Stage, Work};
use crate::peers::{Doorbell, Role, Spawns, Timers, Tokio, Workers};
use crate::tools::{End, Lateness, run_all, spin};

const TIMES: [u32; 2] = [200, 40];
/// The long poll.
const STUCK: Duration = Duration::from_millis(10);
/// How long the sleeper sleeps.
const SLEEP: Duration = Duration::from_millis(1);
/// Time between two long polls.
const PAUSE: Duration = Duration::from_millis(2);
/// A poll of the other core, if it is awake.
const SHORT: Duration = Duration::from_micros(20);
/// The other core may take the sleeper before it sleeps; then it is spawned again, so often.
const TRIES: u32 = 100;

/// The variants: how many tasks wait, or 0 for a sleeping one; and whether the other core is awake.
const VARIANTS: [(&str, usize, bool); 8] = [
    ("1 task, other parked", 1, false),
    ("2 tasks, other parked", 2, false),
    ("4 tasks, other parked", 4, false),
    ("1 task, other awake", 1, true),
    ("2 tasks, other awake", 2, true),
    ("4 tasks, other awake", 4, true),
    ("timer, other parked", 0, false),
    ("timer, other awake", 0, true),
];

pub(super) const PLAN: Plan = Plan {
    scenario: "stuck",
    work: |options| Work::of(options.full_or_quick(TIMES), 5, TIMES[1]),
    contestants: |stage| {
        let both = |variant| {
            [
                stuck::<Tokio>(stage, variant).baseline(),
                stuck::<Doorbell>(stage, variant),
            ]
        };
        Ok(VARIANTS.into_iter().flat_map(both).collect())
    },
    ..Plan::NEW
};

fn stuck<P: Timers + Spawns>(
    stage: &Stage,
    (variant, waiting, is_awake): (&'static str, usize, bool),
) -> Contestant {
    let workers = Workers::on(stage.cpus());
    let run = move |peer: &mut P, times| {
        let end = Arc::new(End::default());
        if is_awake {
            peer.spawn_as(Role::from(1), stay_awake::<P>(Arc::clone(&end)))?;
        }
        let found = run_all(peer, [(Role::from(0), block::<P>(waiting, times))]);
        end.ask();
        let late = found?.remove(0);
        if waiting > 0 {
            check_count("tasks", waiting as u64 * u64::from(times), late.count())?;
        }
        Ok(late.into_outcome())
    };
    Contestant::of(variant, move || P::start(&workers), run)
}

async fn stay_awake<P: Spawns>(end: Arc<End>) {
    while !end.is_asked() {
        spin(SHORT);
        P::yield_now().await;
    }
}

async fn block<P: Timers + Spawns>(waiting: usize, times: u32) -> Lateness {
    let mut late = Lateness::default();
    for _ in 0..times {
        // A timer of this task's core wakes it.
        P::sleep(PAUSE).await;
        if waiting > 0 {
            queued::<P>(waiting, &mut late).await;
        } else {
            sleeping::<P>(&mut late).await;
        }
    }
    late
}

/// Tasks that are queued behind the long poll.
async fn queued<P: Spawns>(tasks: usize, late: &mut Lateness) {
    let spawn = |_| {
        let (tell, told) = oneshot::channel();
        let spawned = Instant::now();
        P::spawn_here(async move {
            // The receiver is gone only if the runtime has ended.
            let _ = tell.send(Instant::now());
        });
        (spawned, told)
    };
    let all: Vec<_> = (0..tasks).map(spawn).collect();
    spin(STUCK);
    for (spawned, told) in all {
        if let Ok(ran) = told.await {
            late.note(spawned, ran);
        }
    }
}

/// A task that sleeps on the core of the long poll.
async fn sleeping<P: Timers + Spawns>(late: &mut Lateness) {
    let home = P::here();
    for _ in 0..TRIES {
        let (sleeps, asleep) = oneshot::channel();
        let (wakes, awake) = oneshot::channel();
        P::spawn_here(async move {
            let due = Instant::now() + SLEEP;
            let lives_here = P::here() == home;
            let _ = sleeps.send(lives_here);
            if lives_here {
                P::sleep(SLEEP).await;
                let _ = wakes.send((due, Instant::now()));
            }
        });
        // It may have continued on the other core.
        if asleep.await == Ok(true) && P::here() == home {
            spin(STUCK);
            if let Ok((due, ran)) = awake.await {
                late.note(due, ran);
            }
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::testing::{assert_plan, contestants, outcome, try_each};
    use crate::scenario::Options;

    #[test]
    fn what_waits_is_done_and_never_early() {
        try_each(contestants(&PLAN, &Options::default()), |one, run| {
            let outcome = outcome(one, run, 5);
            // One for each queued task; the other core may take the sleeper each time.
            let (least, most) = match one.variant.chars().next() {
                Some('1') => (5, 5),
                Some('2') => (10, 10),
                Some('4') => (20, 20),
                _ => (1, 5),
            };
            assert!(
                (least..=most).contains(&outcome.operations),
                "{one:?}: {outcome:?}"
            );
            assert_eq!(outcome.figures.get("early_count"), Some(&0.0), "{one:?}");
            assert_eq!(outcome.late.len() as u64, outcome.operations, "{one:?}");
        });
    }

    #[test]
    fn the_plan_fits() {
        let kept = ["p50 us", "p99 us", "max us", "x tokio", "runs", "early"];
        assert_plan(&PLAN, &Options::default(), &kept);
    }
}
