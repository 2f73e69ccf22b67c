//! A contestant, as the rounds see it.

use std::collections::BTreeMap;

use crate::error::LabError;
use crate::measure::{Clock, Placement, Samples};

/// Whether a contestant's callee spins for calls or must be woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Speed {
    /// A call takes at most a microsecond or two, so many are made.
    Fast,
    /// Each call wakes a thread, so a twentieth as many are made.
    Parked,
}

/// What a contestant is built with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stage {
    /// The clock that times calls.
    pub(crate) clock: Clock,
    /// The CPUs of caller and callee.
    pub(crate) placement: Placement,
}

#[cfg(test)]
impl Stage {
    /// For a test; `None`, with a message, on a computer with too few CPUs.
    pub(crate) fn for_tests() -> Option<Self> {
        match Placement::of_this_process() {
            Ok(placement) => Some(Self {
                placement,
                clock: Clock::calibrated(),
            }),
            Err(error) => {
                eprintln!("not tested here: {error}");
                None
            }
        }
    }
}

/// The findings of a pass, beside its timings.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Observed {
    /// How many calls reported their CPU.
    pub(crate) reported_count: u32,
    /// How many of those ran on another CPU than their caller.
    pub(crate) crossed_count: u32,
    /// The contestant's own counters, named with the unit last, such as `passes_per_call`.
    pub(crate) counters: BTreeMap<String, f64>,
}

impl Observed {
    /// The share of calls that ran on another CPU; `None` if none reported.
    pub(crate) fn crossed_percent(&self) -> Option<f64> {
        (self.reported_count > 0)
            .then(|| 100.0 * f64::from(self.crossed_count) / f64::from(self.reported_count))
    }
}

/// One way to do what the scenario asks for.
///
/// Every pass is `setup`, one or more `run`, `teardown`. All threads must start in `setup` (or be started
/// by such a thread), because system calls are counted only in those. They must have ended when `teardown`
/// returns, because the limit is then measured on the same CPUs.
pub(crate) trait Contestant {
    /// Its name, such as `tokio`.
    fn name(&self) -> &str;

    /// Its variant, such as `one runtime, spawn`.
    fn variant(&self) -> &str;

    /// Its speed, which determines how many calls it makes.
    fn speed(&self) -> Speed;

    /// Starts threads and runtimes. The calling thread may run on every CPU of the process; threads that
    /// need a pin pin themselves.
    ///
    /// # Errors
    /// If a thread or a runtime cannot be started.
    fn setup(&mut self) -> Result<(), LabError>;

    /// Makes `calls` calls, one after another, and records the time of each in `samples`.
    ///
    /// # Errors
    /// If a call was lost or ran twice, or without `setup`.
    fn run(&mut self, calls: u32, samples: &mut Samples) -> Result<Observed, LabError>;

    /// Ends all threads. Also called after a failed `setup` or `run`.
    ///
    /// # Errors
    /// If a thread panicked, or ran a different number of calls than were answered.
    fn teardown(&mut self) -> Result<(), LabError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crossing_is_a_share_of_what_was_reported() {
        let observed = Observed {
            reported_count: 8,
            crossed_count: 2,
            ..Observed::default()
        };
        assert_eq!(observed.crossed_percent(), Some(25.0));
        assert_eq!(Observed::default().crossed_percent(), None);
    }
}
