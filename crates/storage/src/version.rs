//! Versions of items, with the transactions that wrote them.

use std::fmt;

use anabranch_types::{ColumnSet, Key, Row, TableId, Timestamp};
use serde::{Deserialize, Serialize};

/// The position of a commit in the order of installation at one store. Sequences of different stores
/// are not comparable.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct CommitSequence(pub u64);

impl CommitSequence {
    /// The loaded rows, before every commit.
    pub const LOADED: CommitSequence = CommitSequence(0);
}

impl fmt::Display for CommitSequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// The versions that a read considers; it sees the newest of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadPoint {
    /// All versions.
    Newest,
    /// Versions installed up to a commit.
    Sequence(CommitSequence),
    /// Versions of transactions with timestamps up to this one.
    Timestamp(Timestamp),
}

impl From<Option<CommitSequence>> for ReadPoint {
    fn from(snapshot: Option<CommitSequence>) -> ReadPoint {
        snapshot.map_or(ReadPoint::Newest, ReadPoint::Sequence)
    }
}

/// One value of an item, with the transaction that wrote it.
#[derive(Clone, Debug)]
pub struct Version {
    pub(crate) timestamp: Timestamp,
    /// The highest timestamp among this version and all that were installed before it.
    pub(crate) timestamp_max: Timestamp,
    pub(crate) sequence: CommitSequence,
    pub(crate) row: Option<Row>,
    pub(crate) assigned: ColumnSet,
    pub(crate) older: Option<Box<Version>>,
}

impl Version {
    /// The transaction that wrote it; [`Timestamp::ZERO`] for a loaded row.
    #[inline]
    pub fn timestamp(&self) -> Timestamp {
        self.timestamp
    }

    /// The commit that installed it here.
    #[inline]
    pub fn sequence(&self) -> CommitSequence {
        self.sequence
    }

    /// The row; `None` when the transaction deleted it.
    #[inline]
    pub fn row(&self) -> Option<&Row> {
        self.row.as_ref()
    }

    /// The columns that the transaction assigned as registers; all for an insert or a delete.
    #[inline]
    pub fn assigned(&self) -> ColumnSet {
        self.assigned
    }

    /// The version installed before it, if it is kept.
    #[inline]
    pub fn older(&self) -> Option<&Version> {
        self.older.as_deref()
    }
}

/// Drops a chain link by link: recursion over the long chain of a busy item could overflow the stack.
impl Drop for Version {
    fn drop(&mut self) {
        let mut older = self.older.take();
        while let Some(mut version) = older {
            older = version.older.take();
        }
    }
}

/// The retained versions of one item, newest installed first; at least one.
#[derive(Clone, Debug)]
pub struct Item {
    pub(crate) head: Version,
    /// Whether the collector's queues have an entry for the item.
    pub(crate) queued: bool,
    /// Versions installed until the next attempt to shorten the chain.
    pub(crate) until_truncation: u32,
}

impl Item {
    /// The newest version.
    #[inline]
    pub fn latest(&self) -> &Version {
        &self.head
    }

    /// The version that a snapshot sees (`None`: the newest); `None` if the item was inserted later.
    #[inline]
    pub fn visible(&self, snapshot: Option<CommitSequence>) -> Option<&Version> {
        self.seen(snapshot.into())
    }

    #[inline]
    pub(crate) fn seen(&self, at: ReadPoint) -> Option<&Version> {
        match at {
            ReadPoint::Newest => Some(&self.head),
            ReadPoint::Sequence(snapshot) => {
                self.versions().find(|version| version.sequence <= snapshot)
            }
            ReadPoint::Timestamp(time) => self.versions().find(|version| version.timestamp <= time),
        }
    }

    /// The versions, newest installed first.
    #[inline]
    pub fn versions(&self) -> impl Iterator<Item = &Version> {
        std::iter::successors(Some(&self.head), |version| version.older())
    }
}

/// An item's name in 8 bytes: its table, and 48 bits of a hash of its key. Two items of a table share
/// a tag with a probability of 2^-48; the cost is a request for the other item in vain.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ItemTag(u64);

const HASH_BITS: u32 = 48;
const HASH_MASK: u64 = (1 << HASH_BITS) - 1;

impl ItemTag {
    /// The tag of an item.
    pub fn of(table: TableId, key: &Key) -> ItemTag {
        let hash = hash_key(key) & HASH_MASK;
        // 0 is kept for the items whose key is not yet known.
        ItemTag(u64::from(table.0) << HASH_BITS | hash.max(1))
    }

    /// The tag of an unknown item of the table, whose key a deferred effect will produce.
    pub fn unknown(table: TableId) -> ItemTag {
        ItemTag(u64::from(table.0) << HASH_BITS)
    }

    /// The item's table.
    pub fn table(self) -> TableId {
        TableId((self.0 >> HASH_BITS) as u16)
    }

    /// Whether the key was not known when the tag was made.
    pub fn is_unknown(self) -> bool {
        self.0 & HASH_MASK == 0
    }

    /// The number that goes over the wire.
    pub fn to_bits(self) -> u64 {
        self.0
    }

    /// The inverse of [`ItemTag::to_bits`].
    pub fn from_bits(bits: u64) -> ItemTag {
        ItemTag(bits)
    }
}

impl fmt::Debug for ItemTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{:012x}", self.table(), self.0 & HASH_MASK)
    }
}

/// A hash of a key, equal on every machine: multiply and fold, eight bytes at a time, padded with
/// zeros. The heads of short keys, which are most, have the padding already.
#[inline]
pub(crate) fn hash_key(key: &Key) -> u64 {
    let length = key.len();
    let begin = fold(MULTIPLIER, length as u64);
    let head = key.head();
    let (first, second) = ((head >> 64) as u64, head as u64);
    let (first, second) = (first.swap_bytes(), second.swap_bytes());
    let next = |hash: u64, word| fold(hash.rotate_left(5), word);
    let last = match length {
        0..8 => next(begin, first),
        8..16 => next(next(begin, first), second),
        16 => next(next(next(begin, first), second), 0),
        _ => return hash_long(begin, key.as_bytes()),
    };
    fold(last, MULTIPLIER)
}

fn hash_long(begin: u64, bytes: &[u8]) -> u64 {
    let mut hash = begin;
    let mut words = bytes.chunks_exact(8);
    for word in &mut words {
        hash = fold(
            hash.rotate_left(5),
            u64::from_le_bytes(word.try_into().expect("8 bytes")),
        );
    }
    let mut last = [0; 8];
    last[..words.remainder().len()].copy_from_slice(words.remainder());
    fold(
        fold(hash.rotate_left(5), u64::from_le_bytes(last)),
        MULTIPLIER,
    )
}

const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;

#[inline]
fn fold(hash: u64, word: u64) -> u64 {
    let wide = u128::from(hash ^ word) * u128::from(MULTIPLIER);
    (wide >> 64) as u64 ^ wide as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_keys_are_hashed_as_long_ones() {
        for length in 0..=24u8 {
            let bytes: Vec<u8> = (1..=length).collect();
            let begin = fold(MULTIPLIER, u64::from(length));
            let hash = hash_key(&Key::from_bytes(&bytes));
            assert_eq!(hash, hash_long(begin, &bytes), "{length} bytes");
        }
    }
}
