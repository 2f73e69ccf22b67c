//! What all calls of the scenario share: the work, its answer, and the timing.

use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::super::contestant::Observed;
use crate::error::LabError;
use crate::measure::{Clock, Samples, Tick, current_cpu};

/// One in this many calls reports its CPU. Such a call is not timed: finding the CPU takes time and would
/// show in the 99th percentile.
const REPORT_EVERY: u64 = 64;

/// The time from the announcement of a park until the thread sleeps and its CPU has halted.
const FALLS_ASLEEP: Duration = Duration::from_micros(50);

/// Before a call that must find the callee asleep: waits until it is.
pub(super) fn fall_asleep() {
    let announced = Instant::now();
    while announced.elapsed() < FALLS_ASLEEP {
        std::hint::spin_loop();
    }
}

/// Whether the call with this serial number reports its CPU.
pub(super) fn reports_cpu(serial: u64) -> bool {
    serial.is_multiple_of(REPORT_EVERY)
}

/// The result of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Answer {
    /// How many calls had run, including this one; the first answers 1.
    pub(crate) serial: u64,
    /// Its CPU, if it is a call that reports it.
    pub(crate) cpu: Option<u32>,
}

/// The work of a call: to count it. The count lies in a cache line of its own, the callee's.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Tally {
    served: AtomicU64,
}

impl Tally {
    /// A tally that lives as long as the program, so that calls can refer to it without counting
    /// references.
    pub(crate) fn leaked() -> &'static Self {
        Box::leak(Box::default())
    }

    /// Runs one call.
    #[inline]
    pub(crate) fn serve(&self) -> Answer {
        // ORDER: relaxed; the contestant orders request and answer, and the number only has to be exact.
        let serial = self.served.fetch_add(1, Ordering::Relaxed) + 1;
        Answer {
            serial,
            cpu: reports_cpu(serial).then(current_cpu),
        }
    }

    /// How many calls have run.
    pub(crate) fn served(&self) -> u64 {
        // ORDER: relaxed; read after the last answer has arrived, when no call is in progress.
        self.served.load(Ordering::Relaxed)
    }
}

/// Times the calls of one pass and checks their answers. It owns its records, so it can move into a task;
/// [`Meter::finish`] hands the timings back.
#[derive(Debug)]
pub(crate) struct Meter {
    clock: Clock,
    samples: Samples,
    served: u64,
    observed: Observed,
    wrong: Option<LabError>,
}

impl Meter {
    /// Starts a pass. `served` is how many calls the callee has run so far.
    pub(crate) fn begin(clock: Clock, served: u64, samples: &mut Samples) -> Self {
        Self {
            clock,
            samples: mem::take(samples),
            served,
            observed: Observed::default(),
            wrong: None,
        }
    }

    /// Called just before a call is made.
    #[inline(always)]
    pub(crate) fn start(&self) -> Tick {
        self.clock.now()
    }

    /// Called as soon as its answer is there.
    #[inline(always)]
    pub(crate) fn stop(&mut self, start: Tick, answer: Answer) {
        let end = self.clock.now();
        self.served += 1;
        if answer.serial != self.served && self.wrong.is_none() {
            self.wrong = Some(LabError::CallMiscounted {
                expected: self.served,
                found: answer.serial,
            });
        }
        match answer.cpu {
            None => self.samples.record(self.clock.ns_between(start, end)),
            Some(cpu) => {
                self.observed.reported_count += 1;
                self.observed.crossed_count += u32::from(cpu != current_cpu());
            }
        }
    }

    /// Ends the pass. `served` is how many calls the callee has run by now. It must equal the number of
    /// answers.
    ///
    /// # Errors
    /// [`LabError::CallMiscounted`] if a call was lost or ran twice.
    pub(crate) fn finish(self, served: u64, samples: &mut Samples) -> Result<Observed, LabError> {
        *samples = self.samples;
        if let Some(wrong) = self.wrong {
            return Err(wrong);
        }
        if served != self.served {
            return Err(LabError::CallMiscounted {
                expected: self.served,
                found: served,
            });
        }
        Ok(self.observed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pass(answers: &[Answer], served: u64) -> (Result<Observed, LabError>, Samples) {
        let mut samples = Samples::default();
        let mut meter = Meter::begin(Clock::calibrated(), 0, &mut samples);
        for answer in answers {
            let start = meter.start();
            meter.stop(start, *answer);
        }
        let observed = meter.finish(served, &mut samples);
        (observed, samples)
    }

    fn plain(serial: u64) -> Answer {
        Answer { serial, cpu: None }
    }

    #[test]
    fn a_tally_counts_from_one_and_reports_now_and_then() {
        let tally = Tally::leaked();
        let answers: Vec<Answer> = (0..2 * REPORT_EVERY).map(|_| tally.serve()).collect();
        assert!(
            answers
                .iter()
                .zip(1..)
                .all(|(answer, serial)| answer.serial == serial)
        );
        assert_eq!(
            answers.iter().filter(|answer| answer.cpu.is_some()).count(),
            2
        );
        assert_eq!(tally.served(), 2 * REPORT_EVERY);
    }

    #[test]
    fn calls_that_report_are_not_timed() {
        let elsewhere = Answer {
            serial: 2,
            cpu: Some(u32::MAX),
        };
        let (observed, samples) = pass(&[plain(1), elsewhere, plain(3)], 3);
        let observed = observed.expect("all calls were answered");
        assert_eq!((observed.reported_count, observed.crossed_count), (1, 1));
        assert_eq!(samples.len(), 2);
    }

    #[test]
    fn a_doubled_call_is_an_error() {
        let (observed, _) = pass(&[plain(1), plain(3)], 3);
        assert!(matches!(
            observed,
            Err(LabError::CallMiscounted {
                expected: 2,
                found: 3
            })
        ));
    }

    #[test]
    fn a_call_that_runs_again_after_its_answer_is_an_error() {
        let (observed, _) = pass(&[plain(1), plain(2)], 3);
        assert!(matches!(
            observed,
            Err(LabError::CallMiscounted {
                expected: 2,
                found: 3
            })
        ));
    }
}
