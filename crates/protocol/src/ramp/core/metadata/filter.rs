//! A write set as a Bloom filter: RAMP-Hybrid's metadata (ramp.txt §4.3).
//!
//! Four hashes an entry, as in the paper's prototype (§5.1). What is hashed is the transaction's name
//! together with the entry: so two items that look alike in one transaction's filter do not in the
//! next one's, and no reader asks in vain for the same item for ever.
//!
//! The paper expects filters of 1,024 bits to be wrong of "slightly over 2%" of the items that a
//! transaction of 256 writes has not written; with four hashes that takes 2,048 bits (1,024: 16%).

use std::fmt;

use anabranch_types::random::{INCREMENT, mix};
use serde::{Deserialize, Serialize};

/// Hashes an entry.
const HASHES: u64 = 4;

/// How large filters are, in bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct FilterSize(u32);

impl FilterSize {
    /// The paper's prototype's: 256 bits.
    pub const PUBLISHED: FilterSize = FilterSize(256);
    /// The largest: 8 KiB.
    pub const BITS_MAX: u32 = 1 << 16;

    /// How many bits.
    pub fn bits(self) -> u32 {
        self.0
    }
}

impl Default for FilterSize {
    fn default() -> FilterSize {
        FilterSize::PUBLISHED
    }
}

impl TryFrom<u32> for FilterSize {
    type Error = FilterSizeError;

    fn try_from(bits: u32) -> Result<FilterSize, FilterSizeError> {
        match bits {
            0 => Err(FilterSizeError::Zero),
            1..=FilterSize::BITS_MAX => Ok(FilterSize(bits)),
            _ => Err(FilterSizeError::TooLarge(bits)),
        }
    }
}

impl From<FilterSize> for u32 {
    fn from(size: FilterSize) -> u32 {
        size.0
    }
}

/// Why filters cannot be that large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FilterSizeError {
    /// A filter of no bits excludes nothing.
    Zero,
    /// More than [`FilterSize::BITS_MAX`].
    TooLarge(u32),
}

impl fmt::Display for FilterSizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let most = FilterSize::BITS_MAX;
        match self {
            FilterSizeError::Zero => {
                write!(f, "a Bloom filter has between 1 and {most} bits, not 0")
            }
            FilterSizeError::TooLarge(bits) => {
                write!(
                    f,
                    "a Bloom filter has between 1 and {most} bits, not {bits}"
                )
            }
        }
    }
}

impl std::error::Error for FilterSizeError {}

/// A set of which one can ask: surely not in it, or perhaps?
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filter {
    size: FilterSize,
    words: Box<[u64]>,
}

impl Filter {
    /// An empty one.
    pub fn new(size: FilterSize) -> Filter {
        Filter {
            size,
            words: vec![0; size.bits().div_ceil(64) as usize].into_boxed_slice(),
        }
    }

    /// Puts an entry in; `hash` is all that is known of it.
    pub fn insert(&mut self, hash: u64) {
        for (word, mask) in self.places(hash) {
            self.words[word] |= mask;
        }
    }

    /// Whether an entry may have been put in; if not, it has not.
    pub fn may_contain(&self, hash: u64) -> bool {
        self.places(hash)
            .all(|(word, mask)| self.words[word] & mask != 0)
    }

    fn places(&self, hash: u64) -> impl Iterator<Item = (usize, u64)> + use<> {
        let bits = u64::from(self.size.bits());
        (1..=HASHES).map(move |number| {
            let mixed = mix(hash.wrapping_add(number.wrapping_mul(INCREMENT)));
            let place = ((mixed >> 32) * bits) >> 32;
            ((place / 64) as usize, 1 << (place % 64))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(bits: u32, entries: u64) -> Filter {
        let mut filter = Filter::new(FilterSize::try_from(bits).expect("a size"));
        (0..entries).for_each(|entry| filter.insert(mix(entry)));
        filter
    }

    #[test]
    fn every_entry_is_found() {
        for bits in [1, 7, 64, 100, 256, 1024] {
            let filter = filled(bits, 40);
            assert!(
                (0..40).all(|entry| filter.may_contain(mix(entry))),
                "{bits}"
            );
        }
    }

    /// The rate of false positives is the textbook's, (1 - e^(-kn/m))^k with k = 4: every bit is used, and the four
    /// hashes are distinct.
    #[test]
    fn false_positives_have_the_textbook_rate() {
        for (bits, entries) in [
            (256u32, 16u64),
            (256, 64),
            (256, 256),
            (1024, 256),
            (2048, 256),
        ] {
            let filter = filled(bits, entries);
            let asked = 40_000;
            let wrong = (0..asked).filter(|other| filter.may_contain(mix(1_000_000 + other)));
            let found = wrong.count() as f64 / asked as f64;
            let full = 1.0 - (-4.0 * entries as f64 / f64::from(bits)).exp();
            let expected = full.powi(4);
            assert!(
                (found - expected).abs() < 0.004 + expected * 0.3,
                "{bits} bits, {entries} entries: {found} instead of {expected}"
            );
        }
    }

    /// A filter that is full matches everything, and has no other error.
    #[test]
    fn a_full_filter_matches_everything() {
        let filter = filled(1, 1);
        assert!((0..100).all(|entry| filter.may_contain(mix(entry))));
    }

    #[test]
    fn invalid_sizes_are_refused() {
        assert_eq!(FilterSize::try_from(0), Err(FilterSizeError::Zero));
        let over = FilterSize::BITS_MAX + 1;
        assert_eq!(
            FilterSize::try_from(over),
            Err(FilterSizeError::TooLarge(over))
        );
        let largest = FilterSize::try_from(FilterSize::BITS_MAX).expect("the largest");
        assert_eq!(largest.bits(), 65_536);
        assert_eq!(FilterSize::default().bits(), 256);
        assert!(FilterSizeError::Zero.to_string().contains("not 0"));
    }
}
