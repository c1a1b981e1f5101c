//! Chance with a seed: splitmix64.
//!
//! Each part of a run draws from a stream of its own ([`Random::stream`]), so that one fault more
//! or less does not change what a client asks next. That is what lets a failing case be made
//! smaller piece by piece.

/// A generator.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The generator that this seed gives.
    pub fn new(seed: u64) -> Random {
        Random(mix(seed ^ 0x616e_6162_7261_6e63))
    }

    /// A generator for one part of what the seed gives: `name` says which, `number` which one of
    /// several.
    pub fn stream(seed: u64, name: &str, number: u64) -> Random {
        let named = name
            .bytes()
            .fold(seed, |hash, byte| mix(hash ^ u64::from(byte)));
        Random(mix(named ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }

    /// 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `bound`.
    ///
    /// # Panics
    /// When `bound` is 0.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "there is no number below 0");
        // The bias is at most bound / 2^64.
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// True in `percent` of 100 cases.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Puts a slice into a random order.
    pub fn shuffle<T>(&mut self, slice: &mut [T]) {
        for at in (1..slice.len()).rev() {
            slice.swap(at, self.below(at as u64 + 1) as usize);
        }
    }
}

/// The finalizer of splitmix64: every bit of the input moves every bit of the output.
#[inline]
pub(crate) fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_below_their_bound_and_streams_differ() {
        let mut random = Random::new(1);
        let drawn: Vec<u64> = (0..1_000).map(|_| random.below(7)).collect();
        for number in 0..7 {
            let count = drawn.iter().filter(|d| **d == number).count();
            assert!((90..200).contains(&count), "{number}: {count}");
        }
        let first = |name, number| Random::stream(1, name, number).bits();
        assert_ne!(first("a", 0), first("a", 1));
        assert_ne!(first("a", 0), first("b", 0));
        assert_eq!(first("a", 0), first("a", 0));
    }
}
