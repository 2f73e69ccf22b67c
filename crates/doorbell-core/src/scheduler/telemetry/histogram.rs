//! Times in buckets whose width grows with the time: fixed memory, one writer, no read-modify-write.
//!
//! Four buckets per power of two, so the end of a bucket is at most a quarter above any time in it.

use doorbell_machine::Counter;
use std::time::Duration;

/// Buckets per power of two.
const SUB: u64 = 4;

/// Enough for every `u64`: one bucket for each time below [`SUB`], then four for each power from 2 to 63.
const BUCKETS: usize = (SUB + 62 * SUB) as usize;

/// The bucket of a time.
#[inline]
fn bucket_of(ns: u64) -> usize {
    if ns < SUB {
        return ns as usize;
    }
    let power = u64::from(ns.ilog2());
    ((power - 1) * SUB + ((ns >> (power - 2)) & (SUB - 1))) as usize
}

/// The longest time of a bucket.
fn end_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < SUB {
        return bucket;
    }
    let (power, sub) = (bucket / SUB + 1, bucket % SUB);
    let width = 1_u64 << (power - 2);
    ((SUB + sub) * width).wrapping_add(width - 1)
}

/// Counts of times. One thread writes, any thread reads.
#[derive(Debug)]
pub struct Histogram<C> {
    counts: Box<[C]>,
    max_ns: C,
}

impl<C: Counter> Default for Histogram<C> {
    fn default() -> Self {
        Histogram {
            counts: (0..BUCKETS).map(|_| C::default()).collect(),
            max_ns: C::default(),
        }
    }
}

impl<C: Counter> Histogram<C> {
    /// Counts a time. Called only by the one writer.
    #[inline]
    pub fn record(&self, ns: u64) {
        self.counts[bucket_of(ns)].add_owned(1);
        if ns > self.max_ns.get() {
            self.max_ns.set(ns);
        }
    }

    /// The times counted until now.
    pub fn times(&self) -> Times {
        Times {
            counts: self.counts.iter().map(Counter::get).collect(),
            max_ns: self.max_ns.get(),
        }
    }
}

/// The durations of many runs of something: their number, the longest, and percentiles. A percentile is at most
/// a quarter too long. It is too short only if it was read while the writer recorded a new longest time.
///
/// ```
/// use doorbell_core::scheduler::telemetry::{Histogram, Times};
/// use doorbell_machine::{Host, Machine};
/// use std::time::Duration;
///
/// let histogram = Histogram::<<Host as Machine>::Counter>::default();
/// (1..=100).for_each(|ns| histogram.record(ns));
/// let mut times = histogram.times();
/// assert_eq!((times.count(), times.max()), (100, Duration::from_nanos(100)));
/// assert!((50..=63).contains(&times.percentile(50.0).as_nanos()));
/// times.merge(&Times::default());
/// assert_eq!(times.count(), 100);
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Times {
    /// Empty if there are none.
    counts: Vec<u64>,
    max_ns: u64,
}

impl std::fmt::Debug for Times {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Times")
            .field("count", &self.count())
            .field("p50", &self.percentile(50.0))
            .field("p99", &self.percentile(99.0))
            .field("max", &self.max())
            .finish_non_exhaustive()
    }
}

impl Times {
    /// The number of times.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// The time that `percent` of the times do not exceed. `percent` is clamped to 0 to 100. Zero if there are
    /// no times.
    pub fn percentile(&self, percent: f64) -> Duration {
        let count = self.count();
        let share = (percent / 100.0).clamp(0.0, 1.0) * count as f64;
        // NaN gives the first rank.
        let rank = (share.ceil() as u64).clamp(1, count.max(1));
        let mut seen = 0;
        let bucket = self.counts.iter().position(|in_it| {
            seen += in_it;
            seen >= rank
        });
        // The writer counts a time before it updates the maximum, so the maximum may lag behind.
        let ns = bucket.map_or(0, |bucket| end_of(bucket).min(self.max_ns.max(1)));
        Duration::from_nanos(ns)
    }

    /// The longest time. Zero if there are none.
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.max_ns)
    }

    /// Adds the times of `other`.
    pub fn merge(&mut self, other: &Times) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.max_ns = self.max_ns.max(other.max_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::{BUCKETS, Histogram, Times, bucket_of, end_of};
    use doorbell_machine::{Host, Machine};
    use std::time::Duration;

    fn times_of(all: impl IntoIterator<Item = u64>) -> Times {
        let histogram = Histogram::<<Host as Machine>::Counter>::default();
        all.into_iter().for_each(|ns| histogram.record(ns));
        histogram.times()
    }

    #[test]
    fn buckets_follow_each_other_without_a_gap_and_are_narrow() {
        let mut begin = 0;
        for bucket in 0..BUCKETS {
            let end = end_of(bucket);
            assert_eq!((bucket_of(begin), bucket_of(end)), (bucket, bucket));
            assert!(end - begin <= begin / 4, "{begin} to {end}");
            begin = end.wrapping_add(1);
        }
        assert_eq!(begin, 0, "the last one ends with the last number");
    }

    #[test]
    fn percentiles_are_never_too_short_and_at_most_a_quarter_too_long() {
        let times = times_of((1..=1_000).map(|i| i * 977));
        assert_eq!(times.count(), 1_000);
        assert_eq!(times.max(), Duration::from_micros(977));
        for percent in [0.1, 1.0, 33.3, 50.0, 90.0, 99.0, 99.9, 100.0] {
            let exact = (percent * 10.0_f64).ceil() as u128 * 977;
            let said = times.percentile(percent).as_nanos();
            assert!(
                said >= exact && said * 4 <= exact * 5,
                "{percent}: {said}, {exact}"
            );
        }
        assert_eq!(times.percentile(100.0), times.max());
        assert_eq!(times.percentile(1e9), times.max());
        assert_eq!(times.percentile(f64::NAN), times.percentile(0.0));
    }

    #[test]
    fn none_at_all() {
        for times in [Times::default(), times_of([])] {
            assert!(times.is_empty());
            assert_eq!((times.max(), times.percentile(50.0)), Default::default());
        }
    }

    #[test]
    fn merged_they_are_as_if_written_by_one() {
        let all = [0, 1, 5, 700, 700, u64::MAX, 33];
        let mut merged = Times::default();
        for part in all.chunks(3) {
            merged.merge(&times_of(part.iter().copied()));
        }
        assert_eq!(merged, times_of(all));
    }
}
