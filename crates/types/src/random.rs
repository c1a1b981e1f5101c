//! Seeded random numbers: SplitMix64 (Steele, Lea, Flood: *Fast Splittable Pseudorandom Number Generators*, OOPSLA
//! 2014).
//!
//! The same seed gives the same numbers on every machine. The generator is not cryptographic: it chooses schedules,
//! faults and generated inputs, and [`mix`] spreads the bits of hashed values.

/// The increment of the generator's state: 2^64 over the golden ratio, made odd.
pub const INCREMENT: u64 = 0x9E37_79B9_7F4A_7C15;

/// The finalizer of SplitMix64, a bijection: every bit of the input moves every bit of the output.
#[inline]
pub const fn mix(bits: u64) -> u64 {
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}

/// A generator.
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// The generator that this seed gives.
    #[inline]
    pub const fn new(seed: u64) -> SplitMix64 {
        SplitMix64(seed)
    }

    /// A generator for one part of a run: `name` identifies the part, `number` distinguishes several. How much one
    /// part draws does not change what another draws.
    pub fn stream(seed: u64, name: &str, number: u64) -> SplitMix64 {
        let named = name
            .bytes()
            .fold(seed, |hash, byte| mix(hash ^ u64::from(byte)));
        SplitMix64(mix(named ^ number.wrapping_mul(INCREMENT)))
    }

    /// 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(INCREMENT);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of the reference implementation (Vigna's splitmix64.c) for the seed 1234567.
    #[test]
    fn it_is_splitmix64() {
        let mut random = SplitMix64::new(1_234_567);
        for expected in [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ] {
            assert_eq!(random.bits(), expected);
        }
    }

    #[test]
    fn numbers_stay_below_their_bound_and_streams_differ() {
        let mut random = SplitMix64::new(1);
        let drawn: Vec<u64> = (0..1_000).map(|_| random.below(7)).collect();
        for number in 0..7 {
            let count = drawn.iter().filter(|d| **d == number).count();
            assert!((90..200).contains(&count), "{number}: {count}");
        }
        let first = |name, number| SplitMix64::stream(1, name, number).bits();
        assert_ne!(first("a", 0), first("a", 1));
        assert_ne!(first("a", 0), first("b", 0));
        assert_eq!(first("a", 0), first("a", 0));
    }
}
