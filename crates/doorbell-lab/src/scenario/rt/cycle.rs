//! The periodic tasks, one on each core, and the extra ones that the task of core 0 wakes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::super::ranked::{Ranked, Role};
use super::super::slot::Slot;
use super::super::steps::compute;
use super::super::timers::{Lateness, gather, tell};
use crate::error::LabError;
use crate::measure::Samples;

/// From the creation of the tasks to the first tick.
const BEGINS_IN: Duration = Duration::from_millis(20);
/// The rank of the periodic tasks, as the priority of cyclictest's threads.
const PERIODIC_RANK: u8 = 95;
/// An extra task may run on every core.
const EXTRA: Role = Role {
    rank: 50,
    core: None,
};

/// When the tasks tick, all at the same times.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cycle {
    pub(super) begin: Instant,
    pub(super) period: Duration,
    /// How many ticks come before the end.
    pub(super) ticks: u32,
}

impl Cycle {
    /// One that begins soon.
    pub(super) fn soon(period: Duration, ticks: u32) -> Self {
        Self {
            begin: Instant::now() + BEGINS_IN,
            period,
            ticks,
        }
    }

    fn due(&self, tick: u32) -> Instant {
        self.begin + self.period * tick
    }

    /// The first tick after `tick` that is not over at `now`: those between were missed.
    fn after(&self, tick: u32, now: Instant) -> u32 {
        let passed = now.saturating_duration_since(self.begin).as_nanos() / self.period.as_nanos();
        (passed as u32 + 1).clamp(tick + 1, self.ticks.max(tick + 1))
    }
}

/// The results of a periodic task.
#[derive(Debug, Default)]
struct Ticked {
    late: Lateness,
    missed: u32,
    /// Wakes of extra tasks.
    woken: u32,
    /// Extra tasks that were not woken because they still computed.
    skipped: u32,
}

/// The results of a pass.
#[derive(Debug, Default)]
pub(super) struct Cycled {
    pub(super) late: Lateness,
    pub(super) missed: u32,
    pub(super) skipped: u32,
    /// How long the extra tasks waited after each wake.
    pub(super) waits: Samples,
}

/// An extra task, as its waker sees it.
#[derive(Debug, Default)]
struct Extra {
    woken: Slot<Instant>,
    computes: AtomicBool,
}

impl Extra {
    /// Wakes it, unless it computes. Returns whether it was woken.
    fn wake(&self) -> bool {
        // ORDER: Acquire pairs with the Release in `run`; only this side sets it.
        if self.computes.load(Ordering::Acquire) {
            return false;
        }
        // ORDER: Relaxed; the slot publishes it.
        self.computes.store(true, Ordering::Relaxed);
        self.woken.put(Instant::now())
    }

    /// The task: notes how long it has waited, and computes.
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

/// A periodic task, which wakes these extra tasks at each tick.
async fn tick<H: Ranked>(cycle: Cycle, extras: Arc<[Extra]>) -> Ticked {
    let mut ticked = Ticked::default();
    let mut tick = 0;
    while tick < cycle.ticks {
        H::sleep_until(cycle.due(tick)).await;
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

/// Runs a cycle on this many cores, with this many extra tasks.
///
/// # Errors
/// [`LabError::TimersMiscounted`] if ticks are lost, [`LabError::TaskLost`] if a wake of an extra task is.
pub(super) fn run<H: Ranked>(
    host: &mut H,
    cores: usize,
    cycle: Cycle,
    (extras, steps): (usize, u64),
) -> Result<Cycled, LabError> {
    let woken: Arc<[Extra]> = (0..extras).map(|_| Extra::default()).collect();
    let (told, waits) = mpsc::channel();
    for place in 0..extras {
        let theirs = Arc::clone(&woken);
        let extra = async move { theirs[place].run(steps).await };
        host.spawn(EXTRA, tell(told.clone(), extra))?;
    }
    let none: Arc<[Extra]> = Arc::default();
    let (done, results) = mpsc::channel();
    for core in 0..cores {
        let role = Role {
            rank: PERIODIC_RANK,
            core: Some(core),
        };
        let wakes = if core == 0 { &woken } else { &none };
        let periodic = tick::<H>(cycle, Arc::clone(wakes));
        host.spawn(role, tell(done.clone(), periodic))?;
    }
    drop((told, done));
    let ticked = gather(&results, cores)?;
    let waits = gather(&waits, extras)?;
    sum(cycle, &ticked, &waits)
}

/// All results together, if each tick came or was missed, and each wake led to a run.
fn sum(cycle: Cycle, ticked: &[Ticked], waits: &[Samples]) -> Result<Cycled, LabError> {
    let (mut all, mut woken) = (Cycled::default(), 0);
    for one in ticked {
        let count = one.late.count() + u64::from(one.missed);
        if count != u64::from(cycle.ticks) {
            return Err(LabError::TimersMiscounted {
                what: "ticks",
                expected: u64::from(cycle.ticks),
                found: count,
            });
        }
        all.late.add(&one.late);
        all.missed += one.missed;
        all.skipped += one.skipped;
        woken += one.woken as usize;
    }
    for one in waits {
        all.waits.add(one);
    }
    if all.waits.len() != woken {
        return Err(LabError::TaskLost);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;
    use futures::executor::block_on;

    fn cycle() -> Cycle {
        Cycle::soon(Duration::from_millis(1), 10)
    }

    #[test]
    fn ticks_that_are_over_are_missed() {
        let cycle = cycle();
        let us = |us| cycle.begin + Duration::from_micros(us);
        assert_eq!(cycle.after(3, us(3_000)), 4);
        assert_eq!(cycle.after(3, us(3_999)), 4);
        assert_eq!(cycle.after(3, us(4_000)), 5);
        assert_eq!(cycle.after(3, us(7_500)), 8);
        // There are no more than ten.
        assert_eq!(cycle.after(3, us(70_000)), 10);
        assert_eq!(cycle.after(9, us(70_000)), 10);
    }

    #[test]
    fn an_extra_task_is_woken_again_only_when_it_has_computed() {
        let extra = Extra::default();
        assert!(extra.wake() && !extra.wake());
        assert!(extra.run(1).now_or_never().is_none());
        assert!(extra.wake());
        extra.woken.close();
        assert_eq!(block_on(extra.run(1)).len(), 1);
    }

    #[test]
    fn a_tick_that_is_missing_is_an_error() {
        let error = sum(cycle(), &[Ticked::default()], &[]).expect_err("ten are missing");
        assert_eq!(error.to_string(), "10 ticks were due, but there were 0");
        let missed = Ticked {
            missed: 10,
            ..Ticked::default()
        };
        assert_eq!(
            sum(cycle(), &[missed], &[]).expect("they add up").missed,
            10
        );
    }

    #[test]
    fn a_wake_without_a_run_is_an_error() {
        let woken = Ticked {
            missed: 10,
            woken: 1,
            ..Ticked::default()
        };
        let lost = sum(cycle(), &[woken], &[Samples::default()]);
        assert!(matches!(lost, Err(LabError::TaskLost)), "{lost:?}");
    }
}
