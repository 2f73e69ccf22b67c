//! Random numbers from the seed.

/// A stream of random numbers: splitmix64, for which every state is a good seed.
#[derive(Clone, Debug)]
pub(super) struct Rng(u64);

impl Rng {
    /// The stream with this number for a seed.
    pub(super) fn new(seed: u64, stream: u64) -> Self {
        let mut rng = Rng(seed ^ stream.wrapping_mul(0xD1B5_4A32_D192_ED03));
        rng.next();
        rng
    }

    #[inline]
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `limit`; 0 if `limit` is 0.
    #[inline]
    pub(super) fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u64
    }

    /// A number within a range.
    pub(super) fn within(&mut self, range: super::Range) -> u64 {
        let span = range.max_ns.saturating_sub(range.min_ns);
        range
            .min_ns
            .saturating_add(self.below(span.saturating_add(1)))
    }

    /// Whether something with this chance per million happens.
    pub(super) fn happens(&mut self, chance: u32) -> bool {
        chance > 0 && self.below(1_000_000) < u64::from(chance)
    }

    /// How many tries it takes until something with this chance per million happens; `u64::MAX` for never.
    pub(super) fn tries(&mut self, chance: u32) -> u64 {
        if chance == 0 {
            return u64::MAX;
        }
        let miss = 1.0 - f64::from(chance.min(1_000_000)) / 1e6;
        let unit = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        if miss <= 0.0 {
            return 1;
        }
        // At most about 37 times the mean, so it fits.
        ((1.0 - unit).ln() / miss.ln()) as u64 + 1
    }
}
