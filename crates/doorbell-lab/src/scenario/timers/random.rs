//! Pseudo-random numbers, the same in every run.

/// A generator of the kind `SplitMix64`.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// The generator with this seed.
    pub(crate) fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0..1, uniformly distributed.
    pub(crate) fn part(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A number from `low..high`, uniformly distributed.
    pub(crate) fn between(&mut self, low: f64, high: f64) -> f64 {
        low + self.part() * (high - low)
    }

    /// A number from `low..high`, uniformly distributed on a logarithmic scale.
    pub(crate) fn log_between(&mut self, low: f64, high: f64) -> f64 {
        low * (high / low).powf(self.part())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_sequence() {
        let take = |seed| {
            let mut random = Random::seeded(seed);
            [(); 4].map(|()| random.next_u64())
        };
        assert_eq!(take(1), take(1));
        assert_ne!(take(1), take(2));
    }

    #[test]
    fn ranges_are_kept_and_filled() {
        let mut random = Random::seeded(7);
        let even: Vec<f64> = (0..2_000).map(|_| random.between(1.0, 50.0)).collect();
        assert!(even.iter().all(|value| (1.0..50.0).contains(value)));
        let below = even.iter().filter(|value| **value < 25.5).count();
        assert!((800..1_200).contains(&below), "{below}");
        let log: Vec<f64> = (0..2_000)
            .map(|_| random.log_between(10.0, 1_000.0))
            .collect();
        assert!(log.iter().all(|value| (10.0..1_000.0).contains(value)));
        let below = log.iter().filter(|value| **value < 100.0).count();
        assert!((800..1_200).contains(&below), "{below}");
    }
}
