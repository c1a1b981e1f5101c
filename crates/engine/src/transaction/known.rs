//! The rows of which a transaction knows that they exist.

use anabranch_types::{Key, Patch, TableId};
use smallvec::SmallVec;

use super::ROWS_EXPECTED;

/// Rows known to exist, with their hashes.
#[derive(Default)]
pub(super) struct KnownRows {
    /// The rows' hashes.
    hashes: Vec<u64>,
    rows: Vec<KnownRow>,
    /// A Bloom filter of the hashes: a row whose bit is not set is not known.
    filter: [u64; 4],
}

/// A row known to exist. `pending` are the columns of its key that are known only at commit.
struct KnownRow {
    table: TableId,
    key: Key,
    pending: SmallVec<[Patch; 1]>,
}

impl KnownRows {
    pub(super) fn note(&mut self, table: TableId, key: &Key, pending: &[Patch]) {
        let hash = identify(table, key);
        if self.finds(hash, table, key, pending) {
            return;
        }
        if self.rows.is_empty() {
            self.hashes.reserve(ROWS_EXPECTED);
            self.rows.reserve(ROWS_EXPECTED);
        }
        let (word, bit) = filtered(hash);
        self.filter[word] |= bit;
        self.hashes.push(hash);
        self.rows.push(KnownRow {
            table,
            key: key.clone(),
            pending: SmallVec::from_slice(pending),
        });
    }

    pub(super) fn has(&self, table: TableId, key: &Key, pending: &[Patch]) -> bool {
        self.finds(identify(table, key), table, key, pending)
    }

    fn finds(&self, hash: u64, table: TableId, key: &Key, pending: &[Patch]) -> bool {
        let (word, bit) = filtered(hash);
        self.filter[word] & bit != 0
            && self.hashes.iter().zip(&self.rows).any(|(held, row)| {
                *held == hash && row.table == table && row.key == *key && *row.pending == *pending
            })
    }

    /// Forgets a row. Its bit in the filter stays, which costs a search in vain at most.
    pub(super) fn forget(&mut self, table: TableId, key: &Key) {
        while let Some(at) =
            (self.rows.iter()).position(|row| row.table == table && row.key == *key)
        {
            self.hashes.swap_remove(at);
            self.rows.swap_remove(at);
        }
    }
}

fn identify(table: TableId, key: &Key) -> u64 {
    let mix = |hash: u64, word: u64| (hash.rotate_left(5) ^ word).wrapping_mul(MULTIPLIER);
    let (head, length) = (key.head(), key.len());
    let begin = u64::from(table.0) << 32 | length as u64;
    let of_head = mix(mix(begin, (head >> 64) as u64), head as u64);
    match key.as_bytes().get(size_of::<u128>()..) {
        Some(rest) => rest
            .iter()
            .fold(of_head, |hash, byte| mix(hash, u64::from(*byte))),
        None => of_head,
    }
}

const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;

/// A hash's word and bit in [`KnownRows::filter`]: from its highest bits, which depend on all others.
fn filtered(hash: u64) -> (usize, u64) {
    ((hash >> 62) as usize, 1 << (hash >> 56 & 63))
}
