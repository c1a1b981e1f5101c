//! Spans of keys, as half-open intervals of key bytes: what range locks and range reads cover.
//!
//! The bounds of a [`KeyRange`] are prefixes, inclusive or exclusive. A span has two byte strings
//! instead, which can be compared and ordered.

use std::ops::Bound;

use anabranch_types::{Key, KeyRange};
use serde::{Deserialize, Serialize};

/// The keys from `low` up to `high`, exclusive (`None`: no end).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Span {
    pub(crate) low: Key,
    pub(crate) high: Option<Key>,
}

impl Span {
    /// The keys that are in `range`. May be empty.
    pub(crate) fn of(range: &KeyRange) -> Span {
        match range.start() {
            Some(low) => Span {
                low,
                high: range.end(),
            },
            // No key is above the lower bound: an empty span at the prefix.
            None => Span {
                low: range.prefix.clone(),
                high: Some(range.prefix.clone()),
            },
        }
    }

    /// The keys that start with `prefix`.
    pub(crate) fn of_prefix(prefix: Key) -> Span {
        Span {
            high: prefix.successor(),
            low: prefix,
        }
    }

    /// Whether it contains no key.
    pub(crate) fn is_empty(&self) -> bool {
        self.high.as_ref().is_some_and(|high| *high <= self.low)
    }

    /// Whether it contains `key`.
    pub(crate) fn contains(&self, key: &Key) -> bool {
        self.low <= *key && self.high.as_ref().is_none_or(|high| key < high)
    }

    /// Whether both may contain the same key.
    pub(crate) fn overlaps(&self, other: &Span) -> bool {
        !self.is_empty()
            && !other.is_empty()
            && other.high.as_ref().is_none_or(|high| self.low < *high)
            && self.high.as_ref().is_none_or(|high| other.low < *high)
    }

    /// The span as bounds for a map of keys. Must not be called on an empty span.
    pub(crate) fn bounds(&self) -> (Bound<&Key>, Bound<&Key>) {
        let high = self.high.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        (Bound::Included(&self.low), high)
    }
}

/// The smallest key above `key`.
pub(crate) fn just_above(key: &Key) -> Key {
    let mut above = key.clone();
    above.push_bytes(&[0]);
    above
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(bytes: &[u8]) -> Key {
        Key::from_bytes(bytes)
    }

    #[test]
    fn a_span_holds_the_keys_of_its_range() {
        let strings: Vec<Vec<u8>> = vec![
            vec![],
            vec![0],
            vec![0, 0],
            vec![0, 7],
            vec![7],
            vec![7, 0],
            vec![7, 255],
            vec![255],
            vec![255, 255],
        ];
        let bounds: Vec<Bound<Key>> = strings
            .iter()
            .flat_map(|s| [Bound::Included(key(s)), Bound::Excluded(key(s))])
            .chain([Bound::Unbounded])
            .collect();
        for prefix in &strings {
            for lower in &bounds {
                for upper in &bounds {
                    let range = KeyRange {
                        prefix: key(prefix),
                        lower: lower.clone(),
                        upper: upper.clone(),
                    };
                    let span = Span::of(&range);
                    for suffix in &strings {
                        let mut k = key(prefix);
                        k.push_bytes(suffix);
                        let expected = range.contains(&k);
                        assert_eq!(span.contains(&k), expected, "{range:?} {k}");
                    }
                }
            }
        }
    }

    #[test]
    fn spans_overlap_when_they_share_a_key() {
        let spans = [
            Span {
                low: key(&[1]),
                high: Some(key(&[3])),
            },
            Span {
                low: key(&[3]),
                high: Some(key(&[5])),
            },
            Span {
                low: key(&[2]),
                high: None,
            },
            Span {
                low: key(&[4]),
                high: Some(key(&[4])),
            },
        ];
        let keys: Vec<Key> = (0..8).map(|n| key(&[n])).collect();
        for a in &spans {
            for b in &spans {
                let shared = keys.iter().any(|k| a.contains(k) && b.contains(k));
                assert_eq!(a.overlaps(b), shared, "{a:?} {b:?}");
            }
        }
    }
}
