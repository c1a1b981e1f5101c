//! Seeded random numbers: the same seed gives the same run.

use anabranch_types::SplitMix64;
use anabranch_types::random::INCREMENT;

/// A random number generator for schedules.
#[derive(Clone, Debug)]
pub struct Random(SplitMix64);

impl Random {
    /// The sequence of this seed.
    pub fn new(seed: u64) -> Random {
        let seed = seed.wrapping_mul(INCREMENT) ^ 0xD1B5_4A32_D192_ED03;
        let mut random = Random(SplitMix64::new(seed));
        random.next();
        random
    }

    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0.bits()
    }

    /// A number below `bound`, which is positive.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// True in `percent` of a hundred calls.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// An index chosen with the given weights, at least one of which is positive.
    pub fn weighted(&mut self, weights: &[u64]) -> usize {
        let mut rest = self.below(weights.iter().sum());
        for (index, &weight) in weights.iter().enumerate() {
            if rest < weight {
                return index;
            }
            rest -= weight;
        }
        unreachable!("the weights sum up to more than the number drawn")
    }
}
