//! Random numbers from a seed, so that a run can be repeated.

use std::time::SystemTime;

/// A generator of random numbers: SplitMix64.
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    /// The generator of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    #[expect(clippy::should_implement_trait, reason = "the sequence has no end")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// An independent sequence of numbers.
    pub fn fork(&mut self) -> Self {
        Self(self.next())
    }

    /// A number below `limit`. The limit 0 returns 0.
    pub fn below(&mut self, limit: usize) -> usize {
        let limit = u64::try_from(limit).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.next() % limit).unwrap_or(0)
    }

    /// A number from `first` to `last`, without `last`.
    pub fn between(&mut self, first: u64, last: u64) -> u64 {
        first + self.next() % last.saturating_sub(first).max(1)
    }
}

/// A seed of at most six digits, so that it is easy to type.
pub fn fresh_seed() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::from(now.subsec_nanos()) % 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_decides_all_numbers() {
        let numbers = |seed| {
            let mut random = Random::new(seed);
            [random.below(1000), random.below(1000), random.below(1000), random.below(0)]
        };
        assert_eq!(numbers(7), numbers(7));
        assert_ne!(numbers(7), numbers(8));
        assert_eq!(numbers(7)[3], 0);
    }
}
