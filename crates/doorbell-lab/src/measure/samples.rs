//! The timings of one pass.

use super::stats::percentile;

/// Timings in nanoseconds, in the order in which they were taken.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Samples {
    values_ns: Vec<u64>,
}

impl Samples {
    /// Allocates memory for `count` timings and touches it, so recording one causes no page fault.
    pub(crate) fn with_room_for(count: u32) -> Self {
        let mut values_ns = vec![u64::MAX; count as usize];
        values_ns.clear();
        Self { values_ns }
    }

    /// Records one timing.
    #[inline]
    pub(crate) fn record(&mut self, ns: u64) {
        self.values_ns.push(ns);
    }

    /// The timings of several passes or threads.
    pub(crate) fn of_all<'a>(all: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut sum = Self::default();
        all.into_iter().for_each(|one| sum.add(one));
        sum
    }

    /// Adds the timings of another pass or thread.
    pub(crate) fn add(&mut self, other: &Self) {
        self.values_ns.extend_from_slice(&other.values_ns);
    }

    /// The number of timings.
    pub(crate) fn len(&self) -> usize {
        self.values_ns.len()
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.values_ns.is_empty()
    }

    /// The mean; `None` if there is no timing.
    pub(crate) fn mean_ns(&self) -> Option<f64> {
        let sum: f64 = self.values_ns.iter().map(|ns| *ns as f64).sum();
        (!self.is_empty()).then(|| sum / self.len() as f64)
    }

    /// The given percentiles, in order; `None` where there are too few timings. `step_ns` is the clock's
    /// step.
    pub(crate) fn percentiles_ns<const N: usize>(
        &self,
        percents: [f64; N],
        step_ns: f64,
    ) -> [Option<f64>; N] {
        let mut sorted = self.values_ns.clone();
        sorted.sort_unstable();
        percents.map(|percent| percentile(&sorted, percent, step_ns))
    }
}

impl FromIterator<u64> for Samples {
    fn from_iter<I: IntoIterator<Item = u64>>(times_ns: I) -> Self {
        let values_ns = times_ns.into_iter().collect();
        Self { values_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_do_not_depend_on_the_order() {
        let mut samples = Samples::with_room_for(40);
        assert!(samples.is_empty());
        assert_eq!(samples.mean_ns(), None);
        assert_eq!(samples.percentiles_ns([50.0, 100.0], 0.0), [None; 2]);
        for ns in (1..=20).chain((21..=40).rev()) {
            samples.record(ns);
        }
        assert_eq!(samples.len(), 40);
        assert_eq!(samples.mean_ns(), Some(20.5));
        let found = samples.percentiles_ns([50.0, 99.0, 100.0], 0.0);
        assert_eq!(found, [Some(20.0), None, Some(40.0)]);
    }
}
