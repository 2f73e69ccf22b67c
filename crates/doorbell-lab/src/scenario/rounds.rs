//! Runs contestants interleaved, each between two readings of the physical limit.
//!
//! On a shared machine the distance between two CPUs changes from minute to minute. So every pass is judged
//! by the two limits around it, and is discarded when they differ too much.

use std::time::Duration;

use super::common::order;
use super::contestant::{Contestant, Observed};
use super::options::Effort;
use crate::error::LabError;
use crate::measure::{
    Clock, IdleMachine, Interrupts, Samples, SyscallSource, TimeLimit, context_switches, timed,
};
use crate::progress::Progress;

/// By how much the limits before and after a pass may differ.
pub(crate) const LIMIT_TOLERANCE_X: f64 = 1.5;
/// How often a pass between unequal limits is repeated within its round.
pub(crate) const RETRIES_MAX: u32 = 2;
/// One call in this many is made before the measurement.
const WARM_UP_DIVISOR: u32 = 10;
/// The pass that counts system calls makes this many times fewer calls.
const COUNTED_DIVISOR: u32 = 4;
/// A call that takes longer on average counts as lost.
const CALL_MAX: Duration = Duration::from_millis(1);
/// The time for a pass beyond its calls; a pass that takes longer counts as hung.
const PASS_MAX: Duration = Duration::from_mins(1);

/// The figures of one kept round.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Figures {
    /// Half of the calls took at most this; `None` if there were too few.
    pub(crate) p50_ns: Option<f64>,
    /// 99 of 100 calls took at most this; `None` if there were too few.
    pub(crate) p99_ns: Option<f64>,
    /// The mean of the limits before and after.
    pub(crate) limit_ns: f64,
    /// RES and CAL interrupts per 1,000 calls, minus those of the idle machine.
    pub(crate) interrupts_per_1k: Option<f64>,
    /// Context switches of the process per 1,000 calls.
    pub(crate) switches_per_1k: f64,
    /// System calls per 1,000 calls, from a separate pass.
    pub(crate) syscalls_per_1k: Option<f64>,
    /// Further findings.
    pub(crate) observed: Observed,
}

/// The results of a contestant.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Tape {
    /// The rounds that were kept.
    pub(crate) kept: Vec<Figures>,
    /// How many rounds were dropped after [`RETRIES_MAX`] repetitions.
    pub(crate) rounds_dropped: u32,
    /// How many passes were discarded, including those of kept rounds.
    pub(crate) passes_dropped: u32,
}

/// Takes the physical limit: a round trip in nanoseconds.
pub(crate) type LimitProbe<'a> = dyn FnMut() -> Result<f64, LabError> + 'a;

/// A run of all contestants.
#[allow(missing_debug_implementations)] // It borrows a closure.
pub(crate) struct Contest<'a> {
    /// Rounds and calls.
    pub(crate) effort: Effort,
    /// Measures the limit.
    pub(crate) limit: &'a mut LimitProbe<'a>,
    /// The clock that times the calls.
    pub(crate) clock: Clock,
    /// The idle machine's own activity.
    pub(crate) rest: IdleMachine,
    /// Counts system calls, if possible.
    pub(crate) syscalls: Option<SyscallSource>,
    /// Ends the program when a contestant hangs.
    pub(crate) time_limit: &'a TimeLimit,
    /// Shows the progress of the run.
    pub(crate) progress: &'a Progress,
}

/// The mean of the two limits around a pass; `None` if they differ by more than [`LIMIT_TOLERANCE_X`], so
/// that the pass is not trusted.
pub(crate) fn trusted_limit_ns(before_ns: f64, after_ns: f64) -> Option<f64> {
    let (low, high) = (before_ns.min(after_ns), before_ns.max(after_ns));
    let usable = low > 0.0 && high / low <= LIMIT_TOLERANCE_X;
    usable.then(|| f64::midpoint(before_ns, after_ns))
}

impl Figures {
    /// The median call, in units of the limit of the same round.
    pub(crate) fn p50_x(&self) -> Option<f64> {
        Some(self.p50_ns? / self.limit_ns)
    }
}

impl Contest<'_> {
    /// Runs every contestant in every round. The tapes are in the order of the contestants.
    ///
    /// # Errors
    /// The first error of a contestant (which it names), of the limit or of an instrument.
    pub(crate) fn run(
        &mut self,
        contestants: &mut [Box<dyn Contestant>],
    ) -> Result<Vec<Tape>, LabError> {
        let mut tapes = vec![Tape::default(); contestants.len()];
        for round in 0..self.effort.rounds {
            for index in order(round, contestants.len()) {
                let contestant = contestants[index].as_mut();
                self.progress
                    .show(round, contestant.name(), contestant.variant());
                self.round_of(contestant, &mut tapes[index])
                    .map_err(|error| {
                        error.in_contestant(contestant.name(), contestant.variant())
                    })?;
                self.progress.advance();
            }
        }
        Ok(tapes)
    }

    /// One contestant's part of a round.
    fn round_of(
        &mut self,
        contestant: &mut dyn Contestant,
        tape: &mut Tape,
    ) -> Result<(), LabError> {
        for _ in 0..=RETRIES_MAX {
            let before_ns = (self.limit)()?;
            let mut figures = self.timed_pass(contestant)?;
            let after_ns = (self.limit)()?;
            if let Some(limit_ns) = trusted_limit_ns(before_ns, after_ns) {
                figures.limit_ns = limit_ns;
                figures.syscalls_per_1k = self.counted_pass(contestant)?;
                tape.kept.push(figures);
                return Ok(());
            }
            tape.passes_dropped += 1;
        }
        tape.rounds_dropped += 1;
        Ok(())
    }

    /// Times the calls, and reads the counters that do not slow them down.
    fn timed_pass(&self, contestant: &mut dyn Contestant) -> Result<Figures, LabError> {
        let calls = self.effort.calls_of(contestant.speed());
        self.pass(contestant, calls, |contestant| {
            let mut samples = Samples::with_room_for(calls);
            let interrupts_before = Interrupts::read()?;
            let switches_before = context_switches()?;
            let (observed, span) = timed(|| contestant.run(calls, &mut samples));
            let switches_after = context_switches()?;
            let interrupts_after = Interrupts::read()?;

            let observed = observed?;
            let [p50_ns, p99_ns] = samples.percentiles_ns([50.0, 99.0], self.clock.step_ns());
            let interrupts = interrupts_before
                .zip(interrupts_after)
                .map(|(before, after)| self.rest.excess_interrupts(after.since(before), span));
            Ok(Figures {
                p50_ns,
                p99_ns,
                limit_ns: 0.0,
                interrupts_per_1k: interrupts.map(|count| per_1k(count, calls)),
                switches_per_1k: per_1k((switches_after - switches_before) as f64, calls),
                syscalls_per_1k: None,
                observed,
            })
        })
    }

    /// Counts system calls. That slows each of them down, so nothing is timed meanwhile.
    fn counted_pass(&self, contestant: &mut dyn Contestant) -> Result<Option<f64>, LabError> {
        let Some(source) = self.syscalls else {
            return Ok(None);
        };
        // Opened before `setup`, so that the threads started there are counted.
        let Ok(counter) = source.open() else {
            return Ok(None);
        };
        let calls = (self.effort.calls_of(contestant.speed()) / COUNTED_DIVISOR).max(1);
        self.pass(contestant, calls, |contestant| {
            let mut samples = Samples::with_room_for(calls);
            let before = counter.read()?;
            contestant.run(calls, &mut samples)?;
            let count = counter.read()? - before;
            Ok(Some(per_1k(count as f64, calls)))
        })
    }

    /// Sets up, warms up, measures and tears down. Returns the first error.
    fn pass<T>(
        &self,
        contestant: &mut dyn Contestant,
        calls: u32,
        measure: impl FnOnce(&mut dyn Contestant) -> Result<T, LabError>,
    ) -> Result<T, LabError> {
        let label = format!("{} ({})", contestant.name(), contestant.variant());
        let _armed = self.time_limit.arm(label, PASS_MAX + CALL_MAX * calls);
        let result = contestant.setup().and_then(|()| {
            let warm_up = (calls / WARM_UP_DIVISOR).max(1);
            contestant.run(warm_up, &mut Samples::with_room_for(warm_up))?;
            measure(contestant)
        });
        let ended = contestant.teardown();
        let value = result?;
        ended?;
        Ok(value)
    }
}

fn per_1k(count: f64, calls: u32) -> f64 {
    count * 1_000.0 / f64::from(calls)
}

#[cfg(test)]
#[path = "rounds_tests.rs"]
mod tests;
