//! What the rounds know of a contestant.

use std::collections::BTreeMap;

use crate::error::LabError;
use crate::measure::{Clock, Placement, Samples};

/// Whether a contestant's callee spins for calls or has to be woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speed {
    /// A call takes well below a microsecond or two: many are made.
    Fast,
    /// Each call wakes a thread: a twentieth as many are made.
    Parked,
}

/// What a contestant is built from.
#[derive(Debug, Clone, Copy)]
pub struct Stage {
    /// The clock that times calls.
    pub clock: Clock,
    /// The CPUs of caller and callee.
    pub placement: Placement,
}

#[cfg(test)]
impl Stage {
    /// For a test; `None`, and said, on a computer whose CPUs are too few.
    pub fn for_tests() -> Option<Self> {
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

/// What a pass showed besides its timings.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observed {
    /// How many calls reported where they ran.
    pub reported_count: u32,
    /// How many of those ran on another CPU than their caller's.
    pub crossed_count: u32,
    /// Counters of the contestant's own, by name with the unit last, such as `passes_per_call`.
    pub counters: BTreeMap<String, f64>,
}

impl Observed {
    /// The share of calls that ran on another CPU; `None` if none reported.
    pub fn crossed_percent(&self) -> Option<f64> {
        (self.reported_count > 0)
            .then(|| 100.0 * f64::from(self.crossed_count) / f64::from(self.reported_count))
    }
}

/// One way to do what the scenario asks for.
///
/// Every pass is `setup`, one or more `run`, `teardown`. All threads are started in `setup` (or by
/// a thread started there), because system calls are counted in such threads only; and all have
/// ended when `teardown` returns, because the limit is measured right after it on the same CPUs.
pub trait Contestant {
    /// Who, such as `tokio`.
    fn name(&self) -> &str;

    /// In which arrangement, such as `one runtime, spawn`.
    fn variant(&self) -> &str;

    /// How many calls suit it.
    fn speed(&self) -> Speed;

    /// Starts threads and runtimes. The calling thread may run on every CPU of the process; what is
    /// to be pinned pins itself.
    ///
    /// # Errors
    /// If a thread or a runtime cannot be started.
    fn setup(&mut self) -> Result<(), LabError>;

    /// Makes `calls` calls, one after the other, and records the time of each in `samples`.
    ///
    /// # Errors
    /// If a call was lost or ran twice, or if it was not set up.
    fn run(&mut self, calls: u32, samples: &mut Samples) -> Result<Observed, LabError>;

    /// Ends all threads. Called also after a `setup` or a `run` that failed.
    ///
    /// # Errors
    /// If a thread panicked, or ran another number of calls than were answered.
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
