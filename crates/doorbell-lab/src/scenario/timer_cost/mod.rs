//! `doorbell lab timer-cost`: the cost of a timer that never fires, such as a timeout's.
//!
//! A sleep is created, polled once and dropped. Each poll must find it pending.

mod shelf;
mod wheel;

use std::future::{pending, poll_fn};
use std::hint::black_box;
use std::iter;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use crate::error::check_count;
use crate::frame::{Contestant, Outcome, Plan, Stage, Work};
use crate::measure::Pin;
use crate::peers::{Doorbell, Role, Smol, Timers, Tokio, Workers, join_all, thread_on};
use crate::tools::{Crew, Meeting, Random, run_all};
use anyhow::Result;
use shelf::Shelf;
use wheel::Wheel;

const OPERATIONS: [u32; 2] = [500_000, 100_000];
const PENDING: [u32; 2] = [1_000_000, 100_000];
/// How far away a deadline is; that of the sleep which is due earlier; and one later than all.
const AWAY: Duration = Duration::from_secs(10);
const GUARD: Duration = Duration::from_secs(8);
const GUARD_FAR: Duration = Duration::from_hours(2);
/// How much earlier than the one before it each is, where it is to be the earliest.
const STEP: Duration = Duration::from_millis(1);
const BATCH: u32 = 1_000;
/// When the others are due.
const PENDING_S: [f64; 2] = [20.0, 3_600.0];
const SEED: u64 = 0x0D00_4BE1;
/// Each worker parks once before, as a driver knows only then which timer is the earliest.
const PARK: Duration = Duration::from_millis(1);

pub(super) const PLAN: Plan = Plan {
    scenario: "timer-cost",
    work: |options| {
        let amount = options.full_or_quick(OPERATIONS);
        Work::of(amount, amount / 10, amount).at_most(Duration::from_mins(2))
    },
    contestants: |stage| Ok(contestants(stage, stage.options.full_or_quick(PENDING))),
    compared: "op_ns",
    ..Plan::NEW
};

/// The order in which sleeps are created and dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pattern {
    OneByOne,
    /// Many, then all are dropped.
    Batches,
    /// Each earlier than all before.
    Earliest,
    /// Beside so many others.
    Pending(u32),
    /// A task on each core.
    BothCores,
    /// No sleep, only a reading of the clock.
    Clock,
}

impl Pattern {
    fn label(self) -> String {
        match self {
            Self::OneByOne => "one by one".to_owned(),
            Self::Batches => "batches of 1,000".to_owned(),
            Self::Earliest => "the earliest there is".to_owned(),
            Self::Pending(count) if count.is_multiple_of(1_000_000) => {
                format!("{} M pending", count / 1_000_000)
            }
            Self::Pending(count) => format!("{} k pending", count / 1_000),
            Self::BothCores => "both cores at once".to_owned(),
            Self::Clock => "the clock alone".to_owned(),
        }
    }

    fn tasks(self) -> usize {
        if self == Self::BothCores { 2 } else { 1 }
    }

    /// How far away the deadline of a sleep is.
    fn ahead(self, index: u32, operations: u32) -> Duration {
        match self {
            Self::Earliest => AWAY + STEP * (operations - index),
            _ => AWAY,
        }
    }

    /// The sleeps that are pending all the time, and their number.
    fn standing(self) -> (impl Iterator<Item = Duration>, usize) {
        let (guard, count) = match self {
            Self::Earliest => (GUARD_FAR, 0),
            Self::Pending(count) => (GUARD, count),
            _ => (GUARD, 0),
        };
        let mut random = Random::seeded(SEED);
        let [low, high] = PENDING_S;
        let others = move |_| Duration::from_secs_f64(random.between(low, high));
        let all = iter::once(guard).chain((0..count).map(others));
        (all, count as usize + 1)
    }
}

fn contestants(stage: &Stage, pending: u32) -> Vec<Contestant> {
    use Pattern::{Batches, BothCores, Clock, Earliest, OneByOne, Pending};
    let workers = Workers::on(stage.cpus());
    let mut all = Vec::new();
    for pattern in [OneByOne, Batches, Earliest, Pending(pending), BothCores] {
        let label = pattern.label();
        let of = |end: &str, role: fn(usize) -> Role, pull: &'static str| {
            let workers = workers.clone();
            let start = move || {
                let mut peer = Doorbell::switched(&workers, pull)?;
                hold(&mut peer, pattern).map(|()| peer)
            };
            let one = Contestant::of(format!("{label}{end}"), start, run(pattern, role));
            one.in_group(&label)
        };
        all.extend([
            floor(stage, pattern),
            of("", Role::on, ""),
            of(", unpinned", Role::from, ""),
        ]);
        if let OneByOne | BothCores = pattern {
            // The switch is of timers that may move.
            all.push(of(", unpinned, pull on", Role::from, "timer_pull=on"));
            all.push(of(", unpinned, base", Role::from, "timer_pull=base"));
        }
        all.push(sleeps::<Tokio>(workers.clone(), pattern));
        all.push(sleeps::<Smol>(workers.clone(), pattern));
    }
    all.push(clock_alone(stage));
    all.push(sleeps::<Doorbell>(workers, Clock));
    all
}

/// The sleeps of a runtime.
fn sleeps<P: Timers>(workers: Workers, pattern: Pattern) -> Contestant {
    let start = move || {
        let mut peer = P::start(&workers)?;
        hold(&mut peer, pattern).map(|()| peer)
    };
    Contestant::of(pattern.label(), start, run::<P>(pattern, Role::on))
}

/// Arms the sleeps that are pending all the time, on core 0.
fn hold<P: Timers>(peer: &mut P, pattern: Pattern) -> Result<()> {
    let mut armed = Crew::new();
    let tell = armed.teller();
    let job = async move {
        let (standing, count) = pattern.standing();
        let (mut shelf, mut standing) = (Shelf::with_room_for(count), Some(standing));
        P::unbudgeted(poll_fn(|cx| {
            for ahead in standing.take().into_iter().flatten() {
                // The result is ignored: the sleep must only stay until it is dropped.
                let _ = shelf.put(P::sleep(ahead)).poll(cx);
            }
            Poll::Ready(())
        }))
        .await;
        // The receiver is gone only if the waiting thread has panicked.
        let _ = tell.send(());
        pending::<()>().await;
        drop(shelf);
    };
    peer.spawn_as(Role::on(0), job)?;
    armed.gather().map(drop)
}

/// A task for each part of the pattern. If they are pinned, they are on the worker with the pending sleeps, which a
/// runtime may keep per worker.
fn run<P: Timers>(
    pattern: Pattern,
    role: fn(usize) -> Role,
) -> impl Fn(&mut P, u32) -> Result<Outcome> {
    move |peer, operations| {
        let tasks = pattern.tasks();
        let meeting = Arc::new(Meeting::of(tasks as u32));
        let measure = |core| {
            let meeting = Arc::clone(&meeting);
            let measure = async move {
                P::sleep(PARK).await;
                meeting.arrive().await;
                let timed = poll_fn(|cx| Poll::Ready(time::<P>(pattern, operations, cx)));
                P::unbudgeted(timed).await
            };
            (role(core), measure)
        };
        outcome(&run_all(peer, (0..tasks).map(measure))?, operations)
    }
}

/// The time of an operation, and how many found their sleep pending.
type Timing = (f64, u64);

fn op_ns(start: Instant, operations: u32) -> f64 {
    start.elapsed().as_secs_f64() * 1e9 / f64::from(operations.max(1))
}

fn time<P: Timers>(pattern: Pattern, operations: u32, cx: &mut Context<'_>) -> Timing {
    let mut shelf = Shelf::with_room_for(BATCH as usize);
    let mut pending = 0;
    let start = Instant::now();
    match pattern {
        Pattern::Batches => {
            for first in (0..operations).step_by(BATCH as usize) {
                for _ in first..operations.min(first + BATCH) {
                    let sleep = shelf.put(P::sleep(AWAY));
                    pending += u64::from(black_box(sleep.poll(cx)).is_pending());
                }
                shelf.clear();
            }
        }
        Pattern::Clock => {
            (0..operations).for_each(|_| P::read_clock());
            pending = u64::from(operations);
        }
        _ => {
            for index in 0..operations {
                let sleep = pin!(P::sleep(pattern.ahead(index, operations)));
                pending += u64::from(black_box(sleep.poll(cx)).is_pending());
            }
        }
    }
    (op_ns(start, operations), pending)
}

fn outcome(timings: &[Timing], operations: u32) -> Result<Outcome> {
    let expected = u64::from(operations) * timings.len() as u64;
    let found = timings.iter().map(|timing| timing.1).sum();
    check_count("sleeps pending at their first poll", expected, found)?;
    let sum: f64 = timings.iter().map(|timing| timing.0).sum();
    let op_ns = sum / timings.len() as f64;
    Ok(Outcome::of(expected, [("op_ns", op_ns)]))
}

/// Reading std's clock, a part of most sleeps.
fn clock_alone(stage: &Stage) -> Contestant {
    let [cpu, _] = stage.cpus();
    let run = move |(): &mut (), operations| {
        let _here = Pin::to(cpu)?;
        let start = Instant::now();
        for _ in 0..operations {
            black_box(Instant::now());
        }
        outcome(&[(op_ns(start, operations), operations.into())], operations)
    };
    Contestant::new("std", Pattern::Clock.label(), || Ok(()), run, Ok).baseline()
}

/// The floor: a wheel on a thread of its own for each task, with nothing shared and no clock read.
fn floor(stage: &Stage, pattern: Pattern) -> Contestant {
    let cpus = stage.cpus();
    let start = move || {
        let mut wheels: Vec<_> = (0..pattern.tasks()).map(|_| Wheel::new()).collect();
        for wheel in &mut wheels {
            for ahead in pattern.standing().0 {
                wheel.arm(ahead);
            }
        }
        Ok(wheels)
    };
    let run = move |wheels: &mut Vec<Wheel>, operations| {
        let meeting = Arc::new(Meeting::of(wheels.len() as u32));
        let mut threads = Vec::new();
        for (mut wheel, cpu) in wheels.drain(..).zip(cpus) {
            let meeting = Arc::clone(&meeting);
            threads.push(thread_on("wheel", Some(cpu), move || {
                futures::executor::block_on(meeting.arrive());
                let timing = time_wheel(&mut wheel, pattern, operations);
                (wheel, timing)
            })?);
        }
        let timings: Vec<_>;
        (*wheels, timings) = join_all(threads)?.into_iter().unzip();
        outcome(&timings, operations)
    };
    Contestant::new("array wheel", pattern.label(), start, run, |_| Ok(())).baseline()
}

fn time_wheel(wheel: &mut Wheel, pattern: Pattern, operations: u32) -> Timing {
    let mut batch = Vec::with_capacity(BATCH as usize);
    let start = Instant::now();
    if pattern == Pattern::Batches {
        for first in (0..operations).step_by(BATCH as usize) {
            for _ in first..operations.min(first + BATCH) {
                batch.push(wheel.arm(black_box(AWAY)));
            }
            for number in batch.drain(..) {
                wheel.disarm(number);
            }
        }
    } else {
        for index in 0..operations {
            let number = wheel.arm(black_box(pattern.ahead(index, operations)));
            wheel.disarm(black_box(number));
        }
    }
    (op_ns(start, operations), operations.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::testing::{self, assert_plan, stage, try_each};
    use crate::scenario::Options;

    const FEW: u32 = 2_500;

    #[test]
    fn every_contestant_runs_in_every_pattern() {
        let Some(stage) = stage(&Options::default()) else {
            return;
        };
        try_each(contestants(&stage, 1_000), |one, run| {
            let outcome = testing::outcome(one, run, FEW);
            let tasks = if one.group == "both cores at once" {
                2
            } else {
                1
            };
            assert_eq!(outcome.operations, tasks * u64::from(FEW), "{one:?}");
            assert!(outcome.figures["op_ns"] > 0.0, "{one:?}");
        });
    }

    #[test]
    fn every_variant_has_one_floor() {
        let all = testing::contestants(&PLAN, &Options::default());
        for one in &all {
            let floors = all
                .iter()
                .filter(|of| of.is_baseline && of.group == one.group);
            assert_eq!(floors.count(), 1, "{one:?}");
        }
        let is_there = |label: &str| all.iter().any(|one| one.label() == label);
        assert!(
            all.is_empty() || is_there("doorbell (1 M pending, unpinned)"),
            "{all:?}"
        );
    }

    #[test]
    fn deadlines_are_as_the_pattern_says() {
        let ahead: Vec<_> = (0..3).map(|i| Pattern::Earliest.ahead(i, 3)).collect();
        assert!(
            ahead.is_sorted_by(|earlier, later| earlier > later),
            "{ahead:?}"
        );
        let guard = Pattern::Earliest
            .standing()
            .0
            .next()
            .expect("one is pending");
        assert!(guard > Pattern::Earliest.ahead(0, FEW));
        let (standing, count) = Pattern::Pending(50).standing();
        let standing: Vec<_> = standing.collect();
        assert_eq!((standing.len(), count), (51, 51));
        let away = Pattern::Pending(50).ahead(0, 1);
        assert!(standing[0] < away && standing[1..].iter().all(|ahead| *ahead > away));
    }

    #[test]
    fn a_sleep_that_is_ready_at_once_is_an_error() {
        let error = outcome(&[(1.0, 9)], 10).expect_err("one is missing");
        assert!(
            error.to_string().starts_with("10 sleeps pending"),
            "{error}"
        );
    }

    #[test]
    fn the_plan_fits() {
        let kept = ["ns", "x floor", "syscalls/1k", "RES+CAL/1k"];
        assert_plan(&PLAN, &Options::default(), &kept);
    }
}
