//! Keys as bytes whose order is the order of the values they encode.

use std::ops::Bound;

use smallvec::SmallVec;

/// An encoded key (or a prefix of one). Up to 16 bytes stay inline.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(SmallVec<[u8; 16]>);

impl Key {
    /// The empty prefix, which every key starts with.
    pub fn empty() -> Key {
        Key::default()
    }

    /// The key with these bytes.
    pub fn from_bytes(bytes: &[u8]) -> Key {
        Key(SmallVec::from_slice(bytes))
    }

    /// The encoded bytes.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// A range of keys that share a prefix: the columns that a query fixes, then bounds on the next.
///
/// `lower` and `upper` are suffixes, compared as prefixes: with `upper = Included(s)` every key
/// that starts with `prefix ++ s` is in the range, with `Excluded(s)` none of them is; likewise
/// `lower = Excluded(s)` leaves out every key that starts with `prefix ++ s`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// What every key in the range starts with.
    pub prefix: Key,
    /// The lower bound on what follows the prefix.
    pub lower: Bound<Key>,
    /// The upper bound on what follows the prefix.
    pub upper: Bound<Key>,
}
