//! Choices that come from a seed.

/// A generator of the kind `SplitMix64`.
#[derive(Clone, Debug)]
pub(super) struct Dice(u64);

impl Dice {
    /// The choices of a seed. `who` separates several generators with the same seed.
    pub(super) fn new(seed: u64, who: u64) -> Self {
        let mut dice = Dice(seed ^ who.rotate_left(32));
        dice.next();
        dice
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `sides`, which is not 0.
    pub(super) fn roll(&mut self, sides: u64) -> u64 {
        self.next() % sides
    }

    /// One of `from`.
    pub(super) fn choose<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.roll(from.len() as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::Dice;

    #[test]
    fn a_seed_is_a_sequence_of_its_own() {
        let take = |seed, who| {
            let mut dice = Dice::new(seed, who);
            [(); 8].map(|()| dice.roll(1_000))
        };
        assert_eq!(take(1, 0), take(1, 0));
        assert_ne!(take(1, 0), take(2, 0));
        assert_ne!(take(1, 0), take(1, 1));
    }
}
