//! Percentiles, medians and spreads.

/// The minimum and maximum of `values`; `None` if there are none.
pub(crate) fn spread_of(values: &[f64]) -> Option<[f64; 2]> {
    let end = |of_two: fn(f64, f64) -> f64| values.iter().copied().reduce(of_two);
    Some([end(f64::min)?, end(f64::max)?])
}

/// The middle value, or the mean of the two middle ones; `None` without values.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let [low, high] = [sorted.len().checked_sub(1)? / 2, sorted.len() / 2];
    Some(f64::midpoint(sorted[low], sorted[high]))
}

/// The coefficient of variation: the sample's standard deviation in per cent of its mean. `None` without
/// values; 0 for a single one.
pub(crate) fn variation_percent(values: &[f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let deviation = (squares / (count - 1.0).max(1.0)).sqrt();
    Some(100.0 * deviation / mean)
}

/// The least number of values beyond a percentile; with fewer it is hardly more than the maximum. So p99
/// needs 1,000 values, p99.9 needs 10,000, and the median 20.
const BEYOND_MIN: f64 = 10.0;

/// Whether `count` values are enough for this percentile. The minimum and maximum need one.
pub(crate) fn is_enough(count: usize, percent: f64) -> bool {
    let beyond = percent.min(100.0 - percent);
    // Percentiles such as 99.9 are not exact in binary.
    beyond <= 0.0 || count as f64 * beyond / 100.0 > BEYOND_MIN - 1e-6
}

/// The value that `percent` of the values do not exceed. `None` if fewer than 10 values lie beyond it, or
/// on the other side. `sorted` is ascending, and `step` is the clock's step.
pub(crate) fn percentile(sorted: &[u64], percent: f64, step: f64) -> Option<f64> {
    is_enough(sorted.len(), percent).then(|| rank(sorted, percent, step))?
}

/// The nearest-rank percentile, refined below the clock's step. Values that differ by less than `step` read
/// the same. So among equal values the rank decides where the percentile lies between half a step below and
/// half a step above. With a `step` of 0 it is the plain nearest rank.
fn rank(sorted: &[u64], percent: f64, step: f64) -> Option<f64> {
    debug_assert!(sorted.is_sorted(), "a percentile is taken of sorted values");
    debug_assert!(
        (0.0..=100.0).contains(&percent),
        "a percentile lies in 0..=100"
    );
    let last = sorted.len().checked_sub(1)?;
    let rank = percent / 100.0 * sorted.len() as f64;
    // 99.9 and others are not exact in binary.
    let value = sorted[((rank - 1e-6).ceil() as usize).saturating_sub(1).min(last)];
    let below = sorted.partition_point(|other| *other < value);
    let equal = sorted.partition_point(|other| *other <= value) - below;
    let part = ((rank - below as f64) / equal as f64).clamp(0.0, 1.0);
    Some((value as f64 + step * (part - 0.5)).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variation_is_the_deviation_in_per_cent_of_the_mean() {
        assert_eq!(variation_percent(&[]), None);
        assert_eq!(variation_percent(&[5.0]), Some(0.0));
        let two = variation_percent(&[9.0, 11.0]).expect("there are values");
        assert!((two - 100.0 * 2.0_f64.sqrt() / 10.0).abs() < 1e-9, "{two}");
    }

    #[test]
    fn the_median_is_the_middle_or_the_mean_of_two() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[4.0]), Some(4.0));
        assert_eq!(median(&[9.0, 1.0, 5.0]), Some(5.0));
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
    }

    #[test]
    fn the_spread_is_the_least_and_the_greatest() {
        assert_eq!(spread_of(&[]), None);
        assert_eq!(spread_of(&[2.0]), Some([2.0, 2.0]));
        assert_eq!(spread_of(&[2.0, -1.0, 7.5]), Some([-1.0, 7.5]));
    }

    fn nearest_rank(sorted: &[u64], percent: f64) -> Option<f64> {
        rank(sorted, percent, 0.0)
    }

    #[test]
    fn percentiles_are_by_nearest_rank() {
        let hundred: Vec<u64> = (1..=100).collect();
        assert_eq!(nearest_rank(&hundred, 0.0), Some(1.0));
        assert_eq!(nearest_rank(&hundred, 50.0), Some(50.0));
        assert_eq!(nearest_rank(&hundred, 99.0), Some(99.0));
        assert_eq!(nearest_rank(&hundred, 99.1), Some(100.0));
        assert_eq!(nearest_rank(&hundred, 100.0), Some(100.0));
    }

    #[test]
    fn percentiles_of_few_values() {
        assert_eq!(nearest_rank(&[], 50.0), None);
        assert_eq!(nearest_rank(&[7], 0.0), Some(7.0));
        assert_eq!(nearest_rank(&[7], 99.0), Some(7.0));
        assert_eq!(nearest_rank(&[7, 9], 50.0), Some(7.0));
        assert_eq!(nearest_rank(&[7, 9], 51.0), Some(9.0));
    }

    #[test]
    fn ten_values_lie_beyond_a_percentile_or_there_is_none() {
        let values: Vec<u64> = (1..=10_000).collect();
        for (percent, least) in [(50.0, 20), (99.0, 1_000), (99.9, 10_000), (1.0, 1_000)] {
            assert_eq!(
                percentile(&values[..least - 1], percent, 0.0),
                None,
                "{percent}"
            );
            let found = percentile(&values[..least], percent, 0.0);
            assert_eq!(found, rank(&values[..least], percent, 0.0));
            assert!(found.is_some(), "{percent}");
        }
        assert_eq!(percentile(&[7], 100.0, 0.0), Some(7.0));
        assert_eq!(percentile(&[], 100.0, 0.0), None);
    }

    #[test]
    fn ranks_among_equal_values_divide_the_step() {
        // With a clock step of 10 all values lie in 125..135, so the middle one is near 130.
        assert_eq!(rank(&[130; 8], 50.0, 10.0), Some(130.0));
        // A quarter read 120, so the median lies a third of the way into 125..135.
        let mostly_higher = [120, 120, 130, 130, 130, 130, 130, 130];
        let middle = rank(&mostly_higher, 50.0, 10.0).expect("there are values");
        assert!((middle - (125.0 + 10.0 / 3.0)).abs() < 1e-9, "{middle}");
        // No duration is negative.
        assert_eq!(rank(&[0, 0], 0.0, 10.0), Some(0.0));
    }
}
