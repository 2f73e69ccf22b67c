//! The lateness of timers.

use std::collections::BTreeMap;
use std::time::Instant;

use super::super::trial::Outcome;
use crate::measure::Samples;

/// The lateness of many timers.
#[derive(Debug, Default)]
pub(crate) struct Lateness {
    late_ns: Samples,
    early_count: u64,
}

impl Lateness {
    /// Records that a timer that was due at `due` fired at `now`.
    pub(crate) fn note(&mut self, due: Instant, now: Instant) {
        match now.checked_duration_since(due) {
            Some(late) => self.late_ns.record(late.as_nanos() as u64),
            None => self.early_count += 1,
        }
    }

    /// Adds the records of another task.
    pub(crate) fn add(&mut self, other: &Self) {
        self.late_ns.add(&other.late_ns);
        self.early_count += other.early_count;
    }

    /// How many were recorded.
    pub(crate) fn count(&self) -> u64 {
        self.late_ns.len() as u64 + self.early_count
    }

    /// The lateness, and how many fired before they were due, which must be none.
    pub(crate) fn into_outcome(self) -> Outcome {
        Outcome {
            operations: self.count(),
            figures: BTreeMap::from([("early_count", self.early_count as f64)]),
            late: self.late_ns,
            ..Outcome::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn late_and_early_are_told_apart() {
        let due = Instant::now();
        let mut first = Lateness::default();
        first.note(due, due + Duration::from_micros(30));
        first.note(due, due);
        let mut second = Lateness::default();
        second.note(due, due + Duration::from_micros(10));
        second.note(due + Duration::from_nanos(1), due);
        first.add(&second);
        let outcome = first.into_outcome();
        assert_eq!((outcome.operations, outcome.late.len()), (4, 3));
        assert_eq!(outcome.figures, BTreeMap::from([("early_count", 1.0)]));
    }
}
