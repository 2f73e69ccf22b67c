//! Round trips, thinned out evenly, so that a fast contestant needs no more memory than a slow one.

use crate::measure::Samples;

/// Keeps every time at first. Each time that it is full it drops every second one, and from then on takes half as
/// many.
#[derive(Debug)]
pub(super) struct Times {
    kept_ns: Vec<u64>,
    most: usize,
    /// One time in this many is kept.
    stride: u64,
    /// Times since the last one that was kept.
    passed: u64,
}

impl Times {
    /// Keeps at most this many, rounded down to an even number; at least two.
    pub(super) fn at_most(most: usize) -> Self {
        let most = (most - most % 2).max(2);
        Self {
            kept_ns: Vec::with_capacity(most),
            most,
            stride: 1,
            passed: 0,
        }
    }

    /// Records one time.
    pub(super) fn record(&mut self, ns: u64) {
        self.passed += 1;
        if self.passed < self.stride {
            return;
        }
        if self.kept_ns.len() == self.most {
            // The number is even, so the last one stays. This one is half a new stride behind it.
            let mut place = 0_usize;
            self.kept_ns.retain(|_| {
                place += 1;
                place.is_multiple_of(2)
            });
            self.stride *= 2;
            return;
        }
        self.passed = 0;
        self.kept_ns.push(ns);
    }

    /// What was kept.
    pub(super) fn into_samples(self) -> Samples {
        let mut samples = Samples::default();
        self.kept_ns.iter().for_each(|ns| samples.record(*ns));
        samples
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_are_all_kept() {
        let mut times = Times::at_most(4);
        (1..=4).for_each(|ns| times.record(ns));
        assert_eq!(times.kept_ns, [1, 2, 3, 4]);
    }

    #[test]
    fn many_are_thinned_out_evenly() {
        let mut times = Times::at_most(5);
        (1..=64).for_each(|ns| times.record(ns));
        assert_eq!(times.kept_ns, [16, 32, 48, 64]);
        times.record(65);
        assert_eq!(times.into_samples().len(), 4);
    }
}
