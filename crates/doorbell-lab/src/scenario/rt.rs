//! `doorbell lab rt`: periodic urgent tasks on all cores at once, as cyclictest, and less urgent ones beside them.
//!
//! Each worker of class Rt has a periodic task that stays there, by default every millisecond. All tick at the same
//! times, and do nothing else. Beside them run no, one or two extra tasks of a lower rank, which may move. The
//! periodic task of core 0 wakes them at each tick, so its worker has more than it can run at once just when all
//! others become idle. Measured are how late the ticks come, and how long the extra tasks wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::error::check_count;
use crate::frame::{Contestant, Outcome, Plan, Stage, Work, percentiles_of};
use crate::measure::{Samples, allowed_cpus};
use crate::peers::{Doorbell, Peer, Role, Threads, Tokio, Workers, refused};
use crate::scenario::Options;
use crate::tools::{Crew, Lateness, Slot, compute, counted, steps_for};
use anyhow::Result;

/// The usual period, and the least one of tokio's timers.
const PERIOD: Duration = Duration::from_millis(1);
const TOKIO_PERIOD_MIN: Duration = Duration::from_millis(1);
const SPAN_MS: [u32; 2] = [2_000, 600];
/// An extra task computes for this part of the period.
const WORK_PART: u32 = 10;
/// Time for all tasks to be spawned.
const BEGINS_IN: Duration = Duration::from_millis(20);
const PERIODIC_RANK: u8 = 95;
const EXTRA: Role = Role::of_rank(50);
/// The variants, and their numbers of extra tasks.
const VARIANTS: [(&str, usize); 3] = [("no extra", 0), ("1 extra", 1), ("2 extra", 2)];

pub(super) const PLAN: Plan = Plan {
    scenario: "rt",
    work: |options| Work::of(options.full_or_quick(SPAN_MS), 50, SPAN_MS[1]),
    contestants,
    notes: |options| {
        let cores = allowed_cpus().map_or(0, |cpus| cpus.len());
        let period_us = period(options).as_micros();
        let ticks = format!("ticks every {period_us} us on {cores} cores");
        [ticks].into_iter().chain(refused()).collect()
    },
    ..Plan::NEW
};

fn period(options: &Options) -> Duration {
    let given = options.period_us.map(|us| Duration::from_micros(us.into()));
    given.unwrap_or(PERIOD)
}

/// The work of an extra task.
fn steps_in(period: Duration) -> u64 {
    steps_for(period / WORK_PART)
}

fn contestants(stage: &Stage) -> Result<Vec<Contestant>> {
    let (cpus, period) = (allowed_cpus()?, period(&stage.options));
    let threads = if stage.may_be_first()? {
        "SCHED_FIFO threads"
    } else {
        "100 us slice threads"
    };
    let mut all = Vec::new();
    for variant in VARIANTS {
        let baseline = rt::<Threads>(&cpus, period, variant);
        all.push(baseline.named(threads).baseline());
        all.push(rt::<Doorbell>(&cpus, period, variant));
        if period >= TOKIO_PERIOD_MIN {
            all.push(rt::<Tokio>(&cpus, period, variant));
        }
    }
    Ok(all)
}

fn rt<P: Peer>(
    cpus: &[usize],
    period: Duration,
    (variant, extras): (&'static str, usize),
) -> Contestant {
    let (workers, cores) = (Workers::on(cpus), cpus.len());
    let run = move |peer: &mut P, span_ms: u32| {
        let span = Duration::from_millis(span_ms.into());
        let cycle = Cycle {
            begin: Instant::now() + BEGINS_IN,
            period,
            ticks: span.as_nanos().div_ceil(period.as_nanos()) as u32,
        };
        counted(peer, |peer| cycle.run(peer, cores, extras))
    };
    Contestant::of(variant, move || P::start(&workers), run)
}

/// When the tasks tick.
#[derive(Debug, Clone, Copy)]
struct Cycle {
    begin: Instant,
    period: Duration,
    ticks: u32,
}

/// What a periodic task found.
#[derive(Debug, Default)]
struct Ticked {
    late: Lateness,
    missed: u32,
    woken: u32,
    skipped: u32,
}

impl Cycle {
    fn due(&self, tick: u32) -> Instant {
        self.begin + self.period * tick
    }

    /// The tick after this one that is not over yet.
    fn after(&self, tick: u32, now: Instant) -> u32 {
        let passed = now.saturating_duration_since(self.begin).as_nanos() / self.period.as_nanos();
        (passed as u32 + 1).clamp(tick + 1, self.ticks.max(tick + 1))
    }

    fn run<P: Peer>(self, peer: &mut P, cores: usize, extras: usize) -> Result<Outcome> {
        let woken: Arc<[Extra]> = (0..extras).map(|_| Extra::default()).collect();
        let steps = steps_in(self.period);
        let mut waiting = Crew::new();
        for place in 0..extras {
            let theirs = Arc::clone(&woken);
            let extra = async move { theirs[place].run(steps).await };
            peer.spawn_as(EXTRA, waiting.member(extra))?;
        }
        let (none, mut ticking): (Arc<[Extra]>, _) = (Arc::default(), Crew::new());
        for core in 0..cores {
            let role = Role::on(core).ranked(PERIODIC_RANK);
            let wakes = if core == 0 { &woken } else { &none };
            let periodic = ticking.member(tick::<P>(self, Arc::clone(wakes)));
            peer.spawn_as(role, periodic)?;
        }
        self.sum(ticking.gather()?, &waiting.gather()?)
    }

    fn sum(self, all: Vec<Ticked>, extras: &[Samples]) -> Result<Outcome> {
        let mut sum = Ticked::default();
        for one in all {
            let count = one.late.count() + u64::from(one.missed);
            check_count("ticks", self.ticks.into(), count)?;
            sum.late.add(&one.late);
            sum.missed += one.missed;
            sum.woken += one.woken;
            sum.skipped += one.skipped;
        }
        let waits = Samples::of_all(extras);
        check_count("wakes", sum.woken.into(), waits.len() as u64)?;
        let missed = [("missed_count", f64::from(sum.missed))];
        let outcome = sum.late.into_outcome().and(missed);
        if extras.is_empty() {
            return Ok(outcome);
        }
        let names = ["wait_p50_us", "wait_p99_us", "wait_max_us"];
        let waited = percentiles_of(&waits, [50.0, 99.0, 100.0], names);
        let skipped = [("skipped_count", f64::from(sum.skipped))];
        Ok(outcome.and(skipped).and(waited))
    }
}

async fn tick<P: Peer>(cycle: Cycle, extras: Arc<[Extra]>) -> Ticked {
    let mut ticked = Ticked::default();
    let mut tick = 0;
    while tick < cycle.ticks {
        P::sleep_until(cycle.due(tick)).await;
        let now = Instant::now();
        ticked.late.note(cycle.due(tick), now);
        for extra in &*extras {
            if extra.wake() {
                ticked.woken += 1;
            } else {
                ticked.skipped += 1;
            }
        }
        let next = cycle.after(tick, now);
        ticked.missed += next - tick - 1;
        tick = next;
    }
    extras.iter().for_each(|extra| extra.woken.close());
    ticked
}

/// An extra task.
#[derive(Debug, Default)]
struct Extra {
    woken: Slot<Instant>,
    computes: AtomicBool,
}

impl Extra {
    /// Wakes it, unless it still computes.
    fn wake(&self) -> bool {
        // ORDER: Acquire pairs with the Release in `run`; only this side sets it.
        if self.computes.load(Ordering::Acquire) {
            return false;
        }
        // ORDER: Relaxed; the slot publishes it.
        self.computes.store(true, Ordering::Relaxed);
        self.woken.put(Instant::now())
    }

    async fn run(&self, steps: u64) -> Samples {
        let mut waits = Samples::default();
        while let Some(woken) = self.woken.take().await {
            waits.record(woken.elapsed().as_nanos() as u64);
            compute(steps);
            // ORDER: Release pairs with the Acquire in `wake`.
            self.computes.store(false, Ordering::Release);
        }
        waits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::testing::{assert_plan, contestants, outcome, try_each};

    #[test]
    fn everybody_ticks_and_the_extra_ones_run() {
        let cpus = allowed_cpus().expect("the mask can be read").len() as u64;
        try_each(contestants(&PLAN, &Options::default()), |one, run| {
            let outcome = outcome(one, run, 30);
            let figures = &outcome.figures;
            let ticks = outcome.operations + figures["missed_count"] as u64;
            assert_eq!(ticks, 30 * cpus, "{one:?}");
            assert_eq!(figures.get("early_count"), Some(&0.0), "{one:?}");
            let has_extras = one.variant != "no extra";
            assert_eq!(figures.contains_key("wait_max_us"), has_extras, "{one:?}");
            assert_eq!(figures.contains_key("skipped_count"), has_extras, "{one:?}");
            assert_eq!(
                figures.contains_key("rings_per_op"),
                one.name == "doorbell",
                "{one:?}"
            );
        });
    }

    #[test]
    fn tokio_has_no_shorter_ticks() {
        let options = Options {
            period_us: Some(100),
            ..Options::default()
        };
        assert!(
            contestants(&PLAN, &options)
                .iter()
                .all(|one| one.name != "tokio")
        );
    }

    #[test]
    fn ticks_that_are_over_are_left_out() {
        let cycle = Cycle {
            begin: Instant::now(),
            period: PERIOD,
            ticks: 10,
        };
        let after = |tick, passed: f64| cycle.after(tick, cycle.begin + PERIOD.mul_f64(passed));
        assert_eq!(
            [after(0, 0.0), after(0, 0.5), after(2, 2.1), after(2, 5.5)],
            [1, 1, 3, 6]
        );
        assert_eq!([after(2, 50.0), after(9, 50.0)], [10, 10]);
    }

    #[test]
    fn extra_tasks_compute_for_a_part_of_the_period() {
        let [short, long] = [Duration::from_micros(100), PERIOD].map(steps_in);
        let times = long as f64 / short as f64;
        assert!((9.9..10.1).contains(&times), "{short}, {long}");
    }

    #[test]
    fn the_plan_fits() {
        let kept = [
            "p50 us",
            "p99 us",
            "max us",
            "x threads",
            "missed",
            "wait p50",
            "wait p99",
            "wait max",
        ];
        assert_plan(&PLAN, &Options::default(), &kept);
    }
}
